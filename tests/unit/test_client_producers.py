"""What the Producer and the AsyncProducer promise alike: every record is resolved, in order, whatever happens."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from lakelog import RecordMetadata
from lakelog.foundation import errors
from lakelog.transport.exchange import Answer, Outcome, Request
from tests.support.client_kinds import KINDS, Kind
from tests.support.client_wire import UNREACHABLE, store_all, stored
from tests.support.serving import wait_for

Open = Callable[..., Kind]
SECONDS = 40.0
#: A busy machine may not come to a request before its time is over; one of these is long enough for it.
NOT_TOO_SHORT = (100, 2_000, 20_000)


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest) -> Generator[Open]:
    """Opens producers of one kind, and ends them."""
    kinds: list[Kind] = []

    def start(act: Callable[[Request], Outcome | None] = lambda _: None, **settings: object) -> Kind:
        kind = KINDS[request.param]({name.replace("_", "."): value for name, value in settings.items()}, act)
        kinds.append(kind)
        return kind

    yield start
    for kind in kinds:
        kind.end()


def test_a_future_tells_where_the_record_is(opened: Open):
    producer = opened()
    future = producer.send("t", b"x", timestamp=5)
    assert not future.done()
    producer.take().answer_stored(base=7, partition=2)
    assert future.result(SECONDS) == RecordMetadata("t", 2, 7, 5)
    assert future.exception(SECONDS) is None


def test_a_request_has_the_envelope_and_the_numbers(opened: Open):
    producer = opened(linger_ms=10_000)
    producer.send("t", b"x", key=b"k", partition=1, headers={"h": None})
    producer.send("t", None)
    future = producer.send("t", b"z")
    with pytest.raises(errors.StillUnderWay):
        producer.flush(0)
    asked = producer.take()
    assert (asked.request.method, asked.request.path) == ("POST", "/topics/t")
    assert asked.request.headers["Content-Type"] == "application/vnd.kafka.binary.v2+json"
    assert (asked.request.headers["Producer-Epoch"], asked.sequence) == ("0", 0)
    assert len(asked.request.headers["Producer-Id"]) == 32
    assert asked.records == [
        {"value": "eA==", "key": "aw==", "partition": 1, "headers": [{"name": "h", "value": None}]},
        {},
        {"value": "eg=="},
    ]
    asked.answer_stored()
    assert future.result(SECONDS).offset == 2


def test_bodies_are_compressed_where_that_is_wanted(opened: Open):
    producer = opened(compression_type="gzip")
    future = producer.send("t", b"x")
    asked = producer.take()
    assert asked.request.headers["Content-Encoding"] == "gzip"
    plain = asked.request._replace(body=gzip.decompress(asked.request.body))
    asked.end(stored(plain))
    assert future.result(SECONDS).offset == 0


def test_with_acks_0_nobody_knows_where_a_record_is(opened: Open):
    producer = opened(acks="0")
    future = producer.send("t", b"x")
    asked = producer.take()
    assert asked.request.path == "/topics/t?acks=0"
    assert "Producer-Id" not in asked.request.headers
    asked.answer(202)
    assert future.result(SECONDS) == RecordMetadata("t", None, None, None)


def test_a_repeat_is_the_same_request(opened: Open):
    producer = opened()
    future = producer.send("t", b"x")
    first = producer.take()
    first.lose()
    second = producer.take()
    assert second.request._replace(timeout_s=0) == first.request._replace(timeout_s=0)
    second.answer_stored()
    assert future.result(SECONDS).offset == 0


def test_callbacks_come_in_the_order_of_the_records_though_answers_come_in_another(opened: Open):
    heard: list[Any] = []
    producer = opened(batch_size=1)
    for number in range(3):
        producer.send("t", b"x", on_delivery=lambda error, at, number=number: heard.append((number, error, at.offset)))
    asked = sorted((producer.take() for _ in range(3)), key=lambda each: each.sequence)
    for each in reversed(asked):
        each.answer_stored(base=each.sequence)
    producer.flush()
    assert heard == [(0, None, 0), (1, None, 1), (2, None, 2)]


def test_a_callback_hears_of_failures_and_one_that_fails_keeps_no_other_from_hearing(
    opened: Open, caplog: pytest.LogCaptureFixture
):
    heard: list[Any] = []
    producer = opened(lambda _: Answer(404, {}, b'{"error_code":40401,"message":"no topic"}'), linger_ms=10)
    producer.send("t", b"x", on_delivery=lambda *_: 1 / 0)
    producer.send("t", b"x", on_delivery=lambda *given: heard.append(given))
    producer.flush()
    assert "ZeroDivisionError" in caplog.text
    ((error, metadata),) = heard
    assert isinstance(error, errors.UnknownTopic)
    assert metadata is None


def test_a_flush_waits_for_the_callbacks(opened: Open):
    heard: list[int] = []
    producer = opened(store_all())
    for number in range(50):
        producer.send(f"t{number % 3}", b"x", on_delivery=lambda *_, number=number: heard.append(number))
    producer.flush()
    assert sorted(heard) == list(range(50))


def test_a_flush_that_is_not_done_in_time_says_so_and_loses_nothing(opened: Open):
    producer = opened()
    future = producer.send("t", b"x")
    with pytest.raises(errors.StillUnderWay):
        producer.flush(0.01)
    assert not future.done()
    producer.take().answer_stored()
    producer.flush()
    assert future.done()


def test_a_close_delivers_what_there_is_and_then_nothing_more(opened: Open):
    producer = opened(store_all(), linger_ms=60_000)
    futures = [producer.send("t", b"%d" % number) for number in range(100)]
    producer.close()
    assert [future.result(0).offset for future in futures] == list(range(100))
    assert producer.closed
    with pytest.raises(errors.Closed):
        producer.send("t", b"late")
    producer.close()


def test_a_close_in_time_tells_what_may_be_stored_from_what_is_not(opened: Open):
    heard: list[str] = []
    producer = opened(max_in_flight_requests_per_connection=1, batch_size=1)
    futures = [producer.send("t", b"x", on_delivery=lambda error, _: heard.append(error.outcome)) for _ in range(3)]
    asked = producer.take()
    producer.close(0.01)
    outcomes = [getattr(future.exception(SECONDS), "outcome", None) for future in futures]
    assert outcomes == ["unknown", "not_attempted", "not_attempted"]
    wait_for(lambda: heard == outcomes, "the callbacks")
    asked.answer_stored()  # nobody hears it


def test_a_full_buffer_blocks_for_a_while_and_then_refuses(opened: Open):
    producer = opened(buffer_memory=1_000, max_block_ms=30, batch_size=1)
    futures = [producer.send("t", b"x" * 400), producer.send("t", b"x" * 400)]
    with pytest.raises(errors.BufferFull) as caught:
        producer.send("t", b"x" * 400)
    assert caught.value.outcome == "not_attempted"
    for _ in futures:
        producer.take().answer_stored()
    assert [future.result(SECONDS).offset for future in futures] == [0, 0]
    producer.send("t", b"x" * 400)


def test_who_is_blocked_goes_on_as_soon_as_there_is_room(opened: Open):
    producer = opened(buffer_memory=500)
    producer.send("t", b"x" * 400)
    asked = producer.take()
    answering = threading.Timer(0.05, asked.answer_stored)
    answering.start()
    future = producer.send("t", b"y" * 400)
    answering.join()
    producer.take().answer_stored(base=1)
    assert future.result(SECONDS).offset == 1


def test_who_is_blocked_is_told_when_the_producer_is_closed(opened: Open):
    producer = opened(buffer_memory=500)
    producer.send("t", b"x" * 400)
    closing = threading.Timer(0.05, producer.close, (0.01,))
    closing.start()
    with pytest.raises(errors.Closed):
        producer.send("t", b"x" * 400)
    closing.join()


def test_a_sender_that_fails_resolves_every_future_and_takes_no_more(opened: Open, caplog: pytest.LogCaptureFixture):
    heard: list[Any] = []

    def fail(_: Request) -> Outcome:
        raise ZeroDivisionError("a fault of ours")

    producer = opened(fail)
    future = producer.send("t", b"x", on_delivery=lambda error, _: heard.append(error))
    error = future.exception(SECONDS)
    assert isinstance(error, errors.OutcomeUnknown)
    assert "a fault of ours" in str(error)
    wait_for(lambda: heard == [error], "the callback")
    with pytest.raises(errors.Closed, match="a fault of ours"):
        producer.send("t", b"x")
    assert "a producer failed" in caplog.text
    producer.close()


def test_a_server_that_is_away_is_tried_until_it_is_back(opened: Open):
    outcomes = iter([UNREACHABLE] * 5)
    answer = store_all()
    producer = opened(lambda request: next(outcomes, None) or answer(request))
    assert producer.send("t", b"x").result(SECONDS).offset == 0
    assert len(producer.requests) == 6


def test_a_server_that_stays_away_ends_with_not_stored(opened: Open):
    for patience_ms in NOT_TOO_SHORT:
        producer = opened(lambda _: UNREACHABLE, delivery_timeout_ms=patience_ms)
        error = producer.send("t", b"x").exception(SECONDS)
        if getattr(error, "last", None) is not None:
            break
    assert isinstance(error, errors.NotDelivered)
    assert isinstance(error.last, errors.Unreachable)
    assert error.outcome == "not_attempted"


def test_a_request_that_hangs_is_given_up_in_time(opened: Open):
    for patience_ms in NOT_TOO_SHORT:
        producer = opened(delivery_timeout_ms=patience_ms)
        error = producer.send("t", b"x").exception(SECONDS)
        if producer.requests:
            break
    assert isinstance(error, errors.OutcomeUnknown)
    asked = producer.take()
    assert asked.request.timeout_s <= patience_ms / 1000
    asked.answer_stored()


def test_what_can_never_be_stored_is_refused_by_send(opened: Open):
    producer = opened(store_all(), max_request_size=1_000)
    with pytest.raises(errors.RecordTooLarge):
        producer.send("t", b"x" * 1_001)
    with pytest.raises(errors.NotSerializable):
        producer.send("t", "text")
    with pytest.raises(errors.InvalidName):
        producer.send("no/topic", b"")
    with pytest.raises(errors.InvalidRecord):
        producer.send("t", b"", partition=-1)
    assert producer.send("t", b"fine").result(SECONDS).offset == 0


def test_a_partitioner_asks_for_the_number_of_partitions_once(opened: Open):
    chosen: list[Any] = []
    answer = store_all()

    def act(request: Request) -> Outcome | None:
        if request.path == "/topics/t/partitions":
            return Answer(200, {}, json.dumps([{"partition": number} for number in range(4)]).encode())
        return answer(request)

    def choose(*given: Any) -> int | None:
        chosen.append(given)
        return None if given[1] is None else 3

    producer = opened(act, partitioner=choose, linger_ms=60_000)
    producer.send("t", b"x", key=b"k")
    producer.send("t", b"x")
    producer.send("t", b"x", key=b"k", partition=1)
    producer.flush()
    assert chosen == [("t", b"k", 4), ("t", None, 4)]
    assert [request.path for request in producer.requests] == ["/topics/t/partitions", "/topics/t"]
    assert [record.get("partition") for record in json.loads(producer.requests[1].body)["records"]] == [3, None, 1]


def test_a_partitioner_that_chooses_what_is_not_there_is_refused_by_send(opened: Open):
    producer = opened(lambda _: Answer(200, {}, b"[{}]"), partitioner=lambda *_: 1)
    with pytest.raises(errors.InvalidRecord, match="chose 1, and there are 1 partitions"):
        producer.send("t", b"x", key=b"k")


def test_a_partitioner_whose_topic_is_not_there_is_refused_by_send(opened: Open):
    absent = Answer(404, {}, b'{"error_code":40401,"message":"there is no topic"}')
    producer = opened(lambda _: absent, partitioner="murmur2")
    with pytest.raises(errors.UnknownTopic):
        producer.send("t", b"x", key=b"k")


def test_partitions_that_were_known_are_good_enough_while_the_server_is_away(opened: Open):
    outcomes: list[Outcome] = [Answer(200, {}, b"[{},{}]")]
    producer = opened(
        lambda request: None if request.method == "POST" else outcomes[0],
        partitioner=lambda *given: given[2] - 1, metadata_max_age_ms=0, max_block_ms=20, linger_ms=10_000,
    )  # fmt: skip
    with pytest.raises(errors.LakelogError) as caught:
        opened(lambda _: UNREACHABLE, partitioner="md5", max_block_ms=20).send("t", b"x", key=b"k")
    assert isinstance(caught.value, errors.Unreachable)
    producer.send("t", b"x", key=b"k")
    outcomes[0] = UNREACHABLE
    producer.send("t", b"x", key=b"k")


def test_an_epoch_whose_predecessors_were_never_opened_has_them_handed_out(opened: Open):
    """Behind several batches in doubt: whoever sends late under their epochs is shut out before anything is stored."""
    doubts, current, asked = 3, 0, list[str]()

    def act(request: Request) -> Outcome:
        nonlocal current
        if request.path == "/producers":
            assert json.loads(request.body) == {"transactional_id": producer_id}
            current += 1
            asked.append(f"epoch {current}")
            return Answer(200, {}, json.dumps({"producer_id": producer_id, "epoch": current}).encode())
        epoch = int(request.headers["Producer-Epoch"])
        asked.append(f"records of {epoch}")
        if epoch > current + 1:
            return Answer(409, {}, json.dumps({"error_code": 40919, "message": "no", "current": current}).encode())
        return stored(request)

    producer = opened(max_in_flight_requests_per_connection=1, retries=0)
    first = producer.send("t", b"first")
    taken = producer.take()
    producer_id = taken.request.headers["Producer-Id"]
    taken.answer_stored()
    assert first.result(SECONDS).offset == 0
    for epoch in range(doubts):
        future = producer.send("t", b"in doubt")
        taken = producer.take()
        assert taken.request.headers["Producer-Epoch"] == str(epoch)
        taken.lose()
        assert isinstance(future.exception(SECONDS), errors.OutcomeUnknown)
    producer.wire.act = act
    assert producer.send("t", b"x").result(SECONDS).offset == 0
    assert asked == ["records of 3", "epoch 1", "epoch 2", "records of 3"]


@pytest.mark.parametrize("answer", [UNREACHABLE, Answer(503, {}, b"{}"), Answer(200, {}, b"[]"), Answer(200, {}, b"")])
def test_where_epochs_are_not_handed_out_now_the_records_wait(opened: Open, answer: Outcome):
    refused, failures = 0, 0

    def act(request: Request) -> Outcome:
        nonlocal refused, failures
        if request.path == "/producers":
            failures += 1
            return answer
        refused += 1
        if refused < 3:
            return Answer(409, {}, json.dumps({"error_code": 40919, "message": "no", "current": -2}).encode())
        return stored(request)

    producer = opened(act)
    assert producer.send("t", b"x").result(SECONDS).offset == 0
    assert (refused, failures) == (3, 2)


def test_of_several_requests_in_an_epoch_that_was_skipped_the_first_alone_has_epochs_handed_out(opened: Open):
    """If each did, they would open more than they need, and shut themselves out."""
    skipped, together, current, lock = 3, 4, 0, threading.Lock()

    def act(request: Request) -> Outcome | None:
        nonlocal current
        if held and request.path != "/producers":
            return None
        with lock:
            if request.path == "/producers":
                current += 1
                return Answer(200, {}, json.dumps({"producer_id": "p", "epoch": current}).encode())
            epoch, sequence = int(request.headers["Producer-Epoch"]), int(request.headers["Producer-Seq"])
            if epoch > current + 1:
                told = {"error_code": 40919, "message": "no", "current": current}
            elif epoch < current:
                told = {"error_code": 40912, "message": "stale", "current": current, "received": epoch}
            elif sequence != next_sequence.get(epoch, 0):
                told = {"error_code": 40911, "message": "early", "expected": 0, "received": sequence}
            else:
                current = epoch
                next_sequence[epoch] = sequence + 1
                return stored(request)
        return Answer(409, {}, json.dumps(told).encode())

    next_sequence, held = dict[int, int](), True
    producer = opened(max_in_flight_requests_per_connection=5, retries=0, batch_size=1)
    for epoch in range(skipped):
        future = producer.send("t", b"in doubt")
        taken = producer.take()
        assert taken.request.headers["Producer-Epoch"] == str(epoch)
        taken.lose()
        assert isinstance(future.exception(SECONDS), errors.OutcomeUnknown)
    producer.wire.act = act
    futures = [producer.send("t", b"x") for _ in range(together)]
    at_once = [producer.take() for _ in range(together)]
    assert [taken.sequence for taken in at_once] == list(range(together))
    held = False
    for taken in at_once:
        taken.answer(409, {"error_code": 40919, "message": "no", "current": current})
    assert all(future.result(SECONDS) for future in futures)
    assert current == skipped
