"""How topics go, and come again."""

import pytest

from delta_log import Log, LogReader, Record
from delta_log.delta.file_commits import move_log_start
from delta_log.delta.table import Table
from delta_log.model.errors import (
    LakelogError,
    PlanOutdated,
    UnknownTopic,
)
from tests.support.logs import Place, everything, hold_tables, offsets_of, values_of


def test_a_deleted_topic_is_gone_at_once(log: Log):
    log.create_topic("t")
    log.append("t", [Record(b"v")])
    log.delete_topic("t")
    assert log.topics() == []
    for use in (
        lambda: log.append("t", [Record(b"v")]),
        lambda: log.read("t", 0, 0),
        lambda: log.delete_topic("t"),
        lambda: log.alter_topic("t", {}),
        lambda: log.add_partitions("t", 5),
    ):
        with pytest.raises(UnknownTopic):
            use()


@pytest.mark.parametrize("again", ["crash", "restart", "at once"])
@pytest.mark.parametrize("tabled", [True, False])
def test_a_topic_that_comes_again_is_another_one_from_offset_0(place: Place, again: str, tabled: bool):
    log = place.open()
    first = log.create_topic("t", 3, {"segment.ms": 5})
    hold_tables(log)
    log.append("t", [Record(b"old")] * 9)
    if tabled:
        log.flush()
        log.delete_records("t", 0, 1)
    log.delete_topic("t")
    if again != "at once":
        (place.crash if again == "crash" else place.close)()
        log = place.open()
        assert log.topics() == []
    second = log.create_topic("t", 2)
    assert second.id != first.id
    assert second.config.segment_ms != 5
    assert [everything(log, "t", p) for p in range(2)] == [[], []]
    appended = log.append("t", [Record(b"new")] * 2)
    assert appended.offsets() == [0, 0]
    log.flush()
    place.crash()
    log = place.open()
    assert log.describe_topic("t").id == second.id
    assert [values_of(log, "t", p) for p in range(2)] == [[b"new"], [b"new"]]
    log.add_partitions("t", 3)
    assert log.offsets("t", 2).end_offset == 0


def test_a_plan_for_the_first_life_of_a_topic_is_refused_in_its_second(place: Place):
    log = place.open()
    first = log.create_topic("t")
    log.append("t", [Record(b"v")] * 3)
    log.flush()
    job = Table(place.root().store, "topics/t")
    job.load()
    log.delete_topic("t")
    log.create_topic("t")
    with pytest.raises(PlanOutdated):
        move_log_start(job, first.id, 0, 2, place.clock)
    assert log.offsets("t", 0).log_start_offset == 0


def test_versions_go_on_through_the_lives_of_a_topic(place: Place):
    log = place.open()
    job = Table(place.root().store, "topics/t")
    versions: list[int] = []
    for _ in range(3):
        log.create_topic("t")
        job.load()
        versions.append(job.snapshot.version)
        log.delete_topic("t")
    assert versions == sorted(set(versions))


def test_a_change_that_meets_a_deletion_does_not_undo_it(place: Place):
    log = place.open()
    log.create_topic("t")
    live = log._live("t")
    log.delete_topic("t")
    for change in (
        lambda: log._running.catalog.alter(live, {"segment.ms": 5}),
        lambda: log._running.catalog.add_partitions(live, 2),
    ):
        with pytest.raises(LakelogError):
            change()
    place.close()
    assert place.open().topics() == []


@pytest.mark.parametrize("by", ["upkeep", "who wants the name"])
def test_a_deletion_that_the_store_refused_is_made_good(place: Place, by: str):
    log = place.open()
    log.create_topic("t")
    log.append("t", [Record(b"v")])
    log.flush()
    place.fail("create", "topics/t/_delta_log", "refused")
    with pytest.raises(LakelogError):
        log.delete_topic("t")
    assert log.topics() == []
    if by == "upkeep":
        log.run_upkeep()
    assert log.create_topic("t").partitions == 1
    assert log.append("t", [Record(b"new")]).offsets() == [0]


def test_a_deletion_that_was_decided_outlives_a_clean_stop(place: Place):
    """Whether or not the stop can carry it out: who was told that the topic is gone does not find it again."""
    for times in (1, 99):
        log = place.open()
        log.create_topic("t")
        place.fail("create", "topics/t/_delta_log", "refused", times=times)
        with pytest.raises(LakelogError):
            log.delete_topic("t")
        assert log.topics() == []
        assert log.close() == (times == 1)
        place.faults.clear()
        log = place.open()
        assert log.topics() == []
        place.close()


def test_a_deletion_that_was_decided_is_carried_out_after_a_crash(place: Place):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"v")])
    place.fail("create", "topics/t/_delta_log", "refused", times=99)
    with pytest.raises(LakelogError):
        log.delete_topic("t")
    place.crash()
    log = place.open()
    log.create_topic("other")
    for _ in range(3):
        log.append("other", [Record(b"x" * 100_000)] * 2)
        log.flush()
    place.crash()
    place.faults.clear()
    log = place.open()
    assert log.topics() == ["other"]
    assert log.create_topic("t").partitions == 1
    assert offsets_of(everything(log, "t")) == []


def test_a_reader_learns_of_a_deletion_and_of_the_next_life(place: Place):
    log = place.open()
    first = log.create_topic("t")
    log.append("t", [Record(b"v")])
    log.flush()
    reader = place.reader()
    assert values_of(reader, "t") == [b"v"]
    log.delete_topic("t")
    look(reader)
    assert reader.topics() == []
    with pytest.raises(UnknownTopic):
        reader.read("t", 0, 0)
    second = log.create_topic("t", 2)
    assert reader.describe_topic("t").id == second.id != first.id
    assert reader.offsets("t", 1).end_offset == 0


def look(reader: LogReader) -> None:
    """As if a second had passed."""
    for live in reader._catalog.lives():
        live.last_follow = float("-inf")
