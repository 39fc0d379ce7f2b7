"""The door for jobs: what it does to a table beside the owner, what the owner notices, and when it gives way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from delta_log import Log, Record
from delta_log.maintenance.compaction.merge_files import MergeAnswer, MergeOrder, carry_out
from delta_log.maintenance.jobs_api import COMMIT_WITHIN_MS, Maintenance, RetentionLook, TopicMaintenance, find_due
from delta_log.model.errors import Corruption, NotARoot, OffsetOutOfRange, PlanOutdated, StorageRefused, UnknownTopic
from delta_log.model.file_bin import Bin
from delta_log.root.root import MemoryRoot
from tests.support.logs import FROM_FILES, NOW, Place, everything, hold_tables, replace_settings, values_of

HOUR = 3_600_000
DAY = 24 * HOUR


def open_door(place: Place) -> Maintenance:
    return Maintenance.open(place.root(), clock_ms=place.clock)


def topic_of(place: Place, name: str = "t") -> TopicMaintenance:
    return open_door(place).topic(name)


def fill(log: Log, files: int, count: int = 4, *, partition: int = 0, at: int | None = None) -> None:
    """So many files of so many records; the values are the offsets."""
    for _ in range(files):
        end = log.offsets("t", partition).end_offset
        log.append("t", [Record(b"%d" % n, timestamp=at, partition=partition) for n in range(end, end + count)])
        log.flush("t")


def merge(place: Place, orders: Sequence[MergeOrder]) -> list[MergeAnswer]:
    return carry_out(orders, store=place.root().store)


def files_of(log: Log, partition: int = 0) -> list[tuple[int, int]]:
    """As the owner sees them: base offset and count."""
    live = log._running.catalog.live("t")
    log._running.catalog.follow(live)
    return [(file.base_offset, file.count) for file in live.table.snapshot.files(partition)]


@pytest.fixture
def log(place: Place) -> Log:
    """Two partitions; of what is read, nothing is in memory."""
    opened = place.open(FROM_FILES)
    opened.create_topic("t", 2, {"retention.ms": DAY})
    hold_tables(opened)
    return opened


@pytest.fixture
def five(log: Log) -> Log:
    """Five files of four records in the first partition, one in the second."""
    fill(log, 5)
    fill(log, 1, partition=1)
    return log


def compact(place: Place, topic: TopicMaintenance) -> list[int]:
    bins = topic.plan_compaction(NOW + HOUR, 0)
    return [topic.settle(answer) for answer in merge(place, [topic.order(each) for each in bins])]


def test_what_is_too_old_leaves_and_the_owner_refuses_it_from_then_on(place: Place, five: Log):
    place.clock.turn(2 * DAY)
    fill(five, 1)
    topic = topic_of(place)
    gone = topic.retain(topic.plan_retention(open_door(place).agreed_now()))
    assert len(gone) == 6
    five.run_upkeep()
    assert [five.offsets("t", 0).log_start_offset, five.offsets("t", 1).log_start_offset] == [20, 4]
    assert values_of(five, "t") == [b"20", b"21", b"22", b"23"]
    assert everything(five, "t", 1) == []
    with pytest.raises(OffsetOutOfRange):
        five.read("t", 0, 19)
    five.append("t", [Record(b"next", partition=1)])
    assert five.offsets("t", 1).end_offset == 5


def test_the_owner_notices_what_happens_to_a_topic_that_nobody_writes_to(place: Place, five: Log):
    """After a start a table is followed before the first append makes it the owner's."""
    five.close()
    place.clock.turn(2 * DAY)
    again = place.open(FROM_FILES)
    assert again.offsets("t", 0).log_start_offset == 0
    topic = topic_of(place)
    topic.retain(topic.plan_retention(place.clock.now_ms))
    again._running.catalog.live("t").last_follow = float("-inf")
    again.run_upkeep()
    assert again.offsets("t", 0).log_start_offset == 20
    assert everything(again, "t") == []


def test_a_plan_is_carried_out_once_however_often_it_is_tried(place: Place, five: Log):
    place.clock.turn(2 * DAY)
    one, two = topic_of(place), topic_of(place)
    plans = [each.plan_retention(place.clock.now_ms) for each in (one, two)]
    assert plans[0] == plans[1]
    assert len(one.retain(plans[0])) == 6
    version = topic_of(place).version
    assert two.retain(plans[1]) == one.retain(plans[0]) == []
    assert topic_of(place).version == version
    assert topic_of(place).plan_retention(place.clock.now_ms) == []


def test_log_starts_of_all_partitions_move_in_one_commit_before_the_files_leave_in_another(place: Place, five: Log):
    place.clock.turn(2 * DAY)
    before = topic_of(place).version
    steps: list[tuple[str, int]] = []
    door = Maintenance.open(
        place.root(), clock_ms=place.clock, probe=lambda step: steps.append((step, topic_of(place).version))
    )
    topic = door.topic("t")
    topic.retain(topic.plan_retention(place.clock.now_ms))
    told = [step for step in steps if step[0].startswith("retention")]
    assert told == [("retention.start_moved", before + 1), ("retention.files_left", before + 2)]


def test_what_a_death_between_the_two_commits_left_below_the_log_start_leaves_next(place: Place, five: Log):
    place.clock.turn(2 * DAY)

    def die(step: str) -> None:
        if step == "retention.start_moved":
            raise KeyboardInterrupt

    topic = Maintenance.open(place.root(), clock_ms=place.clock, probe=die).topic("t")
    with pytest.raises(KeyboardInterrupt):
        topic.retain(topic.plan_retention(place.clock.now_ms))
    left = topic_of(place).plan_retention(place.clock.now_ms)
    assert [removal.why for plan in left for removal in plan.removals] == ["below the log start"] * 6
    assert len(topic_of(place).retain(left)) == 6
    assert topic_of(place).file_count == 0


def test_a_topic_that_only_compacts_loses_what_was_deleted_by_request_alone(place: Place, five: Log):
    five.alter_topic("t", {"cleanup.policy": "compact", "retention.bytes": 1})
    place.clock.turn(100 * DAY)
    assert topic_of(place).plan_retention(place.clock.now_ms) == []
    topic = topic_of(place)
    topic._table.snapshot.txns["lakelog/start/0"] = 8
    (plan,) = topic.plan_retention(place.clock.now_ms)
    assert [removal.file.base_offset for removal in plan.removals] == [0, 4]


@pytest.mark.parametrize("apart", [8 * DAY, -8 * DAY, 6 * 60_000])
def test_a_clock_that_the_store_does_not_share_is_refused(place: Place, five: Log, apart: int):
    door = Maintenance.open(place.root(), clock_ms=lambda: place.clock.now_ms + apart)
    with pytest.raises(StorageRefused, match=r"^what goes by age was refused: this host's clock"):
        door.agreed_now()


@pytest.mark.parametrize("apart", [4 * 60_000, 0, -4 * 60_000])
def test_of_two_clocks_that_nearly_agree_the_one_counts_by_which_less_is_old(place: Place, five: Log, apart: int):
    door = Maintenance.open(place.root(), clock_ms=lambda: place.clock.now_ms + apart)
    assert door.agreed_now() == place.clock.now_ms + min(0, apart)


def test_a_topic_has_the_defaults_of_the_newest_owner(place: Place):
    """A job that took its own would delete what the server is told to keep."""
    log = place.open(replace_settings(topic_defaults={"retention.ms": -1, "segment.bytes": 5_000_000}))
    log.create_topic("t")
    assert (topic_of(place).config.retention_ms, topic_of(place).config.segment_bytes) == (None, 5_000_000)
    log.close()
    place.open(replace_settings(topic_defaults={"retention.ms": DAY}))
    assert topic_of(place).config.retention_ms == DAY


def test_where_the_owners_defaults_cannot_be_read_nothing_is_guessed(place: Place, five: Log):
    store = place.root().store
    store.put(f"writers/{five.epoch:010d}.json", b"{")
    with pytest.raises(StorageRefused, match="defaults"):
        open_door(place)


def test_bytes_go_when_the_history_has_passed_and_no_sooner(place: Place, five: Log):
    five.alter_topic("t", {"lakelog.history.ms": HOUR, "file.delete.delay.ms": 60_000})
    place.clock.turn(2 * DAY)
    topic = topic_of(place)
    gone = topic.retain(topic.plan_retention(place.clock.now_ms))
    store = place.root().store
    place.clock.turn(HOUR)
    assert topic_of(place).plan_sweep(place.clock.now_ms) == []
    place.clock.turn(1)
    topic = topic_of(place)
    stale = topic.plan_sweep(place.clock.now_ms)
    assert sorted((file.path, file.size) for file in stale) == sorted((file.path, file.size) for file in gone)
    assert all(store.stat(f"topics/t/{file.path}") is not None for file in stale)
    topic.sweep(stale)
    topic.sweep(stale)
    assert all(store.stat(f"topics/t/{file.path}") is None for file in stale)
    assert topic_of(place).plan_sweep(place.clock.now_ms) == []


def test_many_files_become_one_that_holds_the_same_records(place: Place, five: Log):
    before = [everything(five, "t", index) for index in (0, 1)]
    assert len(compact(place, topic_of(place))) == 1
    assert files_of(five) == [(0, 20)]
    assert [everything(five, "t", index) for index in (0, 1)] == before
    assert topic_of(place).plan_compaction(NOW + HOUR, 0) == []


def test_the_live_edge_is_left_to_the_server(place: Place, five: Log):
    assert topic_of(place).plan_compaction(NOW + 60_000, 60_001) == []
    assert len(topic_of(place).plan_compaction(NOW + 60_000, 60_000)) == 1


def test_what_lies_below_the_log_start_is_not_merged_for_nothing(place: Place, five: Log):
    five.delete_records("t", 0, 8)
    topic = topic_of(place)
    topic._table.snapshot.txns["lakelog/start/0"] = 12
    assert [(each.base_offset, each.last_offset) for each in topic.plan_compaction(NOW + HOUR, 0)] == [(12, 19)]


def test_a_bin_of_which_somebody_took_a_file_is_given_up_and_leaves_nothing_behind(place: Place, five: Log):
    topic, store = topic_of(place), place.root().store
    (bin_,) = topic.plan_compaction(NOW + HOUR, 0)
    (answer,) = merge(place, [topic.order(bin_)])
    assert five.fold("t") == 0
    five.delete_records("t", 0, 5)
    with pytest.raises(PlanOutdated):
        topic.settle(answer)
    assert not topic.is_current(bin_)
    assert answer.file is not None
    assert store.stat(f"topics/t/{answer.file.path}") is None
    assert values_of(five, "t") == [b"%d" % n for n in range(5, 20)]


def test_of_two_who_merge_the_same_one_wins_and_the_other_leaves_nothing_behind(place: Place, five: Log):
    one, two = topic_of(place), topic_of(place)
    (bin_,) = one.plan_compaction(NOW + HOUR, 0)
    answers = merge(place, [one.order(bin_), two.order(bin_)])
    one.settle(answers[0])
    with pytest.raises(PlanOutdated):
        two.settle(answers[1])
    names = [entry.name for entry in place.root().store.list("topics/t/partition=0") if "-job-" in entry.name]
    assert [f"partition=0/{name}" for name in names] == [answers[0].order.path]
    assert values_of(five, "t") == [b"%d" % n for n in range(20)]


def test_appends_between_plan_and_commit_are_no_hindrance(place: Place, five: Log):
    topic = topic_of(place)
    (bin_,) = topic.plan_compaction(NOW + HOUR, 0)
    fill(five, 3)
    (answer,) = merge(place, [topic.order(bin_)])
    fill(five, 1)
    topic.settle(answer)
    fill(five, 1)
    assert files_of(five) == [(0, 20), (20, 4), (24, 4), (28, 4), (32, 4), (36, 4)]
    assert values_of(five, "t") == [b"%d" % n for n in range(40)]


def test_a_lost_input_is_corruption_and_one_that_was_replaced_is_not(place: Place, five: Log):
    topic, store = topic_of(place), place.root().store
    (bin_,) = topic.plan_compaction(NOW + HOUR, 0)
    data = store.read(f"topics/t/{bin_.inputs[2].path}")
    store.delete(f"topics/t/{bin_.inputs[2].path}")
    (answer,) = merge(place, [topic.order(bin_)])
    with pytest.raises(Corruption, match="missing"):
        topic.settle(answer)
    store.put(f"topics/t/{bin_.inputs[2].path}", data)
    compact(place, topic_of(place))
    for file in bin_.inputs:
        store.delete(f"topics/t/{file.path}")
    (answer,) = merge(place, [topic.order(bin_)])
    with pytest.raises(PlanOutdated):
        topic.settle(answer)


def test_a_damaged_input_is_named_and_nothing_is_stored_for_it(place: Place, five: Log):
    topic, store = topic_of(place), place.root().store
    (bin_,) = topic.plan_compaction(NOW + HOUR, 0)
    path = f"topics/t/{bin_.inputs[3].path}"
    data = bytearray(store.read(path))
    data[20] ^= 0xFF
    store.put(path, bytes(data))
    (answer,) = merge(place, [topic.order(bin_)])
    with pytest.raises(Corruption, match=bin_.inputs[3].path):
        topic.settle(answer)
    assert store.stat(f"topics/t/{answer.order.path}") is None
    assert len(files_of(five)) == 5


def test_files_that_hold_other_rows_than_the_log_says_are_not_merged(place: Place, five: Log):
    topic, store = topic_of(place), place.root().store
    (bin_,) = topic.plan_compaction(NOW + HOUR, 0)
    store.put(f"topics/t/{bin_.inputs[1].path}", store.read(f"topics/t/{bin_.inputs[2].path}"))
    for inputs in (bin_.inputs, bin_.inputs[:2], bin_.inputs[1:]):
        (answer,) = merge(place, [topic.order(Bin(inputs))])
        with pytest.raises(Corruption, match="not those"):
            topic.settle(answer)


def test_what_was_written_long_ago_is_not_committed_any_more(place: Place, five: Log):
    """Whoever sweeps files that no commit names would take it from under the commit."""
    topic = topic_of(place)
    (bin_,) = topic.plan_compaction(NOW + HOUR, 0)
    (answer,) = merge(place, [topic.order(bin_)])
    place.clock.turn(COMMIT_WITHIN_MS + 1)
    with pytest.raises(PlanOutdated, match="too long ago"):
        topic.settle(answer)
    assert place.root().store.stat(f"topics/t/{answer.order.path}") is None


def test_plans_for_a_topic_that_was_deleted_or_made_anew_come_to_nothing(place: Place, five: Log):
    topic = topic_of(place)
    plans = topic.plan_retention(NOW + 3 * DAY)
    (answer,) = merge(place, [topic.order(each) for each in topic.plan_compaction(NOW + HOUR, 0)])
    five.delete_topic("t")
    with pytest.raises(PlanOutdated):
        topic.retain(plans)
    with pytest.raises(PlanOutdated):
        topic.settle(answer)
    with pytest.raises(UnknownTopic):
        open_door(place).topic("t")
    five.create_topic("t")
    fill(five, 1)
    with pytest.raises(PlanOutdated):
        topic.retain(plans)
    assert values_of(five, "t") == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    "change", [{"retention.ms": 9 * DAY}, {"cleanup.policy": "compact"}, {"retention.bytes": 1}, {"segment.ms": HOUR}]
)
def test_what_a_topic_is_to_keep_since_it_was_planned_is_heeded(place: Place, five: Log, change: dict[str, object]):
    topic = topic_of(place)
    plans = topic.plan_retention(NOW + 3 * DAY)
    assert plans
    five.alter_topic("t", change)
    version = topic_of(place).version
    with pytest.raises(PlanOutdated, match="its settings were changed"):
        topic.retain(plans)
    assert topic_of(place).version == version


def test_other_settings_do_not_outdate_what_was_planned(place: Place, five: Log):
    topic = topic_of(place)
    plans = topic.plan_retention(NOW + 3 * DAY)
    five.alter_topic("t", {"max.message.bytes": 1000})
    assert len(topic.retain(plans)) == 6


def test_topics_with_something_to_do_are_found_by_whoever_reaches_the_root(place: Place, five: Log):
    five.create_topic("u", config={"retention.ms": -1})
    look = RetentionLook(place.root(), ("t", "u", "gone"), NOW + 3 * DAY)
    assert find_due(look) == ["t", "gone"]
    assert find_due(look._replace(now_ms=NOW)) == ["gone"]


def test_what_is_no_root_is_not_made_one():
    with pytest.raises(NotARoot):
        Maintenance.open(MemoryRoot())
