"""Thousands of lives of a log in a bucket, each from its seed: nothing acknowledged or seen is ever lost or changed.

    LAKELOG_SEEDS=100000 LAKELOG_FIRST_SEED=5000    for a long run, or another

A seed that fails is said, and kept in `simulation_seeds.txt` beside this file, whose seeds are always tried: leave it
there with what it found. Under CI=true it is only said.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch as patched

import pytest

from delta_log.delta.table import Committed, Table, Unknown
from delta_log.journal.objects import ObjectJournal
from delta_log.maintenance import background as upkeep
from tests.architecture.project_files import ROOT
from tests.conftest import IN_CI
from tests.support.serving import environment
from tests.support.simulated_lives import play

SEEDS = int(os.environ.get("LAKELOG_SEEDS", "2000"))
FIRST = int(os.environ.get("LAKELOG_FIRST_SEED", "0"))
SHARES = 8
#: So many seeds may pass until one finds out what is broken, where what happens has changed since the known one.
SEARCHED = 600
KEPT = Path(__file__).with_name("simulation_seeds.txt")
pytestmark = pytest.mark.timeout(600)


def kept_seeds() -> list[int]:
    lines = (line.partition("#")[0].strip() for line in KEPT.read_text(encoding="utf-8").splitlines())
    return [int(line) for line in lines if line]


def play_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            play(seed)
        except BaseException as error:
            error.add_note(f"seed {seed} of the simulation")
            if not IN_CI and isinstance(error, Exception) and seed not in kept_seeds():
                with KEPT.open("a", encoding="utf-8") as file:
                    file.write(f"{seed}\n")
            raise


def test_seeds_that_failed_once_fail_no_more():
    assert kept_seeds()
    play_all(kept_seeds())


@pytest.mark.parametrize("share", range(SHARES))
def test_whatever_happens_in_whatever_order_every_promise_is_kept(share: int):
    play_all(range(FIRST + share, FIRST + SEEDS, SHARES))


def test_everything_that_may_happen_does():
    happened: dict[str, int] = {}
    for seed in range(90):
        for what, times in play(seed).happened.items():
            happened[what] = happened.get(what, 0) + times
    wanted = {"acknowledged", "not_attempted", "unknown", "retained", "compacted", "a start in vain"}
    wanted |= {"made anew", "committed", "a transaction in doubt", "never committed"}
    wanted |= {f"amid a call: {what}" for what in ("newcomer", "job", "reader", "late")}
    assert wanted <= happened.keys()
    assert happened["acknowledged"] > 300


def test_a_seed_tells_the_same_story_in_every_process():
    """Else one that failed could not be looked at."""
    tell = "from tests.support.simulated_lives import play; print(*(play(seed).story.hexdigest() for seed in range(5)))"
    stories = {
        subprocess.run(
            [sys.executable, "-c", tell],
            cwd=ROOT,
            env=environment() | {"PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for salt in ("1", "2")
    }
    assert stories == {" ".join(play(seed).story.hexdigest() for seed in range(5)) + "\n"}


patch = patched.object


def take_tables_back(table: Table) -> None:
    if table._stopped is not None:
        raise table._stopped


attempt = Table._attempt


def believe(table: Table, version: int, actions: object) -> object:
    outcome = attempt(table, version, actions)  # type: ignore[arg-type]
    return Committed(version) if isinstance(outcome, Unknown) else outcome


def write_on_behind_a_doubt(journal: ObjectJournal) -> None:
    journal._doubt = []
    journal._number += 1


def put_no_fence(journal: ObjectJournal) -> list[int]:
    numbers = journal._list()
    journal._number = max(numbers, default=-1) + 1
    return numbers


def take_the_next_number(journal: ObjectJournal, number: int) -> None:
    journal._number = number + 1


#: What is broken on purpose, how, and a seed that finds it out.
BROKEN: dict[str, tuple[Callable[[], AbstractContextManager[object]], int]] = {
    "a former owner takes tables back": (lambda: patch(Table, "_check_going_on", take_tables_back), 57),
    "an unknown commit is taken for made": (lambda: patch(Table, "_attempt", believe), 120),
    "the journal goes on behind a doubt": (lambda: patch(ObjectJournal, "_settle_doubt", write_on_behind_a_doubt), 18),
    "a newcomer puts no fence": (lambda: patch(ObjectJournal, "_fence", put_no_fence), 5),
    "who lost a number takes the next": (lambda: patch(ObjectJournal, "_step_over", take_the_next_number), 1),
    "clocks are not compared": (lambda: patch(upkeep, "check_clocks"), 29),
}


def fails(seed: int) -> bool:
    try:
        play(seed, worst=True)
    except AssertionError:
        return True
    except Exception:  # noqa: BLE001 - a broken log may break in any way; what counts is a promise that was broken
        return False
    return False


@pytest.mark.parametrize("what", BROKEN)
def test_a_log_that_is_broken_on_purpose_is_found_out(what: str):
    broken, known = BROKEN[what]
    with broken():
        assert any(fails(seed) for seed in (known, *range(SEARCHED)))
