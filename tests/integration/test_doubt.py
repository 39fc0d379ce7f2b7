"""A log whose tables lose answers goes on: nothing is lost, nothing is there twice, and the owner stays the owner."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from delta_log import Log, Record
from delta_log.model.errors import OutcomeUnknown, StorageRefused
from tests.support.logs import Place, hold_tables, values_of

TOPIC = "orders"
ENTRIES = f"{TOPIC}/_delta_log/"


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "root" if request.param == "local" else None)
    yield made
    made.close()


@pytest.fixture
def log(place: Place) -> Log:
    """A topic with one record in its table, and nobody who commits but the test."""
    log = place.open()
    hold_tables(log)
    log.create_topic(TOPIC)
    log.append(TOPIC, [Record(b"0")])
    log.flush()
    return log


def nothing(_log: Log) -> None:
    pass


def follow(log: Log) -> None:
    log._running.catalog.follow(log._running.catalog.live(TOPIC))


def change_settings(log: Log) -> None:
    log.alter_topic(TOPIC, {"retention.ms": 1_000_000})


def append_more(log: Log) -> None:
    log.append(TOPIC, [Record(b"more")])


MEANWHILE: list[Callable[[Log], None]] = [nothing, follow, change_settings, append_more]


def check(log: Log, place: Place, *, more: bool) -> None:
    """All is in the table, in order, once; the log is still ours; and the next life finds the same."""
    expected = [b"0", b"1", *([b"more"] if more else []), b"last"]
    log.append(TOPIC, [Record(b"last")])
    log.flush()
    assert values_of(log, TOPIC) == expected
    table = log._running.catalog.live(TOPIC).table.snapshot
    assert sum(file.count for file in table.files(0)) == table.end(0) == len(expected)
    place.crash()
    assert values_of(place.open(), TOPIC) == expected


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("lost", ["answer lost", "request lost"])
def test_a_commit_in_doubt_is_settled_by_trying_again(lost, meanwhile, log: Log, place: Place):
    log.append(TOPIC, [Record(b"1")])
    place.fail("create", ENTRIES, lost, times=2)
    with pytest.raises(OutcomeUnknown):
        log.flush()
    meanwhile(log)
    check(log, place, more=meanwhile is append_more)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("lost", ["answer lost", "request lost"])
def test_a_refusal_after_a_lost_answer_leaves_the_doubt_as_it_is(lost, meanwhile, log: Log, place: Place):
    """The second try did not happen; what became of the first is as unknown as before."""
    log.append(TOPIC, [Record(b"1")])
    place.fail("create", ENTRIES, lost, times=2)
    with pytest.raises(OutcomeUnknown):
        log.flush()
    place.fail("create", ENTRIES, "refused")
    with pytest.raises(StorageRefused):
        log.flush()
    meanwhile(log)
    check(log, place, more=meanwhile is append_more)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_commit_that_cannot_be_read_back_at_once_is_read_back_later(meanwhile, log: Log, place: Place):
    log.append(TOPIC, [Record(b"1")])
    place.fail("read", ENTRIES, "refused")
    with pytest.raises(StorageRefused):
        log.flush()
    meanwhile(log)
    check(log, place, more=meanwhile is append_more)
