"""What a stuck or damaged table does to its topic, and not to the others; and commits of unknown outcome."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from delta_log import Log, Record
from delta_log.append.group_commit import Limits
from delta_log.model.errors import (
    Closed,
    LakelogError,
    NotAvailable,
    OutcomeUnknown,
    Overloaded,
    StorageRefused,
    TopicClosed,
)
from tests.support.logs import (
    FROM_FILES,
    Place,
    damage_next_commit,
    eventually,
    hold_tables,
    replace_settings,
    values_of,
)


def fill(log: Log, topics: list[str]) -> None:
    """Append until it is refused."""
    for i in range(100):
        try:
            log.append(topics[i % len(topics)], [Record(b"x" * 100)])
        except Overloaded:
            return
    pytest.fail("there is no bound")


def test_what_waits_for_a_stuck_table_is_bounded_and_the_others_go_on(place: Place):
    log = place.open(replace_settings(limits=Limits(topic_bytes=30_000, total_bytes=10**9)))
    log.create_topic("stuck")
    log.create_topic("well")
    place.fail("put", "topics/stuck/partition", "refused", times=10**9)
    fill(log, ["stuck"])
    held = log.offsets("stuck", 0).end_offset
    assert 5 < held < 40
    for _ in range(100):
        log.append("well", [Record(b"x" * 100)])
        log.flush("well")
    with pytest.raises(NotAvailable):
        log.flush("stuck")
    assert len(values_of(log, "stuck")) == held
    place.faults.clear()
    log.flush("stuck")
    assert log.append("stuck", [Record(b"x" * 100)]).offsets() == [held]


def test_what_waits_for_all_tables_together_is_bounded(place: Place):
    log = place.open(replace_settings(limits=Limits(total_bytes=3000)))
    topics = ["a", "b", "c"]
    for topic in topics:
        log.create_topic(topic)
    hold_tables(log)
    fill(log, topics)
    log.flush()
    assert log._running.writer.untabled == 0
    log.append("a", [Record(b"x" * 100)])


def test_who_waits_for_room_goes_on_when_there_is_room_again(place: Place):
    log = place.open(replace_settings(limits=Limits(topic_bytes=5000), max_block_s=20.0))
    log.create_topic("t")
    hold_tables(log)
    for _ in range(4):
        log.append("t", [Record(b"x" * 100)])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.append, "t", [Record(b"x" * 500)])
        eventually(waiting.running)
        log.flush("t")
        assert waiting.result(20).offsets() == [4]


def test_who_waits_for_room_is_told_when_the_log_closes(place: Place):
    log = place.open(replace_settings(limits=Limits(topic_bytes=5000), max_block_s=60.0))
    log.create_topic("t")
    hold_tables(log)
    for _ in range(4):
        log.append("t", [Record(b"x" * 100)])
    place.fail("put", "topics/t", "refused", times=10**9)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(log.append, "t", [Record(b"x" * 500)])
        eventually(waiting.running)
        log.close()
        assert isinstance(waiting.exception(20), Closed)
    place.log = None


def test_a_request_that_is_larger_than_the_bound_is_stored_alone(place: Place):
    log = place.open(replace_settings(limits=Limits(topic_bytes=1000)))
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"x" * 5000)])
    with pytest.raises(Overloaded):
        log.append("t", [Record(b"x")])


def test_a_damaged_topic_is_closed_and_named_and_the_others_go_on(place: Place):
    log = place.open()
    for topic in ("bad", "good"):
        log.create_topic(topic)
        log.append(topic, [Record(b"0")])
    log.flush()
    hold_tables(log)
    log.append("bad", [Record(b"1")])
    damage_next_commit(place, log, "bad")
    with pytest.raises(LakelogError, match="bad"):
        log.flush("bad")
    log.append("good", [Record(b"1")])
    log.flush("good")
    place.crash()
    log = place.open()
    assert log.topics() == ["bad", "good"]
    with pytest.raises(TopicClosed, match="bad"):
        log.read("bad", 0, 0)
    with pytest.raises(TopicClosed):
        log.append("bad", [Record(b"2")])
    assert values_of(log, "good") == [b"0", b"1"]
    log.append("good", [Record(b"2")])
    log.flush()
    place.close()
    log = place.open()
    assert values_of(log, "good") == [b"0", b"1", b"2"]


def test_a_topic_that_is_mended_goes_on_after_a_restart_with_all_that_was_acknowledged(place: Place):
    """Not before: the journal's records would be missing, and their offsets given out twice."""
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"0")])
    damage_next_commit(place, log, "t")
    version = log._running.catalog.live("t").table.snapshot.version + 1
    place.crash()
    log = place.open()
    with pytest.raises(TopicClosed):
        log.append("t", [Record(b"1")])
    place.root().store.delete(f"topics/t/_delta_log/{version:020d}.json")
    with pytest.raises(TopicClosed):
        log.append("t", [Record(b"1")])
    place.close()
    log = place.open()
    assert values_of(log, "t") == [b"0"]
    assert log.append("t", [Record(b"1")]).offsets() == [1]


@pytest.mark.parametrize("what", ["refused", "request lost", "answer lost"])
@pytest.mark.parametrize("times", [1, 2, 3, 5])
def test_a_commit_whose_outcome_is_unknown_is_made_exactly_once(place: Place, what: str, times: int):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"0")])
    place.fail("create", "topics/t/_delta_log", what, times=times)  # type: ignore[arg-type]
    for step in range(20):
        log.append("t", [Record(b"%d" % (step + 1))])
        log._running.catalog.follow(log._running.catalog.live("t"))
        try:
            log.flush("t")
        except (StorageRefused, OutcomeUnknown):
            continue
        break
    place.faults.clear()
    log.flush("t")
    expected = values_of(log, "t")
    assert expected == [b"%d" % i for i in range(len(expected))]
    place.crash()
    assert values_of(place.open(FROM_FILES), "t") == expected


def test_a_commit_that_cannot_be_read_back_at_once_is_not_made_again(place: Place):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"0")])
    version = log._running.catalog.live("t").table.snapshot.version + 1
    place.fail("read", f"topics/t/_delta_log/{version:020d}.json", "refused")
    with pytest.raises(StorageRefused):
        log.flush("t")
    log.append("t", [Record(b"1")])
    log.flush("t")
    assert values_of(log, "t") == [b"0", b"1"]
    place.crash()
    assert values_of(place.open(FROM_FILES), "t") == [b"0", b"1"]


def test_a_close_says_whether_everything_is_in_the_tables(place: Place):
    log = place.open()
    log.create_topic("t")
    log.append("t", [Record(b"x")])
    place.fail("put", "topics/t/partition", "refused", times=10**9)
    log.append("t", [Record(b"y")])
    assert log.close() is False
    assert log.close() is False
    place.faults.clear()
    again = place.open()
    assert values_of(again, "t") == [b"x", b"y"]
    assert again.close() is True
