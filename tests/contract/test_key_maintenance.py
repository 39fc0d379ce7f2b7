"""Key compaction beside the owner: what a pass leaves and stores, what the owner makes of it, and when it gives way."""

from __future__ import annotations

import pytest

from delta_log import Log, Record
from delta_log.delta.actions import Add, Remove, Txn
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.compaction.passes import Marks, Pass
from delta_log.maintenance.history import clean_history
from delta_log.maintenance.jobs_api import Maintenance
from delta_log.model.errors import Corruption, PlanOutdated
from delta_log.topics.job_context import COMMIT_WITHIN_MS
from tests.support.key_passes import begin, compact, finish, write
from tests.support.logs import FROM_FILES, QUIET, Place, everything, hold_tables, offsets_of

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0,
    "lakelog.fold.files": 2,
    "lakelog.history.ms": MINUTE,
}


@pytest.fixture
def log(place: Place) -> Log:
    opened = place.open(FROM_FILES)
    opened.create_topic("t", 2, CONFIG)
    hold_tables(opened)
    return opened


def put(log: Log, *records: tuple[bytes, bytes | None], partition: int = 0) -> None:
    """One commit."""
    log.append("t", [Record(value, key, partition=partition) for key, value in records])
    log.flush("t")


@pytest.fixture
def filled(log: Log) -> Log:
    """Offsets 0 to 8 in three files: 0 2 5 and 4 have been replaced, 6 is a tombstone."""
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"c", b"1"), (b"d", b"1"), (b"a", b"3"))
    put(log, (b"d", None), (b"e", b"1"), (b"a", b"4"))
    return log


def follow(log: Log) -> Log:
    """As the owner does every second."""
    log._running.catalog.follow(log._running.catalog.live("t"))
    return log


def left(log: Log, partition: int = 0) -> list[int]:
    return offsets_of(everything(follow(log), "t", partition))


def snapshot(place: Place) -> Snapshot:
    return Maintenance.open(place.root(), clock_ms=place.clock).topic("t").ground.table.snapshot


def paths(place: Place) -> list[str]:
    """What lies there, whether it is in the table or not, but for what left it."""
    names = [f"partition=0/{entry.name}" for entry in place.root().store.list("topics/t/partition=0")]
    return [name for name in names if name not in snapshot(place).removed]


def the_pass(place: Place) -> Pass:
    (one,) = begin(place)
    return one


def test_the_last_record_of_each_key_stays_at_its_offset(place: Place, filled: Log):
    (passed,) = compact(place)
    assert left(filled) == [1, 3, 6, 7, 8]
    assert [(file.base_offset, file.count) for file in passed.fresh] == [(1, 2)]
    assert begin(place) == []


def test_the_owner_reads_over_the_holes_and_its_ends_stay(place: Place, filled: Log):
    compact(place)
    follow(filled)
    for asked, first in ((0, 1), (1, 1), (2, 3), (4, 6), (5, 6), (8, 8)):
        fetched = filled.read("t", 0, asked, max_records=1)
        assert offsets_of(fetched.records()) == [first]
        assert fetched.next_offset == first + 1
    assert offsets_of(filled.read("t", 0, 0, max_bytes=1).records()) == [1]
    assert (filled.offsets("t", 0).log_start_offset, filled.offsets("t", 0).end_offset) == (0, 9)


def test_records_are_found_by_time_beside_holes(place: Place, log: Log):
    for number, key in enumerate([b"a", b"b", b"a", b"c", b"b"]):
        log.append("t", [Record(b"v", key, timestamp=1000 * number, partition=0)])
    log.flush("t")
    compact(place)
    follow(log)
    assert [log.offset_at("t", 0, 1000 * at) for at in range(5)] == [2, 2, 2, 3, 4]
    assert log.offset_at("t", 0, 4001) is None


def test_a_tombstone_at_the_very_end_stays_until_there_is_something_behind_it(place: Place, log: Log):
    """So the newest record of a partition is always there, and offsets go on behind it."""
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", None), (b"b", None))
    compact(place)
    assert left(log) == [2, 3]
    place.clock.turn(DAY + 1)
    assert begin(place) == []
    put(log, (b"c", None))
    compact(place)
    assert left(log) == [4]
    assert log.read("t", 0, 0).next_offset == 5
    log.close()
    again = place.open(FROM_FILES)
    assert again.offsets("t", 0).end_offset == 5
    assert again.append("t", [Record(b"v", b"k", partition=0)]).ranges[0].base_offset == 5


def test_what_the_owner_has_in_memory_goes_with_the_pass(place: Place):
    log = place.open(QUIET)
    log.create_topic("t", 1, CONFIG)
    put(log, (b"a", b"1"), (b"a", b"2"))
    put(log, (b"b", b"1"), (b"a", b"3"))
    one = the_pass(place)
    put(log, (b"a", b"4"))
    finish(place, one)
    assert left(log) == [2, 3, 4]


def test_a_pass_is_one_commit_with_its_marks_and_nothing_else(place: Place, filled: Log):
    before = snapshot(place)
    (passed,) = compact(place)
    topic = Maintenance.open(place.root(), clock_ms=place.clock).topic("t")
    assert topic.version == passed.version == before.version + 1
    actions = topic.ground.table._read_entry(passed.version)
    assert actions is not None
    changes = [each for each in actions if isinstance(each, Add | Remove)]
    assert all(each.data_change for each in changes)
    assert [type(each) for each in changes].count(Add) == 1
    noted = {each.app_id: each.version for each in actions if isinstance(each, Txn)}
    assert noted == {"lakelog/clean/0": 9, "lakelog/tombstones/0": 9, "lakelog/tombstones-ms/0": place.clock.now_ms}


def test_files_of_which_nothing_goes_stay_as_they_are_and_the_marks_still_move(place: Place, log: Log):
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"), (b"b", b"2"))
    put(log, (b"c", b"1"))
    before = [file.path for file in snapshot(place).files(0)]
    (passed,) = compact(place)
    after = [file.path for file in snapshot(place).files(0)]
    assert [path in after for path in before] == [True, False, True]
    assert len(passed.old) == len(passed.fresh) == 1
    put(log, (b"d", b"1"))
    (passed,) = compact(place)
    assert (passed.old, passed.fresh) == ((), ())
    assert snapshot(place).clean(0) == 5


def test_marks_outlive_folds_checkpoints_and_the_log(place: Place, filled: Log):
    compact(place)
    marks = Marks.of(snapshot(place), 0)
    assert marks.dirty_from == 9
    live = filled._running.catalog.live("t")
    for number in range(110):
        put(filled, (b"k%d" % number, b"1"))
    filled.fold("t")
    write_checkpoint(live.table)
    place.clock.turn(2 * DAY)
    clean_history(live, place.clock.now_ms)
    assert place.root().store.stat(f"topics/t/_delta_log/{2:020d}.json") is None
    assert Marks.of(snapshot(place), 0) == marks
    filled.alter_topic("t", {"cleanup.policy": "delete", "retention.ms": -1})
    assert begin(place) == []
    filled.alter_topic("t", {"cleanup.policy": "compact"})
    assert the_pass(place).before == marks


def test_a_new_life_of_a_topic_begins_with_everything_dirty(place: Place, filled: Log):
    compact(place)
    filled.delete_topic("t")
    filled.create_topic("t", 2, CONFIG)
    assert Marks.of(snapshot(place), 0) == Marks(0, None)
    for _ in range(12):
        put(filled, (b"a", b"1"), (b"a", b"2"))
    assert the_pass(place).plan.clean == ()
    compact(place)
    assert left(filled) == [23]


def test_of_two_passes_at_once_one_wins_and_the_other_leaves_nothing_behind(place: Place, filled: Log):
    one, two = the_pass(place), the_pass(place)
    write(place, one)
    write(place, two)
    assert one.commit().version == snapshot(place).version
    with pytest.raises(PlanOutdated):
        two.commit()
    assert finish(place, two) is None
    assert paths(place) == [file.path for file in snapshot(place).files(0)]
    assert left(filled) == [1, 3, 6, 7, 8]


def test_a_fold_meanwhile_costs_what_it_folded_and_not_the_pass(place: Place, filled: Log):
    one = the_pass(place)
    folds: list[int] = []
    assert finish(place, one, lambda: folds.append(filled.fold("t"))) is not None
    assert folds[0] == 1
    assert left(filled) == [1, 3, 6, 7, 8]
    assert paths(place) == [file.path for file in snapshot(place).files(0)]


def test_a_fold_over_the_horizon_leaves_what_is_above_it(place: Place, filled: Log):
    one = the_pass(place)
    put(filled, (b"a", b"5"), (b"a", b"6"))
    filled.fold("t")
    finish(place, one)
    assert left(filled) == [1, 3, 6, 7, 8, 9, 10]
    assert snapshot(place).clean(0) == 9
    compact(place)
    assert left(filled) == [1, 3, 6, 7, 10]


def test_records_deleted_meanwhile_stay_deleted(place: Place, filled: Log):
    one = the_pass(place)
    write(place, one)
    filled.delete_records("t", 0, 4)
    with pytest.raises(PlanOutdated):
        one.commit()
    assert finish(place, one) is not None
    assert left(filled) == [6, 7, 8]


def test_a_topic_deleted_meanwhile_is_left_alone(place: Place, filled: Log):
    one = the_pass(place)
    write(place, one)
    filled.delete_topic("t")
    filled.create_topic("t", 2, CONFIG)
    put(filled, (b"a", b"1"), (b"a", b"2"))
    with pytest.raises(PlanOutdated):
        one.commit()
    one.give_up()
    assert left(filled) == [0, 1]


@pytest.mark.parametrize(
    "change", [{"cleanup.policy": "delete"}, {"min.compaction.lag.ms": DAY}, {"delete.retention.ms": 9 * DAY}]
)
def test_a_topic_that_is_to_keep_more_meanwhile_keeps_everything(place: Place, filled: Log, change: dict[str, object]):
    one = the_pass(place)
    write(place, one)
    filled.alter_topic("t", change)
    version = snapshot(place).version
    with pytest.raises(PlanOutdated, match="are to keep more"):
        one.commit()
    assert finish(place, one) is None
    assert snapshot(place).version == version
    assert paths(place) == [file.path for file in snapshot(place).files(0)]
    assert left(filled) == list(range(9))


def test_a_topic_that_is_to_keep_less_meanwhile_does_not_cost_the_pass(place: Place, filled: Log):
    filled.alter_topic("t", {"min.compaction.lag.ms": 1})
    place.clock.turn(MINUTE)
    one = the_pass(place)
    filled.alter_topic("t", {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": 0, "delete.retention.ms": 1})
    assert finish(place, one) is not None
    assert left(filled) == [1, 3, 6, 7, 8]


def test_a_damaged_file_is_named_and_nothing_is_committed(place: Place, filled: Log):
    store, before = place.root().store, snapshot(place)
    path = f"topics/t/{before.files(0)[1].path}"
    data = store.read(path)
    store.put(path, data[:20] + bytes([data[20] ^ 0xFF]) + data[21:])
    with pytest.raises(Corruption, match=before.files(0)[1].path):
        begin(place)
    store.put(path, data)
    one = the_pass(place)
    store.put(path, data[:20] + bytes([data[20] ^ 0xFF]) + data[21:])
    with pytest.raises(Corruption, match=before.files(0)[1].path):
        write(place, one)
    with pytest.raises(PlanOutdated):
        one.commit()
    assert snapshot(place).version == before.version
    assert len(paths(place)) == 3


def test_a_lost_file_is_corruption_and_one_that_was_replaced_is_not(place: Place, filled: Log):
    store = place.root().store
    one = the_pass(place)
    inputs = one.plan.inputs
    data = store.read(f"topics/t/{inputs[0].path}")
    store.delete(f"topics/t/{inputs[0].path}")
    with pytest.raises(Corruption, match="missing"):
        write(place, one)
    store.put(f"topics/t/{inputs[0].path}", data)
    filled.fold("t")
    for file in inputs:
        store.delete(f"topics/t/{file.path}")
    assert finish(place, one) is not None
    assert left(filled) == [1, 3, 6, 7, 8]


def test_what_was_written_long_ago_is_not_committed_any_more(place: Place, filled: Log):
    """It may be swept away any moment, as what a job wrote and was killed before it could commit it."""
    one = the_pass(place)
    write(place, one)
    place.clock.turn(COMMIT_WITHIN_MS + 1)
    with pytest.raises(PlanOutdated, match="too long ago"):
        one.commit()
    one.give_up()
    assert len(paths(place)) == 3


def test_records_without_a_key_from_before_the_policy_stay(place: Place, log: Log):
    log.alter_topic("t", {"cleanup.policy": "delete"})
    log.append("t", [Record(b"1", partition=0), Record(None, b"a", partition=0), Record(b"2", partition=0)])
    log.flush("t")
    log.alter_topic("t", {"cleanup.policy": "compact"})
    put(log, (b"a", b"1"))
    compact(place)
    assert left(log) == [0, 2, 3]


def test_tombstones_stay_for_their_time_from_the_pass_on_and_go_with_the_next(place: Place, log: Log):
    put(log, (b"a", b"1"), (b"a", None), (b"b", b"1"))
    place.clock.turn(30 * DAY)
    compact(place)
    assert left(log) == [1, 2]
    place.clock.turn(DAY)
    put(log, (b"b", b"2"))
    compact(place)
    assert left(log) == [1, 3]
    place.clock.turn(1)
    put(log, (b"b", b"3"))
    compact(place)
    assert left(log) == [4]


def test_retention_goes_on_in_a_topic_that_does_both(place: Place, filled: Log):
    filled.alter_topic("t", {"cleanup.policy": "compact,delete", "retention.ms": DAY})
    compact(place)
    place.clock.turn(DAY + 1)
    put(filled, (b"b", b"2"))
    topic = Maintenance.open(place.root(), clock_ms=place.clock).topic("t")
    topic.retain(topic.plan_retention(place.clock.now_ms))
    assert left(filled) == [9]
    assert filled.offsets("t", 0).log_start_offset == 9
    compact(place)
    assert left(filled) == [9]
    assert topic.check_chains() == []
