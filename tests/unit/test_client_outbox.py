"""What a producer sends when: by size, by linger, by answers; and how much may wait."""

from __future__ import annotations

import pytest

from lakelog.foundation.errors import Closed, InvalidName, NotAvailable
from lakelog.produce.batch import RecordMetadata
from lakelog.produce.verdict import Later
from tests.support.client_outbox import Desk


def test_a_record_goes_at_once_when_nothing_is_under_way():
    desk = Desk()
    desk.add("t", b"1")
    attempt = desk.take()
    assert [row.value for row in attempt.payload.rows] == [b"1"]
    assert desk.take_all() == []


def test_without_linger_what_comes_meanwhile_goes_together_when_the_answer_is_there():
    desk = Desk()
    desk.add("t", b"1")
    first = desk.take()
    desk.add("t", b"2", b"3")
    assert desk.next() == desk.deadline(first)
    desk.store(first)
    assert desk.values(desk.take()) == [b"2", b"3"]


def test_another_topic_does_not_wait_for_the_first():
    desk = Desk()
    desk.add("t", b"1")
    desk.take()
    desk.add("u", b"2")
    assert desk.take().topic == "u"


def test_a_full_batch_goes_while_others_are_under_way_up_to_five():
    desk = Desk({"batch.size": 250})
    desk.add("t", *(b"%d" % n for n in range(20)), size=100)
    assert [desk.values(attempt) for attempt in desk.take_all()] == [
        [b"%d" % n, b"%d" % (n + 1)] for n in range(0, 10, 2)
    ]


def test_with_linger_a_batch_waits_for_more_and_goes_when_the_time_is_over():
    desk = Desk({"linger.ms": 20})
    desk.add("t", b"1")
    assert desk.next() == pytest.approx(desk.now + 0.02)
    desk.now += 0.015
    desk.add("t", b"2")
    assert desk.next() == pytest.approx(desk.now + 0.005)
    desk.now += 0.006
    assert desk.values(desk.take()) == [b"1", b"2"]


def test_with_linger_a_full_batch_does_not_wait():
    desk = Desk({"linger.ms": 20, "batch.size": 200})
    desk.add("t", b"1", b"2", size=100)
    assert desk.values(desk.take()) == [b"1", b"2"]


def test_a_flush_waits_for_no_linger_and_for_nothing_that_comes_later():
    desk = Desk({"linger.ms": 60_000})
    desk.add("t", b"1")
    through = desk.outbox.flush()
    first = desk.take()
    desk.add("t", b"2")
    assert desk.take_all() == []
    assert not desk.outbox.is_flushed(through)
    desk.store(first)
    assert desk.outbox.is_flushed(through)


def test_a_record_larger_than_a_batch_goes_alone():
    desk = Desk({"batch.size": 100, "linger.ms": 1_000})
    desk.add("t", b"small", size=40)
    desk.add("t", b"large", size=5_000)
    assert [desk.values(attempt) for attempt in desk.take_all()] == [[b"small"], [b"large"]]


def test_a_batch_is_never_larger_than_max_request_size():
    desk = Desk({"batch.size": 10_000, "max.request.size": 1_000, "linger.ms": 10_000})
    desk.add("t", *[b"x"] * 10, size=300)
    assert [len(desk.values(attempt)) for attempt in desk.take_all()] == [3, 3, 3]


def test_no_more_requests_are_under_way_than_allowed_over_all_topics():
    desk = Desk({"max.in.flight.requests.per.connection": 2})
    for topic in ("t", "u", "v"):
        desk.add(topic, b"1")
    first, second = desk.take_all()
    assert {first.topic, second.topic} == {"t", "u"}
    desk.store(first)
    assert desk.take().topic == "v"


def test_topics_take_turns():
    desk = Desk({"max.in.flight.requests.per.connection": 1, "batch.size": 1})
    desk.add("t", b"1", b"2", b"3")
    desk.add("u", b"4")
    order: list[str] = []
    for _ in range(4):
        attempt = desk.take()
        order.append(attempt.topic)
        desk.store(attempt)
    assert order == ["t", "u", "t", "t"]


def test_what_does_not_fit_in_memory_is_not_taken_until_something_is_decided():
    desk = Desk({"buffer.memory": 250})
    desk.add("t", b"1", b"2", size=100)
    assert not desk.try_add("t", b"3", size=100)
    desk.store(desk.take())
    assert desk.try_add("t", b"3", size=100)


def test_a_record_larger_than_the_memory_is_taken_when_there_is_nothing_else():
    desk = Desk({"buffer.memory": 100})
    assert desk.try_add("t", b"large", size=500)


def test_who_is_pressed_for_room_makes_batches_go_that_would_wait():
    desk = Desk({"buffer.memory": 250, "linger.ms": 10_000})
    desk.add("t", b"1", b"2", size=100)
    assert desk.take_all() == []
    assert not desk.try_add("t", b"3", size=100)
    assert desk.values(desk.take()) == [b"1", b"2"]


def test_an_attempt_has_no_more_time_than_its_records():
    desk = Desk({"request.timeout.ms": 30_000, "delivery.timeout.ms": 40_000})
    desk.add("t", b"1")
    attempt = desk.take()
    assert attempt.timeout_s == pytest.approx(30)
    desk.tell(attempt, Later(NotAvailable("no"), 15.0))
    desk.now += 15
    assert desk.take().timeout_s == pytest.approx(25)


def test_a_name_that_cannot_be_a_topics_is_refused_and_nothing_is_held():
    desk = Desk()
    for name in ("", "..", "a/b", "a b", "x" * 250, "ä"):
        with pytest.raises(InvalidName):
            desk.add(name, b"1")
    assert desk.outbox.held == 0
    assert not desk.outbox.outstanding


def test_what_is_aborted_before_it_was_sent_is_not_stored_and_what_is_under_way_is_unknown():
    desk = Desk({"batch.size": 1})
    sent = desk.add("t", b"1")
    desk.take()
    unsent = [desk.add("t", b"%d" % n) for n in range(10)]
    desk.outbox.abort(Closed())
    assert desk.error(sent).outcome == "unknown"
    assert {desk.error(each).outcome for each in unsent} == {"not_attempted"}
    assert desk.outbox.held == 0


def test_what_is_decided_is_heard_in_order_though_answers_come_in_another():
    desk = Desk({"batch.size": 1})
    for number in range(3):
        desk.add("t", b"%d" % number)
    first, second, third = desk.take_all()
    desk.store(third)
    desk.store(second)
    assert not desk.outbox.decided
    desk.store(first)
    assert [batch.number for batch in desk.heard] == [1, 2, 3]


def test_metadata_carry_the_timestamps_that_were_given():
    desk = Desk()
    desk.add("t", b"1")
    given = desk.add("t", b"2", timestamp=7)
    attempt = desk.take()
    assert attempt.payload.encode() == b'{"records":[{"value":"MQ=="},{"value":"Mg==","timestamp":7}]}'
    desk.store(attempt, base=5)
    assert desk.outcome(given) == RecordMetadata("t", 0, 6, 7)
