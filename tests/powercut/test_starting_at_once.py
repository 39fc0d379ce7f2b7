"""Processes that start on one root at the same moment: one of them goes on, and nobody was told what is not so."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delta_log import Log, LogReader
from tests.architecture.project_files import ROOT
from tests.support import starting_owner
from tests.support.logs import everything
from tests.support.s3_server import S3Server
from tests.support.serving import environment

RACES = 5
NAMES = ("a", "b", "c")
REPLACED = "NOT_LEADER_OR_FOLLOWER"


class Starter:
    """A process that waits for its signal, with everything imported."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, starting_owner.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            text=True,
        )

    def tell(self, **told: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it ended"
        (said,) = json.loads(line)
        return said

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture(scope="module")
def starters() -> Iterator[list[Starter]]:
    started = [Starter() for _ in NAMES]
    for starter in started:
        assert starter.hear() == "ready"
    yield started
    for starter in started:
        starter.close()


def race(starters: list[Starter], place: str, options: dict[str, str]) -> list[dict[str, Any]]:
    """All of them start; what each said."""
    for name, starter in zip(NAMES, starters, strict=True):
        starter.tell(open=place, name=name, options=options)
    return [starter.hear() for starter in starters]


def end(starters: list[Starter]) -> list[dict[str, Any]]:
    """One record more from each that is still there; what each said."""
    for starter in starters:
        starter.tell(last=True)
    return [starter.hear() for starter in starters]


def check(place: str, options: dict[str, str], said: list[dict[str, Any]]) -> None:
    """What was acknowledged is there, once, where it was said to be, and nothing else is."""
    acked = {value: offset for each in said for value, offset in each["acked"].items()}
    with LogReader.open(place, store_options=options) as reader:
        records = everything(reader, "t")
    found = [(record.value or b"").decode() for record in records]
    assert [record.offset for record in records] == list(range(len(found)))
    assert {value: found.index(value) for value in acked} == acked
    assert len(found) == len(set(found)) == len(acked)


def test_of_many_processes_that_start_at_once_on_a_bucket_one_goes_on(s3_server: S3Server, starters: list[Starter]):
    """The one with the highest epoch; what the others were told while it started is there."""
    for _ in range(RACES):
        place = s3_server.root(f"race/{uuid.uuid4().hex}")
        with Log.open(place, store_options=s3_server.options) as log:
            log.create_topic("t")
        first = race(starters, place, s3_server.options)
        last = end(starters)
        assert {each["why"] for each in (*first, *last)} <= {None, REPLACED}
        highest = max(each["epoch"] or 0 for each in first)
        assert [value for each in last for value in each["acked"]] == [f"last-{highest}"]
        check(place, s3_server.options, first + last)


def test_of_many_processes_that_start_at_once_on_a_directory_one_is_let_in(tmp_path: Path, starters: list[Starter]):
    for number in range(RACES):
        place = str(tmp_path / str(number))
        with Log.open(place) as log:
            log.create_topic("t")
        first = race(starters, place, {})
        last = end(starters)
        assert sorted(str(each["why"]) for each in first) == ["None", "ROOT_IN_USE", "ROOT_IN_USE"]
        assert len([value for each in last for value in each["acked"]]) == 1
        check(place, {}, first + last)


def test_of_many_processes_that_make_a_root_at_once_one_does(tmp_path: Path, starters: list[Starter]):
    """There is nothing yet, not even the directory."""
    place = str(tmp_path / "new" / "root")
    why = sorted(str(each["why"]) for each in race(starters, place, {}))
    end(starters)
    assert why == ["ROOT_IN_USE", "ROOT_IN_USE", "UNKNOWN_TOPIC_OR_PARTITION"]
