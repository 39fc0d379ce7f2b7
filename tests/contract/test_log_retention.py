"""What leaves a log: by request, by age, by size. Offsets go on from where they were."""

from unittest import mock

import pytest

from delta_log import Log, Record
from delta_log.delta.file_commits import move_log_start, remove_files
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.table import Table
from delta_log.model.errors import OffsetOutOfRange, StorageRefused, UnknownPartition
from tests.support.logs import FROM_FILES, Place, everything, hold_tables, offsets_of, values_of

WEEK = 7 * 24 * 3_600_000


def fill(log: Log, *counts: int, flush: bool = True) -> None:
    """So many records in each file; the values are the offsets."""
    offset = log.offsets("t", 0).end_offset
    for count in counts:
        log.append("t", [Record(b"%d" % i) for i in range(offset, offset + count)])
        offset += count
        if flush:
            log.flush()


def start(log: Log) -> int:
    return log.offsets("t", 0).log_start_offset


@pytest.fixture(params=["tabled", "journaled"])
def ten(request: pytest.FixtureRequest, place: Place) -> Place:
    """Ten records in three files, or three requests."""
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    fill(log, 4, 3, 3, flush=request.param == "tabled")
    return place


@pytest.mark.parametrize(("before", "kept"), [(0, 0), (1, 1), (4, 4), (5, 5), (9, 9), (10, 10), (-1, 10)])
def test_records_below_the_asked_offset_are_gone_for_good(ten: Place, before: int, kept: int):
    log = ten.log
    assert log is not None
    log.delete_records("t", 0, before)

    def check(log: Log) -> None:
        assert (start(log), log.offsets("t", 0).end_offset) == (kept, 10)
        assert values_of(log, "t") == [b"%d" % i for i in range(kept, 10)]
        if kept:
            with pytest.raises(OffsetOutOfRange) as refused:
                log.read("t", 0, kept - 1)
            assert (refused.value.log_start_offset, refused.value.end_offset) == (kept, 10)
        assert log.offset_at("t", 0, 0) == (kept if kept < 10 else None)

    check(log)
    log.flush()
    check(log)
    ten.crash()
    log = ten.open(FROM_FILES)
    check(log)
    table = Table(ten.root().store, "topics/t")
    table.load()
    assert all(file.base_offset >= kept for file in table.snapshot.files(0))
    assert log.append("t", [Record(b"10")]).offsets() == [10]


@pytest.mark.parametrize("before", [11, -2, 2**62])
def test_what_is_not_there_cannot_be_deleted(ten: Place, before: int):
    log = ten.log
    assert log is not None
    with pytest.raises(OffsetOutOfRange) as refused:
        log.delete_records("t", 0, before)
    assert (refused.value.log_start_offset, refused.value.end_offset) == (0, 10)
    with pytest.raises(UnknownPartition):
        log.delete_records("t", 1, 0)
    assert len(everything(log, "t")) == 10


def test_what_was_deleted_before_is_deleted_again_without_harm(ten: Place):
    """As in Kafka: an offset below the log start asks for nothing."""
    log = ten.log
    assert log is not None
    log.delete_records("t", 0, 6)
    for before in (6, 3, 0):
        plan = log.delete_records("t", 0, before)
        assert (plan.remove, plan.rewrite, plan.new_log_start) == ((), None, 6)
    assert offsets_of(everything(log, "t")) == [6, 7, 8, 9]


def test_deleting_goes_on_where_a_crash_interrupted_it(place: Place):
    log = place.open()
    log.create_topic("t")
    fill(log, 4, 3)
    place.fail("put", "topics/t/partition", "refused")
    with pytest.raises(StorageRefused):
        log.delete_records("t", 0, 5)
    assert (start(log), values_of(log, "t")) == (5, [b"5", b"6"])
    place.crash()
    log = place.open()
    assert values_of(log, "t") == [b"5", b"6"]
    log.delete_records("t", 0, 5)
    table = Table(place.root().store, "topics/t")
    table.load()
    assert [file.base_offset for file in table.snapshot.files(0)] == [5]


def test_deleting_copes_with_a_file_that_is_folded_away_under_it(place: Place):
    """The background folds when it likes."""
    folding: list[int] = []

    def fold_when_the_start_has_moved(step: str) -> None:
        if step == "table.committed" and armed and not folding:
            folding.append(0)
            folding.append(log.fold("t"))

    armed: list[bool] = []
    log = place.log = Log.open(
        place.root(), settings=FROM_FILES, clock_ms=place.clock, probe=fold_when_the_start_has_moved
    )
    log.create_topic("t", config={"lakelog.fold.files": 2})
    fill(log, 3, 3, 3, 3)
    armed.append(True)
    log.delete_records("t", 0, 7)
    assert folding[1] > 0
    assert values_of(log, "t") == [b"%d" % i for i in range(7, 12)]


def test_old_records_leave_with_their_files_and_the_end_stays(place: Place):
    log = place.open(FROM_FILES)
    log.create_topic("t", config={"retention.ms": 1200})
    for count in (2, 3, 4):
        fill(log, count)
        place.clock.turn(400)
    assert log.run_retention("t") == []
    place.clock.turn(201)
    plans = log.run_retention("t")
    assert [plan.new_log_start for plan in plans] == [2]
    assert values_of(log, "t") == [b"%d" % i for i in range(2, 9)]
    place.clock.turn(10_000)
    log.run_retention("t")
    assert (start(log), log.offsets("t", 0).end_offset) == (9, 9)
    place.close()
    log = place.open(FROM_FILES)
    assert (start(log), log.offsets("t", 0).end_offset) == (9, 9)
    assert log.append("t", [Record(b"9")]).offsets() == [9]
    assert log.run_retention("t") == []
    assert values_of(log, "t") == [b"9"]


def test_retention_by_bytes_keeps_as_much(place: Place):
    log = place.open()
    log.create_topic("t", config={"retention.ms": -1})
    fill(log, 50, 50, 50)
    files = log._running.catalog.live("t").table.snapshot.files(0)
    log.alter_topic("t", {"retention.bytes": files[1].size + files[2].size})
    assert [plan.new_log_start for plan in log.run_retention("t")] == [50]
    assert log.run_retention("t") == []
    log.alter_topic("t", {"retention.bytes": 0})
    log.run_retention("t")
    assert (start(log), log.offsets("t", 0).end_offset) == (150, 150)


def test_what_is_not_in_the_table_yet_is_not_old(place: Place):
    log = place.open()
    log.create_topic("t", config={"retention.ms": 10})
    fill(log, 3)
    hold_tables(log)
    fill(log, 2, flush=False)
    place.clock.turn(WEEK)
    log.run_retention("t")
    assert (start(log), values_of(log, "t")) == (3, [b"3", b"4"])
    log.flush()
    assert values_of(log, "t") == [b"3", b"4"]


def test_a_compacted_topic_keeps_everything_however_old(place: Place):
    log = place.open()
    log.create_topic("t", config={"cleanup.policy": "compact", "retention.ms": 1})
    log.append("t", [Record(b"v", key=b"k")])
    log.flush()
    place.clock.turn(WEEK)
    assert log.run_retention("t") == []
    assert len(everything(log, "t")) == 1


def test_retention_does_nothing_where_the_clocks_disagree(place: Place):
    log = place.open()
    log.create_topic("t", config={"retention.ms": 1})
    fill(log, 3)
    stores_time = place.clock()
    log._clock_ms = log._running.upkeep._clock_ms = lambda: stores_time + 6 * 60_000
    with pytest.raises(StorageRefused, match="clock"):
        log.run_retention("t")
    assert start(log) == 0


def test_retention_works_on_a_topic_that_was_not_used_since_the_start(place: Place):
    log = place.open()
    log.create_topic("t", config={"retention.ms": 10})
    fill(log, 3)
    place.close()
    log = place.open()
    place.clock.turn(WEEK)
    assert [plan.new_log_start for plan in log.run_retention("t")] == [3]
    assert log.append("t", [Record(b"3")]).offsets() == [3]


@pytest.mark.parametrize("in_conflict", [True, False], ids=["in a conflict", "when looking"])
def test_what_a_job_beside_us_removes_is_noticed(place: Place, in_conflict: bool):
    log = place.open(FROM_FILES)
    log.create_topic("t")
    fill(log, 3, 3)
    live = log._running.catalog.live("t")
    job = Table(place.root().store, "topics/t")
    job.load()
    move_log_start(job, live.id, 0, 3, place.clock)
    remove_files(job, live.id, job.snapshot.files(0)[:1], place.clock)
    if in_conflict:
        fill(log, 1)
    live.last_follow = float("-inf")
    log.run_upkeep()
    assert start(log) == 3
    end = log.offsets("t", 0).end_offset
    assert values_of(log, "t") == [b"%d" % i for i in range(3, end)]
    assert log.append("t", [Record(b"next")]).offsets() == [end]


def test_what_is_tabled_while_retention_plans_is_not_taken_for_old(place: Place):
    """The end that it goes by must not be newer than the files that it knows."""
    log = place.open()
    log.create_topic("t", config={"retention.ms": 10})
    fill(log, 3)
    hold_tables(log)
    place.clock.turn(WEEK)
    snapshot = log._running.catalog.live("t").table.snapshot
    real = Snapshot.files

    def commit_meanwhile(self: Snapshot, partition: int) -> object:
        files = real(self, partition)
        if self is snapshot and log.offsets("t", 0).end_offset == 3:
            fill(log, 2)
        return files

    with mock.patch.object(Snapshot, "files", commit_meanwhile):
        log.run_retention("t")
    assert (start(log), values_of(log, "t")) == (3, [b"3", b"4"])
