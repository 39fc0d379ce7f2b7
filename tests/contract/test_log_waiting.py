"""Waiting for records; and following from beside the owner."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from delta_log import Log, Record
from delta_log.model.errors import Closed, UnknownTopic
from delta_log.reader import LogReader
from tests.support.logs import (
    Place,
    eventually,
    everything,
    hold_tables,
    values_of,
)


def waiting(log: Log, topic: str = "t") -> bool:
    return bool(log._running.catalog.live(topic).tails[0].waiters)


def test_who_waits_at_the_end_is_woken_by_the_next_record(log: Log):
    log.create_topic("t")
    with ThreadPoolExecutor(3) as pool:
        reads = [pool.submit(log.read, "t", 0, 0, wait_s=20) for _ in range(3)]
        eventually(lambda: len(log._running.catalog.live("t").tails[0].waiters) == 3)
        log.append("t", [Record(b"v")])
        assert [[record.value for record in done.result(20).records()] for done in reads] == [[b"v"]] * 3
    assert not waiting(log)


def test_who_waits_in_vain_is_told_nothing_when_the_time_is_over(log: Log):
    log.create_topic("t")
    assert log.read("t", 0, 0, wait_s=0.01).count == 0
    assert not log.wait("t", 0, 0, 0.01)
    assert not waiting(log)
    log.append("t", [Record(b"v")])
    assert log.wait("t", 0, 0, 0.0)


def test_a_callback_is_called_once_and_can_be_taken_back(log: Log):
    log.create_topic("t")
    called: list[str] = []
    log.on_records("t", 0, 0, lambda: called.append("first"))
    log.on_records("t", 0, 5, lambda: called.append("later"))
    take_back = log.on_records("t", 0, 0, lambda: called.append("never"))
    take_back()
    log.append("t", [Record(b"v")])
    log.append("t", [Record(b"v")])
    assert called == ["first"]
    log.on_records("t", 0, 1, lambda: called.append("at once"))()
    assert called == ["first", "at once"]


def test_a_callback_that_fails_harms_nobody(log: Log):
    log.create_topic("t")

    def fail() -> None:
        raise RuntimeError("a loop that is closed")

    woken = threading.Event()
    log.on_records("t", 0, 0, fail)
    log.on_records("t", 0, 0, woken.set)
    assert log.append("t", [Record(b"v")]).offsets() == [0]
    assert woken.is_set()


def test_who_waits_is_let_go_when_the_topic_or_the_log_goes(place: Place):
    log = place.open()
    log.create_topic("t")
    log.create_topic("u")
    with ThreadPoolExecutor(2) as pool:
        began = time.monotonic()
        of_topic = pool.submit(log.read, "t", 0, 0, wait_s=60)
        of_log = pool.submit(log.read, "u", 0, 0, wait_s=60)
        eventually(lambda: waiting(log, "t") and waiting(log, "u"))
        log.delete_topic("t")
        assert isinstance(of_topic.exception(20), UnknownTopic)
        log.close()
        assert isinstance(of_log.exception(20), Closed)
        assert time.monotonic() - began < 30
    place.log = None


def test_a_reader_sees_what_is_in_the_tables_and_follows(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("delta_log.reader._LOOK_EVERY_S", 0.02)
    log = place.open()
    log.create_topic("t", 2)
    hold_tables(log)
    log.append("t", [Record(b"0", partition=0), Record(b"1", partition=1)])
    reader = place.reader()
    assert reader.topics() == ["t"]
    assert everything(reader, "t") == []
    log.flush()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(reader.read, "t", 0, 0, wait_s=20)
        assert [record.value for record in following.result(20).records()] == [b"0"]
    assert values_of(reader, "t", 1) == [b"1"]
    log.append("t", [Record(b"2", partition=0)])
    log.flush()
    assert reader.wait("t", 0, 1, 20)
    assert values_of(reader, "t") == [b"0", b"2"]
    assert reader.offset_at("t", 0, 0) == 0
    log.add_partitions("t", 3)
    log.delete_records("t", 0, 1)
    look(reader)
    assert reader.describe_topic("t").partitions == 3
    assert (reader.offsets("t", 0).log_start_offset, reader.offsets("t", 0).end_offset) == (1, 2)
    reader.close()
    with pytest.raises(Closed):
        reader.topics()


def look(reader: LogReader) -> None:
    """As if a second had passed."""
    for live in reader._catalog.lives():
        live.last_follow = float("-inf")


def test_a_reader_goes_on_when_a_file_was_folded_away_under_it(place: Place):
    log = place.open()
    log.create_topic("t", config={"lakelog.fold.files": 2})
    reader = place.reader()
    for i in range(2):
        log.append("t", [Record(b"%d" % i)])
        log.flush()
    look(reader)
    assert reader.offsets("t", 0).end_offset == 2
    old = [file.path for file in log._running.catalog.live("t").table.snapshot.files(0)]
    assert log.fold("t") == 1
    for path in old:
        place.root().store.delete(f"topics/t/{path}")
    assert values_of(reader, "t") == [b"0", b"1"]
    assert reader.offset_at("t", 0, place.clock()) == 0
