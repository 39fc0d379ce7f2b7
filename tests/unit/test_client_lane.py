"""How batches are numbered and repeated: stored once, in order, and what is unknown is said to be unknown."""

from __future__ import annotations

import pytest

from lakelog.foundation import errors
from lakelog.foundation.errors import (
    NotAvailable,
    NotDelivered,
    OutcomeUnknown,
    Refused,
    Said,
    SharedBatch,
    UnknownTopic,
)
from lakelog.produce import verdict
from lakelog.produce.batch import NOWHERE, RecordMetadata, Stamp
from lakelog.produce.lane import MOST_REFUSALS
from lakelog.produce.outbox import Attempt
from lakelog.produce.verdict import Ahead, Later, Stored, TooLarge, Unknown
from tests.support.client_outbox import Desk, Sent

EACH = {"batch.size": 1, "retry.backoff.ms": 100, "retry.backoff.max.ms": 1_000}
LATER = Later(NotAvailable("not now"), 0.0)
LOST = Unknown(OutcomeUnknown("storing", "cut"), 0.0)
AHEAD = Ahead(Refused("expected 0", said=Said(409, 40911, "expected 0")))


def begun(count: int, **settings: object) -> tuple[Desk, list[Sent], list[Attempt]]:
    """So many batches of one record, each under way."""
    desk = Desk(EACH | {name.replace("_", "."): value for name, value in settings.items()})
    sent = [desk.add("t", b"%d" % number) for number in range(count)]
    return desk, sent, desk.take_all()


def stamps(attempts: list[Attempt]) -> list[tuple[int, int]]:
    return [(each.stamp.epoch, each.stamp.sequence) for each in attempts if each.stamp is not None]


def test_sequences_count_records_for_each_topic_by_itself_under_an_id_of_its_own():
    desk = Desk({"batch.size": 200})
    desk.add("t", b"1", b"2", b"3", b"4", b"5", b"6", size=100)
    desk.add("u", b"1", b"2", size=100)
    attempts = desk.take_all()
    assert sorted((each.topic, each.stamp) for each in attempts) == [
        ("t", Stamp("producer 0", 0, 0)),
        ("t", Stamp("producer 0", 0, 2)),
        ("t", Stamp("producer 0", 0, 4)),
        ("u", Stamp("producer 1", 0, 0)),
    ]


def test_without_idempotence_nothing_is_numbered():
    desk, _, (attempt,) = begun(1, enable_idempotence=False)
    assert attempt.stamp is None
    desk.tell(attempt, LOST)
    desk.now += 1
    assert desk.take().stamp is None


def test_a_repeat_has_the_same_number_and_the_same_bytes():
    desk, _, (first,) = begun(1)
    first.payload.encoded = b"as it was sent"
    desk.tell(first, LOST)
    desk.now += 1
    again = desk.take()
    assert (again.stamp, again.payload) == (first.stamp, first.payload)


def test_waits_double_up_to_their_bound():
    desk, _, (attempt,) = begun(1)
    waits: list[float] = []
    for _ in range(6):
        desk.tell(attempt, LATER)
        due = desk.next()
        assert isinstance(due, float)
        waits.append(due - desk.now)
        desk.now = due
        attempt = desk.take()
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_a_server_that_says_how_long_is_not_asked_before():
    desk, _, (attempt,) = begun(1)
    desk.tell(attempt, Later(NotAvailable("not now"), 3.0))
    assert desk.next() == pytest.approx(desk.now + 3.0)


def test_nothing_is_sent_past_a_batch_that_waits_for_its_repeat():
    desk, _, (first, second) = begun(2)
    desk.tell(second, LATER)
    desk.add("t", b"new")
    assert desk.next() == pytest.approx(desk.now + 0.1)
    desk.tell(first, LATER)
    desk.now += 0.15
    assert [desk.values(each) for each in desk.take_all()] == [[b"0"], [b"1"], [b"new"]]


def test_retries_are_counted_and_what_was_surely_not_stored_is_said_so():
    desk, (sent,), (attempt,) = begun(1, retries=1)
    desk.tell(attempt, LATER)
    desk.now += 1
    desk.tell(desk.take(), LATER)
    error = desk.error(sent)
    assert isinstance(error, NotDelivered)
    assert (error.attempts, str(error.last), error.outcome) == (2, "not now", "not_attempted")


def test_one_lost_answer_among_the_attempts_makes_the_end_unknown():
    desk, (sent,), (attempt,) = begun(1, retries=1)
    desk.tell(attempt, LOST)
    desk.now += 1
    desk.tell(desk.take(), LATER)
    assert desk.error(sent).outcome == "unknown"


def test_a_refusal_after_a_lost_answer_is_no_proof():
    """The first attempt may have been stored before its topic was deleted."""
    desk, (sent,), (attempt,) = begun(1)
    desk.tell(attempt, LOST)
    desk.now += 1
    desk.tell(desk.take(), verdict.Refused(UnknownTopic("gone"), {}))
    error = desk.error(sent)
    assert error.outcome == "unknown"
    assert "gone" in str(error)


def test_what_is_too_old_is_given_up_whether_it_was_sent_or_not():
    desk = Desk({"delivery.timeout.ms": 10_000, "max.in.flight.requests.per.connection": 1, "batch.size": 1})
    sent, unsent = desk.add("t", b"0"), desk.add("t", b"1")
    attempt = desk.take()
    desk.now += 9.9
    assert desk.next() == pytest.approx(desk.now + 0.1)
    desk.now += 0.2
    assert desk.next() is None
    desk.hear()
    assert desk.error(sent).outcome == "unknown"
    assert isinstance(desk.error(unsent), NotDelivered)
    desk.store(attempt)  # too late: nobody asks any more
    assert desk.error(sent).outcome == "unknown"


def test_behind_a_batch_that_is_refused_for_sure_the_next_epoch_begins_and_the_others_are_sent_again_at_once():
    desk, sent, (first, *others) = begun(3)
    desk.tell(first, verdict.Refused(UnknownTopic("no"), {}))
    assert isinstance(desk.error(sent[0]), UnknownTopic)
    again = desk.take_all()
    assert stamps(again) == [(1, 0), (1, 1)]
    for attempt in others:
        desk.tell(attempt, AHEAD)  # what is said of the old attempts is nobody's business
    for attempt in again:
        desk.store(attempt)
    assert all(isinstance(desk.outcome(each), RecordMetadata) for each in sent[1:])


def test_a_later_batch_that_is_refused_waits_for_those_before_it_to_be_decided():
    desk, sent, (first, second, third) = begun(3)
    desk.tell(second, verdict.Refused(UnknownTopic("no"), {}))
    desk.tell(third, AHEAD)
    desk.now += 1
    assert stamps(desk.take_all()) == [], "the third cannot be stored as it is, and the first may be under way"
    desk.store(first)
    assert stamps(desk.take_all()) == [(1, 0)]
    assert isinstance(desk.error(sent[1]), UnknownTopic)


def test_after_a_doubt_nothing_new_is_begun_until_those_behind_it_are_decided():
    desk, sent, (first, second) = begun(2, retries=0)
    desk.add("t", b"new")
    third = desk.take()
    desk.tell(first, LOST)
    assert desk.error(sent[0]).outcome == "unknown"
    desk.add("t", b"newer")
    assert desk.take_all() == []
    desk.store(second)
    assert stamps(desk.take_all()) == [(0, 3)], "what is behind the doubt is stored, so it was stored itself"
    desk.store(third)


def test_after_a_doubt_that_stays_one_the_next_epoch_begins():
    desk, sent, (first,) = begun(1, retries=0)
    desk.tell(first, LOST)
    assert desk.error(sent[0]).outcome == "unknown"
    desk.add("t", b"new")
    assert stamps(desk.take_all()) == [(1, 0)]


def test_what_the_server_has_forgotten_begins_anew():
    """It was silent for a day, or its topic was deleted and made again."""
    desk, _, (first,) = begun(1)
    desk.store(first)
    sent = desk.add("t", b"1")
    attempt = desk.take()
    assert stamps([attempt]) == [(0, 1)]
    desk.tell(attempt, AHEAD)
    desk.now += 1
    again = desk.take()
    assert stamps([again]) == [(1, 0)]
    desk.store(again)
    assert isinstance(desk.outcome(sent), RecordMetadata)


def test_what_may_have_been_stored_before_the_server_forgot_is_not_sent_again():
    desk, (sent,), (first,) = begun(1)
    desk.tell(first, LOST)
    desk.now += 1
    desk.tell(desk.take(), AHEAD)
    assert desk.error(sent).outcome == "unknown"


def test_one_that_came_before_its_predecessor_is_sent_again_behind_it():
    desk, sent, (first, second) = begun(2)
    desk.tell(second, AHEAD)
    desk.tell(first, LOST)
    desk.now += 1
    again = desk.take_all()
    assert stamps(again) == [(0, 0), (0, 1)]
    for attempt in again:
        desk.store(attempt)
    assert all(isinstance(desk.outcome(each), RecordMetadata) for each in sent)


def test_bad_records_alone_are_refused_and_the_others_are_stored():
    desk = Desk({"linger.ms": 5})
    sent = [desk.add("t", b"%d" % number) for number in range(4)]
    desk.outbox.flush()
    attempt = desk.take()
    bad = {1: errors.InvalidRecord("t", "one"), 3: errors.InvalidRecord("t", "three")}
    desk.tell(attempt, verdict.Refused(bad[1], dict(bad)))
    rest = desk.take()
    assert desk.values(rest) == [b"0", b"2"]
    assert stamps([rest]) == [(1, 0)]
    desk.store(rest, base=7)
    assert [desk.outcome(each) for each in sent] == [
        RecordMetadata("t", 0, 7, None), bad[1], RecordMetadata("t", 0, 8, None), bad[3],
    ]  # fmt: skip


def test_a_batch_of_bad_records_alone_is_refused_without_another_request():
    desk, (sent,), (attempt,) = begun(1)
    error = errors.InvalidRecord("t", "bad")
    desk.tell(attempt, verdict.Refused(error, {0: error}))
    assert desk.take_all() == []
    assert desk.error(sent) is error


def test_the_rest_of_a_batch_is_not_tried_for_ever():
    desk = Desk({"linger.ms": 5})
    sent = [desk.add("t", b"%d" % number) for number in range(MOST_REFUSALS + 5)]
    desk.outbox.flush()
    for _ in range(MOST_REFUSALS + 1):
        error = errors.InvalidRecord("t", "bad")
        desk.tell(desk.take(), verdict.Refused(error, {0: error}))
    assert {type(desk.error(each)) for each in sent[-4:]} == {SharedBatch}
    assert {type(desk.error(each)) for each in sent[:-4]} == {errors.InvalidRecord}


def test_a_body_that_is_too_large_is_sent_in_halves():
    desk = Desk({"linger.ms": 5})
    sent = [desk.add("t", b"%d" % number) for number in range(3)]
    desk.outbox.flush()
    desk.tell(desk.take(), TooLarge(Refused("too large")))
    halves = desk.take_all()
    assert [desk.values(each) for each in halves] == [[b"0"], [b"1", b"2"]]
    assert stamps(halves) == [(1, 0), (1, 1)]
    desk.store(halves[1], base=1)
    desk.store(halves[0])
    assert [desk.outcome(each) for each in sent] == [RecordMetadata("t", 0, at, None) for at in range(3)]


def test_one_record_that_is_too_large_for_the_server_is_refused():
    desk, (sent,), (attempt,) = begun(1)
    desk.tell(attempt, TooLarge(Refused("too large")))
    assert str(desk.error(sent)) == "too large"


def test_with_acks_0_a_lost_answer_is_not_asked_for_again():
    desk, (sent,), (attempt,) = begun(1, acks=0)
    desk.tell(attempt, LOST)
    assert desk.error(sent).outcome == "unknown"


def test_with_acks_0_what_was_not_sent_is_sent_again():
    desk, (sent,), (attempt,) = begun(1, acks=0)
    desk.tell(attempt, LATER)
    desk.now += 1
    desk.tell(desk.take(), Stored([NOWHERE]))
    assert desk.outcome(sent) == RecordMetadata("t", None, None, None)


def test_a_producer_whose_numbers_somebody_else_uses_takes_another_id():
    desk, sent, (attempt,) = begun(1)
    desk.tell(attempt, verdict.Refused(errors.ProducerFenced("replaced"), {}, foreign=True))
    assert isinstance(desk.error(sent[0]), errors.ProducerFenced)
    desk.add("t", b"next")
    again = desk.take()
    assert again.stamp is not None
    assert again.stamp.producer_id == "producer 1"
