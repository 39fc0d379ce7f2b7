"""Idempotent producers: stored once, answered as often as asked, over crashes, folds and retention.

It is long, as a repeat may come after anything.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from delta_log import Appended, Log, OffsetRange, ProducerStamp, Record
from delta_log.delta.parquet import read_file
from delta_log.model.errors import (
    InvalidRequest,
    OutOfOrderSequence,
    ProducerEpochTooHigh,
    SequenceReused,
    StaleProducerEpoch,
    StorageRefused,
    TopicClosed,
)
from delta_log.model.partitioner import assign_partitions
from delta_log.records.idempotence import REMEMBERED
from tests.support.logs import Place, eventually, everything, hold_tables, replace_settings, values_of


def records(sequence: int, count: int = 2) -> list[Record]:
    return [Record(b"%d" % i) for i in range(sequence, sequence + count)]


def send(log: Log, sequence: int, count: int = 2, *, epoch: int = 0, name: str = "p", topic: str = "t") -> Appended:
    return log.append(topic, records(sequence, count), producer=ProducerStamp(name, epoch, sequence))


def test_a_repeat_is_answered_with_the_first_answer(place: Place):
    log = place.open()
    log.create_topic("t", 3)
    first = [send(log, i * 2) for i in range(REMEMBERED)]
    place.clock.turn(1000)
    for i, answer in enumerate(first):
        again = send(log, i * 2)
        assert again.duplicate
        assert (again.offsets(), again.partitions, again.timestamp) == (
            answer.offsets(),
            answer.partitions,
            answer.timestamp,
        )
    assert sum(len(everything(log, "t", p)) for p in range(3)) == 2 * REMEMBERED


def test_an_older_repeat_is_a_duplicate_of_unknown_offsets(log: Log):
    log.create_topic("t")
    for i in range(REMEMBERED + 1):
        send(log, i * 2)
    old = send(log, 0)
    assert (old.duplicate, old.ranges, old.offsets()) == (True, (), [])
    assert log.offsets("t", 0).end_offset == 2 * (REMEMBERED + 1)


def test_gaps_other_content_and_old_epochs_are_refused_and_change_nothing(log: Log):
    log.create_topic("t")
    send(log, 0)
    with pytest.raises(OutOfOrderSequence):
        send(log, 3)
    with pytest.raises(SequenceReused):
        log.append("t", [Record(b"other")] * 2, producer=ProducerStamp("p", 0, 0))
    send(log, 0, epoch=1)
    with pytest.raises(StaleProducerEpoch):
        send(log, 2, epoch=0)
    for made_up in (3, 2**31 - 1):
        with pytest.raises(ProducerEpochTooHigh):
            send(log, 0, epoch=made_up)
    assert send(log, 2, epoch=1).offsets() == [4, 5]


@pytest.mark.parametrize("how", ["crash", "restart"])
@pytest.mark.parametrize("tabled", [True, False])
def test_repeats_are_known_after_a_restart(place: Place, how: str, tabled: bool):
    log = place.open()
    log.create_topic("t", 2)
    hold_tables(log)
    first = [send(log, i * 2) for i in range(REMEMBERED + 3)]
    arrow = pa.table({"value": pa.array([b"a", b"b"]), "key": pa.array([b"k", None])})
    by_arrow = log.append_arrow("t", arrow, producer=ProducerStamp("q", 7, 0))
    if tabled:
        log.flush()
    (place.crash if how == "crash" else place.close)()
    log = place.open()
    for i in range(3, REMEMBERED + 3):
        assert send(log, i * 2).offsets() == first[i].offsets()
    assert send(log, 0).ranges == ()
    again = log.append_arrow("t", arrow, producer=ProducerStamp("q", 7, 0))
    assert (again.duplicate, again.offsets()) == (True, by_arrow.offsets())
    with pytest.raises(StaleProducerEpoch):
        send(log, 2, epoch=6, name="q")
    assert not send(log, 2 * (REMEMBERED + 3)).duplicate


def test_repeats_are_known_after_folds_and_retention(place: Place):
    log = place.open()
    log.create_topic("t", 1, {"lakelog.fold.files": 2, "retention.ms": 10})
    answers = []
    for i in range(30):
        answers.append(send(log, i * 2))
        send(log, i * 2, name="q")
        log.flush()
    log.run_upkeep()
    producers = log._running.writer.sequencer.producer_table
    assert producers is not None
    assert len(producers.table.snapshot.files(-1)) < 20
    place.clock.turn(1000)
    log.run_retention("t")
    assert log.offsets("t", 0).log_start_offset == 120
    place.crash()
    log = place.open()
    assert [send(log, i * 2).offsets() for i in range(25, 30)] == [answer.offsets() for answer in answers[25:]]
    assert send(log, 0).duplicate
    assert send(log, 60).offsets() == [120, 121]


def test_only_what_is_still_remembered_reaches_the_table(place: Place):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    for i in range(50):
        send(log, i * 2)
    log.flush()
    live = log._running.writer.sequencer.producer_table
    assert live is not None
    table = live.table
    files = table.snapshot.files(-1)
    assert sum(read_file(table.store, table.path(f.path), live.rows.schema).num_rows for f in files) == REMEMBERED


def test_the_same_sequence_in_flight_from_two_threads_is_stored_once(log: Log):
    log.create_topic("t", 2)
    for sequence in range(0, 40, 2):
        start = threading.Barrier(4)

        def work(sequence: int = sequence, start: threading.Barrier = start) -> Appended:
            start.wait()
            return send(log, sequence)

        with ThreadPoolExecutor(4) as pool:
            answers = [done.result() for done in [pool.submit(work) for _ in range(4)]]
        assert len({answer.ranges for answer in answers}) == 1
        assert sorted(answer.duplicate for answer in answers) == [False, True, True, True]
    assert sum(log.offsets("t", p).end_offset for p in range(2)) == 40


def test_a_repeat_after_partitions_were_added_says_where_the_records_really_are(log: Log):
    log.create_topic("t", 2)
    first = send(log, 0, 5)
    log.add_partitions("t", 3)
    again = send(log, 0, 5)
    assert (again.offsets(), again.partitions) == (first.offsets(), first.partitions)


def test_a_request_that_was_prepared_before_partitions_were_added_is_repeated_right(log: Log):
    log.create_topic("t", 2)
    stamp = ProducerStamp("p", 0, 0)
    send(log, 0, 1, name="first")
    live, request = log._prepare("t", records(0, 5), stamp)
    log.add_partitions("t", 3)
    first = log._running.writer.append(live, request)
    again = log.append("t", records(0, 5), producer=stamp)
    assert (again.offsets(), again.partitions) == (first.offsets(), first.partitions)


def test_a_repeat_after_the_partitioner_changed_still_knows_its_ranges(log: Log):
    log.create_topic("t", 4)
    stamp = ProducerStamp("p", 0, 0)
    keyed = [Record(b"v", key=b"%d" % i) for i in range(9)]
    first = log.append("t", keyed, producer=stamp)
    log.alter_topic("t", {"lakelog.partitioner": "md5"})
    again = log.append("t", keyed, producer=stamp)
    assert again.duplicate
    assert again.ranges == first.ranges
    assert again.offsets() == []


@pytest.mark.parametrize("crash", [True, False])
def test_a_repeat_that_would_be_spread_otherwise_tells_no_record_another_place(place: Place, crash: bool):
    """As many records would go to each partition, but not the same ones."""
    log = place.open()
    log.create_topic("t", 2)
    keys = [b"%d" % number for number in range(100)]
    here = dict(zip(keys, assign_partitions("murmur2", keys, 2, 0, "sticky", None)[0], strict=True))
    there = dict(zip(keys, assign_partitions("md5", keys, 2, 0, "sticky", None)[0], strict=True))
    one = next(key for key in keys if (here[key], there[key]) == (0, 1))
    other = next(key for key in keys if (here[key], there[key]) == (1, 0))
    sent, stamp = [Record(b"v", key=one), Record(b"w", key=other)], ProducerStamp("p", 0, 0)
    first = log.append("t", sent, producer=stamp)
    assert log.append("t", sent, producer=stamp).partitions == first.partitions == (0, 1)
    log.alter_topic("t", {"lakelog.partitioner": "md5"})
    if crash:
        log.flush()
        place.crash()
        log = place.open()
    again = log.append("t", sent, producer=stamp)
    assert (again.duplicate, again.ranges, again.partitions) == (True, first.ranges, ())


def test_sequences_begin_anew_with_the_next_life_of_a_topic(place: Place):
    log = place.open()
    log.create_topic("t")
    send(log, 0)
    log.delete_topic("t")
    log.create_topic("t")
    with pytest.raises(OutOfOrderSequence):
        send(log, 2)
    assert send(log, 0).ranges == (OffsetRange(0, 0, 2),)
    place.crash()
    log = place.open()
    assert send(log, 0).duplicate
    assert values_of(log, "t") == [b"0", b"1"]


def test_one_producer_has_a_sequence_in_each_topic(log: Log):
    for topic in ("t", "u"):
        log.create_topic(topic)
        assert send(log, 0, topic=topic).offsets() == [0, 1]
        assert send(log, 0, topic=topic).duplicate


def test_who_is_silent_for_long_is_forgotten(place: Place):
    log = place.open(replace_settings(producer_expiration_ms=1000))
    log.create_topic("t")
    send(log, 0)
    place.clock.turn(2000)
    log.run_upkeep()
    with pytest.raises(OutOfOrderSequence):
        send(log, 2)


def test_a_request_that_the_journal_refused_was_never_sent(place: Place):
    log = place.open()
    log.create_topic("t")
    send(log, 0)
    real = log._running.journal.append
    inside, go_on = threading.Event(), threading.Event()

    def refuse(*_: object) -> None:
        inside.set()
        assert go_on.wait(20)
        raise StorageRefused("the journal", "a test")

    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    turns = log._running.writer.turns
    with ThreadPoolExecutor(5) as pool:
        leader = pool.submit(send, log, 0, 2, name="other")
        assert inside.wait(20)
        rest = [pool.submit(send, log, sequence) for sequence in (0, 2, 2)]
        eventually(lambda: len(turns._queue) == 3)
        go_on.set()
        assert isinstance(leader.exception(20), StorageRefused)
        answers = [done.exception(20) or done.result() for done in rest]
    stored = [answer for answer in answers if isinstance(answer, Appended)]
    assert [(answer.offsets(), answer.duplicate) for answer in stored] == [([0, 1], True)]
    assert sum(isinstance(answer, StorageRefused | OutOfOrderSequence) for answer in answers) == 2
    log._running.journal.append = real  # type: ignore[method-assign]
    assert send(log, 2).offsets() == [2, 3]
    assert not send(log, 0, name="other").duplicate


def test_a_repeat_of_what_is_only_under_way_is_not_called_stored_when_that_fails(place: Place):
    """Six requests share a group, so the first is forgotten there already; it is not stored for all that."""
    log = place.open()
    log.create_topic("t")
    send(log, 0)
    real = log._running.journal.append
    inside, go_on = threading.Event(), threading.Event()

    def refuse(*_: object) -> None:
        inside.set()
        assert go_on.wait(20)
        raise StorageRefused("the journal", "a test")

    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    turns = log._running.writer.turns
    sequences = [*range(2, 2 * (REMEMBERED + 2), 2), 2, 0]
    with ThreadPoolExecutor(len(sequences) + 1) as pool:
        leader = pool.submit(send, log, 0, 2, name="other")
        assert inside.wait(20)
        waiting = []
        for sequence in sequences:
            waiting.append(pool.submit(send, log, sequence))
            eventually(lambda: turns.waiting == len(waiting))
        go_on.set()
        assert isinstance(leader.exception(20), StorageRefused)
        assert [type(done.exception(20)) for done in waiting] == [StorageRefused] * len(sequences)
    log._running.journal.append = real  # type: ignore[method-assign]
    assert [send(log, sequence).offsets() for sequence in (2, 4)] == [[2, 3], [4, 5]]


def test_a_stamp_that_cannot_be_leaves_no_trace(log: Log):
    log.create_topic("t")
    for stamp in (ProducerStamp("p", 2**31, 0), ProducerStamp("p", 0, 2**63), ProducerStamp("\ud800", 0, 0)):
        with pytest.raises(InvalidRequest):
            log.append("t", [Record(b"v")], producer=stamp)
    assert log.append("t", [Record(b"v")]).offsets() == [0]
    log.flush()


def test_plain_records_go_on_where_the_memory_of_producers_is_damaged(place: Place):
    log = place.open()
    log.create_topic("t")
    send(log, 0)
    log.flush()
    place.crash()
    place.fail("read", "topics/__producers/_delta_log", "missing", times=10**9)
    fault = place.fail("open_input", "topics/__producers/", "missing", times=10**9)
    log = place.open()
    assert log.append("t", [Record(b"plain")]).offsets() == [2]
    with pytest.raises(TopicClosed):
        send(log, 2)
    assert fault.times > 0
    place.faults.clear()
    with pytest.raises(TopicClosed):
        send(log, 2)
    place.close()
    assert send(place.open(), 2).offsets() == [3, 4]
