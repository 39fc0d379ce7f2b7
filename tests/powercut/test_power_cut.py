"""The power goes at any moment: what was acknowledged, or seen by a reader, is there when it comes back."""

from pathlib import Path

import pytest

from tests.support.cuts import CUTS, SEED, check_cuts, record, record_killed


def test_nothing_that_was_promised_is_lost_when_the_power_goes(tmp_path: Path):
    recording = record(tmp_path / "root", turns=40, seed=SEED)
    assert check_cuts(recording, tmp_path, cuts=CUTS, seed=SEED) == []


@pytest.mark.parametrize("life", range(3))
def test_nothing_is_lost_when_the_power_goes_after_a_kill(tmp_path: Path, life: int):
    """A kill leaves what nobody synced in the page cache, where the next life finds it and may rely on it."""
    recording = record_killed(tmp_path / "root", turns=14, seed=SEED + life)
    assert check_cuts(recording, tmp_path, cuts=CUTS // 3, seed=SEED + life) == []
