"""Idempotent producers: what is new, what is a repeat, and what breaks the rules."""

import pytest

from delta_log.append.early_requests import MOST_PARKED, EarlyRequests, Parked
from delta_log.model.errors import OutOfOrderSequence, ProducerEpochTooHigh, SequenceReused, StaleProducerEpoch
from delta_log.model.types import OffsetRange, ProducerStamp
from delta_log.records.idempotence import (
    MOST_FIRST_EPOCH,
    REMEMBERED,
    New,
    ProducerRow,
    Producers,
    Repeat,
    is_later,
    survivors,
)

LAST = 2**31 - 1


def row(
    sequence: int,
    count: int = 1,
    *,
    producer: str = "p",
    topic: str = "t",
    epoch: int = 0,
    digest: bytes = b"",
    at: int = 0,
) -> ProducerRow:
    digest = digest or b"%d" % sequence
    return ProducerRow(producer, topic, topic, epoch, sequence, count, digest, 1, ((0, sequence, count),), at)


def decide(
    producers: Producers, sequence: int, count: int = 1, *, epoch: int = 0, digest: bytes = b"", topic: str = "t"
) -> New | Repeat:
    return producers.decide(topic, ProducerStamp("p", epoch, sequence), count, digest or b"%d" % sequence)


def knowing(*rows: ProducerRow) -> Producers:
    producers = Producers()
    for known in rows:
        producers.replay(known)
    return producers


def test_an_unknown_producer_starts_at_sequence_0_with_an_epoch_of_its_own_count():
    for epoch in (0, 7, MOST_FIRST_EPOCH):
        assert decide(Producers(), 0, epoch=epoch) == New()
    for epoch in (MOST_FIRST_EPOCH + 1, LAST):
        with pytest.raises(ProducerEpochTooHigh) as refused:
            decide(Producers(), 0, epoch=epoch)
        assert (refused.value.current, refused.value.received) == (-1, epoch)


@pytest.mark.parametrize("topic", ["t", "other"])
def test_a_known_producer_goes_on_in_its_epoch_or_the_next_and_in_none_that_is_made_up(topic: str):
    producers = knowing(row(0, epoch=4))
    assert decide(producers, 0, epoch=5, topic=topic) == New()
    for epoch in (6, MOST_FIRST_EPOCH, LAST):
        for sequence in (0, 1):
            with pytest.raises(ProducerEpochTooHigh) as refused:
                decide(producers, sequence, epoch=epoch, topic=topic)
            assert (refused.value.current, refused.value.received) == (4, epoch)
    assert decide(producers, 1, epoch=4) == New()


def test_every_epoch_that_was_handed_out_is_taken():
    producers = knowing(row(0, epoch=4))
    for _ in range(3):
        producers.replay(producers.decide_bump("p", 0))
    assert decide(producers, 0, epoch=7) == New()
    producers.replay(producers.decide_bump("p", 1, reserves=True))
    assert producers.decide_reserved("p", 2) == 9
    producers.open_reserved("p", 9)
    assert decide(producers, 0, epoch=9) == New()
    assert decide(producers, 0, epoch=10) == New()
    with pytest.raises(ProducerEpochTooHigh):
        decide(producers, 0, epoch=11)
    with pytest.raises(OutOfOrderSequence) as refused:
        decide(Producers(), 3)
    assert (refused.value.expected, refused.value.received) == (0, 3)


def test_sequences_count_records():
    producers = knowing(row(0, 10))
    assert decide(producers, 10) == New()
    with pytest.raises(OutOfOrderSequence) as refused:
        decide(producers, 11)
    assert (refused.value.expected, refused.value.received) == (10, 11)


def test_a_repeat_of_one_of_the_last_five_is_known_with_its_offsets():
    rows = [row(i * 3, 3) for i in range(REMEMBERED)]
    producers = knowing(*rows)
    for known in rows:
        assert decide(producers, known.sequence, 3) == Repeat(known)
    assert rows[1].offset_ranges() == (OffsetRange(0, 3, 3),)


def test_an_older_repeat_is_known_to_be_stored_and_no_more():
    producers = knowing(*(row(i * 3, 3) for i in range(REMEMBERED + 2)))
    assert decide(producers, 0, 3) == Repeat(None)
    assert decide(producers, 3, 3) == Repeat(None)
    assert decide(producers, 6, 3) != Repeat(None)


@pytest.mark.parametrize(("sequence", "count", "digest"), [(0, 3, b"other"), (0, 2, b""), (1, 2, b""), (2, 9, b"")])
def test_a_sequence_is_not_used_for_other_content(sequence: int, count: int, digest: bytes):
    with pytest.raises(SequenceReused):
        decide(knowing(row(0, 3), row(3, 3)), sequence, count, digest=digest)


def test_a_request_that_begins_among_the_forgotten_and_reaches_into_the_remembered_is_no_repeat():
    producers = knowing(*(row(i * 3, 3) for i in range(REMEMBERED + 1)))
    with pytest.raises(SequenceReused):
        decide(producers, 0, 4)


def test_an_old_epoch_is_refused_in_every_topic():
    producers = knowing(row(0, epoch=4))
    for topic in ("t", "other"):
        with pytest.raises(StaleProducerEpoch) as refused:
            decide(producers, 1, epoch=3, topic=topic)
        assert (refused.value.current, refused.value.received) == (4, 3)


def test_a_new_epoch_starts_at_0_again_and_forgets_the_old_requests():
    producers = knowing(row(0), row(1))
    assert decide(producers, 0, epoch=1) == New()
    with pytest.raises(OutOfOrderSequence):
        decide(producers, 2, epoch=1)
    producers.replay(row(0, epoch=1))
    assert decide(producers, 1, epoch=1) == New()
    assert [known.epoch for known in producers.rows()] == [1]


def test_topics_and_producers_have_sequences_of_their_own():
    producers = knowing(row(0), row(1))
    assert decide(producers, 0, topic="other") == New()
    assert producers.decide("t", ProducerStamp("q", 0, 0), 1, b"") == New()


def test_what_was_not_stored_after_all_is_undone_in_reverse():
    before = [row(i) for i in range(REMEMBERED)]
    producers = knowing(*before)
    undo = [producers.replay(new) for new in (row(5), row(6), row(0, epoch=3), row(0, producer="q"))]
    for step in reversed(undo):
        producers.undo(step)
    assert producers.rows() == before
    assert decide(producers, 5) == New()
    assert producers.decide("t", ProducerStamp("q", 0, 0), 1, b"") == New()


def test_a_deleted_topic_is_forgotten_but_not_who_wrote_to_it():
    producers = knowing(row(0, epoch=2), row(0, epoch=2, topic="other"))
    producers.forget_topic("t")
    assert [known.topic for known in producers.rows()] == ["other"]
    assert decide(producers, 0, epoch=2) == New()
    with pytest.raises(StaleProducerEpoch):
        decide(producers, 0, epoch=1)


def test_who_was_silent_for_long_is_forgotten_with_its_epoch():
    producers = knowing(row(0, epoch=5, at=10), row(0, producer="q", epoch=5, at=20))
    producers.expire(20)
    assert [known.producer_id for known in producers.rows()] == ["q"]
    assert decide(producers, 0, epoch=0) == New()
    with pytest.raises(StaleProducerEpoch):
        producers.decide("t", ProducerStamp("q", 4, 0), 1, b"")


def test_a_producer_that_writes_to_one_topic_keeps_its_epoch_when_another_expires():
    producers = knowing(row(0, epoch=5, at=10), row(0, epoch=5, topic="other", at=30))
    producers.expire(20)
    with pytest.raises(StaleProducerEpoch):
        decide(producers, 0, epoch=4)


def test_survivors_are_the_last_five_of_each_producer_and_topic_and_keep_their_order():
    rows = [row(i, topic=topic, producer=name) for i in range(7) for topic in "tu" for name in "pq"]
    kept = survivors(rows)
    assert kept == rows[8:]
    assert survivors(kept) == kept
    assert knowing(*kept).rows() == knowing(*rows).rows()


def test_survivors_of_a_new_epoch_displace_those_of_the_old():
    rows = [row(0), row(1), row(0, epoch=1), row(0, producer="q")]
    assert survivors(rows) == rows[2:]


def test_survivors_of_a_silence_hold_the_row_that_says_the_epoch():
    rows = [row(0, epoch=2, at=30), row(0, topic="other", epoch=5, at=10), row(0, producer="q", at=10)]
    assert survivors(rows, 20) == rows[:2]
    assert survivors(rows, 31) == []


def test_the_last_row_of_a_producer_says_its_epoch():
    """One with a smaller epoch than before was stored after the producer was forgotten."""
    producers = knowing(row(0, epoch=5), row(0, epoch=5, topic="other"), row(0, epoch=0))
    assert decide(producers, 1, epoch=0) == New()
    assert decide(producers, 0, epoch=0, topic="other") == New()
    with pytest.raises(ProducerEpochTooHigh):
        decide(producers, 0, epoch=5)


def test_a_producer_that_begins_anew_in_the_same_epoch_leaves_nothing_of_before():
    producers = knowing(*(row(i * 3, 3) for i in range(REMEMBERED)), row(0, 3, digest=b"new"))
    assert [known.digest for known in producers.rows()] == [b"new"]
    assert decide(producers, 3) == New()
    with pytest.raises(SequenceReused):
        decide(producers, 1)


def test_a_bump_opens_the_next_epoch_and_begins_at_0_in_each_topic():
    producers = knowing(row(0, epoch=4), row(0, epoch=4, topic="other"))
    bumped = producers.decide_bump("p", 77)
    assert (bumped.epoch, bumped.count, bumped.topic_id, bumped.timestamp_ms) == (5, 0, "", 77)
    undo = producers.replay(bumped)
    for topic in ("t", "other", "third"):
        assert decide(producers, 0, epoch=5, topic=topic) == New()
        with pytest.raises(StaleProducerEpoch):
            decide(producers, 1, epoch=4, topic=topic)
    producers.undo(undo)
    assert decide(producers, 1, epoch=4) == New()
    assert producers.decide_bump("unknown", 0).epoch == 0


def test_only_the_newest_bump_survives():
    producers = Producers()
    for _ in range(7):
        producers.replay(producers.decide_bump("p", 0))
    assert [known.epoch for known in producers.rows()] == [6]


@pytest.mark.parametrize("reserves", [False, True])
def test_behind_the_last_epoch_there_is_the_count_goes_on_above_all_that_was_counted(reserves: bool):
    """As in a log of before the rule: a producer in epoch 4, and somebody who sent its id with the last of all."""
    producers = knowing(row(0, epoch=4), row(0, epoch=LAST, topic="other"))
    with pytest.raises(StaleProducerEpoch):
        decide(producers, 1, epoch=4)
    assert producers.decide_reserved("p", 0) is None
    opened: list[int] = []
    for at in range(3):
        bump = producers.decide_bump("p", at, reserves=reserves)
        producers.replay(bump)
        opened.append(bump.epoch)
        assert bump.count >= 0
    assert opened == [2**29, 2**29 + 1, 2**29 + 2]
    for topic in ("t", "other", "third"):
        assert decide(producers, 0, epoch=bump.epoch, topic=topic) == New()
    with pytest.raises(StaleProducerEpoch):
        decide(producers, 1, epoch=4)
    with pytest.raises(ProducerEpochTooHigh):
        decide(producers, 1, epoch=LAST, topic="other")
    again = knowing(*survivors([row(0, epoch=4), row(0, epoch=LAST, topic="other"), bump]))
    again.close_reserved()
    assert again.epoch_of("p") == bump.last_epoch
    with pytest.raises(ProducerEpochTooHigh):
        decide(again, 1, epoch=LAST, topic="other")


def test_a_floor_of_an_earlier_count_does_not_bring_it_back():
    producers = knowing(row(0, epoch=LAST))
    producers.replay(producers.decide_bump("p", 0, LAST + 1, reserves=True))
    assert producers.epoch_of("p") == 2**29
    assert producers.decide_bump("p", 1, LAST).epoch == 2**29 + 1
    assert producers.decide_bump("p", 1, 9).epoch == 2**29 + 1
    assert producers.decide_bump("p", 1, 2**29 + 9).epoch == 2**29 + 9
    assert producers.decide_bump("unknown", 1, LAST).epoch == LAST


def test_what_was_reserved_ends_with_the_count():
    producers = knowing(row(0, epoch=LAST - 3))
    for at in (0, 1):
        producers.replay(producers.decide_bump("p", at, reserves=True))
    assert producers.decide_reserved("p", 2) == LAST
    producers.open_reserved("p", LAST)
    bump = producers.decide_bump("p", 3, reserves=True)
    undo = producers.replay(bump)
    assert (producers.epoch_of("p"), bump.count) == (2**29, 0)
    producers.undo(undo)
    assert producers.epoch_of("p") == LAST


@pytest.mark.parametrize(
    ("epoch", "other", "later"),
    [
        (1, 0, True),
        (0, 0, False),
        (0, 1, False),
        (2**29, LAST, True),
        (LAST, 2**29, False),
        (0, -1, True),
        (-1, 0, False),
    ],
)
def test_an_epoch_is_later_also_where_the_count_began_again(epoch: int, other: int, later: bool):
    assert is_later(epoch, other) is later


@pytest.mark.parametrize(
    ("epoch", "sequence", "ahead"),
    [(1, 2, False), (1, 3, True), (1, 0, False), (2, 0, False), (2, 1, True), (0, 9, False)],
)
def test_only_a_request_whose_predecessor_may_still_come_is_ahead(epoch: int, sequence: int, ahead: bool):
    assert knowing(row(0, 2, epoch=1)).is_ahead("t", ProducerStamp("p", epoch, sequence)) is ahead


@pytest.mark.parametrize(
    ("epoch", "sequence", "plain"), [(1, 2, True), (1, 3, False), (1, 0, False), (2, 0, False), (0, 2, False)]
)
def test_what_is_plainly_next_is_new_and_neither_a_repeat_nor_early(epoch: int, sequence: int, plain: bool):
    producers = knowing(row(0, 2, epoch=1))
    assert producers.is_plainly_next(("p", "t"), ProducerStamp("p", epoch, sequence)) is plain
    assert not producers.is_plainly_next(("p", "u"), ProducerStamp("p", epoch, sequence))
    undo = producers.open_reserved("p", 2)
    assert not producers.is_plainly_next(("p", "t"), ProducerStamp("p", 1, 2)), "it is shut out"
    with pytest.raises(StaleProducerEpoch):
        producers.decide("t", ProducerStamp("p", 1, 2), 1, b"")
    producers.undo(undo)
    producers.replay(row(0, 1, epoch=2, topic="u"))
    assert not producers.is_plainly_next(("p", "t"), ProducerStamp("p", 1, 2)), "by a request elsewhere, too"


def test_parking_has_four_places_for_a_producer_in_a_topic_and_wakes_those_that_may_go_on():
    producers, woken = Producers(), []
    parking = EarlyRequests(producers)

    def parked(sequence: int, topic: str = "t", name: str = "p") -> Parked:
        return Parked(topic, ProducerStamp(name, 0, sequence), lambda: woken.append((name, topic, sequence)))

    several = [parked(sequence) for sequence in range(1, MOST_PARKED + 1)]
    assert all(parking.enter(one) for one in several)
    assert not parking.enter(parked(9))
    assert parking.enter(parked(1, "other"))
    assert parking.enter(parked(1, "t", "q"))
    assert parking.must_wait(several[0])
    producers.replay(row(0, 2))
    parking.look_again(["p"])
    assert woken == [("p", "t", 1), ("p", "t", 2)]
    assert not parking.must_wait(several[0])
    parking.leave(several[0])
    assert parking.enter(parked(9))
    parking.close()
    assert len(woken) == 2 + MOST_PARKED + 2
    assert not parking.must_wait(several[-1])
