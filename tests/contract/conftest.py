"""Every law of the log is tried on a disk and in memory; nothing that a test starts may outlive it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_log import Log
from tests.support.logs import Place, eventually, our_threads


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "root" if request.param == "local" else None)
    yield made
    made.close()
    eventually(lambda: not our_threads(), "the end of every thread")


@pytest.fixture
def log(place: Place) -> Log:
    return place.open()
