"""What a transaction of the Producer and of the AsyncProducer says to a server, and makes of what it hears.

Past 300 lines, as every answer that a server can give is played here.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import pytest

from lakelog import GroupOffsets, OffsetAndMetadata, RecordMetadata, TopicPartition
from lakelog.foundation import errors
from lakelog.produce.batch import Place
from lakelog.transactions.requests import Range, Stored, place_records
from lakelog.transport.exchange import Answer, AnswerLost, Outcome, Request
from tests.support.client_kinds import KINDS, Kind
from tests.support.client_wire import UNREACHABLE

Open = Callable[..., Kind]
SECONDS = 20.0
LOST = AnswerLost("cut")


def answer(status: int, **body: Any) -> Answer:
    return Answer(status, {}, json.dumps(body).encode())


def no(status: int, code: int, **facts: Any) -> Answer:
    return answer(status, error_code=code, message=f"code {code}", **facts)


NOT_NOW = no(503, 503, outcome="not_attempted", retriable=True)


class Server:
    """Takes everything into partition 0, unless it was told to say something else first."""

    def __init__(self) -> None:
        self.first: dict[str, deque[Outcome]] = {}
        self.asked: list[Request] = []
        self._begun = 0
        self._kept: list[tuple[str, int]] = []

    def says(self, route: str, *outcomes: Outcome) -> None:
        """`route` is the last part of a path."""
        self.first[route] = deque(outcomes)

    def count(self, route: str) -> int:
        return sum(self._route(request) == route for request in self.asked)

    def sent(self, topic: str) -> list[Request]:
        return [request for request in self.asked if self._route(request) == topic]

    def __call__(self, request: Request) -> Outcome:
        self.asked.append(request)
        route = self._route(request)
        if told := self.first.get(route):
            return told.popleft()
        if route == "transactions":
            self._begun, self._kept = self._begun + 1, []
            return answer(200, id=f"t{self._begun}", producer_id="copier", epoch=self._begun, timeout_ms=1)
        if route == "commit":
            ends: Counter[str] = Counter()
            requests: list[dict[str, Any]] = []
            for topic, count in self._kept:
                requests.append(
                    {"topic": topic, "ranges": [{"partition": 0, "base_offset": ends[topic], "count": count}]}
                )
                ends[topic] += count
            return answer(200, id="t", state="committed", requests=requests)
        if route in ("abort", "offsets"):
            return answer(200)
        count = len(json.loads(request.body)["records"])
        self._kept.append((route, count))
        return answer(202, offsets=[{"partition": 0, "offset": None}] * count)

    @staticmethod
    def _route(request: Request) -> str:
        return request.path.rpartition("/")[2]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, server: Server) -> Generator[Open]:
    kinds: list[Kind] = []

    def start(**settings: object) -> Kind:
        given = {"transactional.id": "copier"} | {name.replace("_", "."): value for name, value in settings.items()}
        kinds.append(KINDS[request.param](given, server))
        return kinds[-1]

    yield start
    for kind in kinds:
        kind.end()


def test_records_are_numbered_by_topic_and_have_offsets_when_the_block_is_left(opened: Open, server: Server):
    producer = opened(batch_size=200, transaction_timeout_ms=5000)
    with producer.transaction():
        futures = [producer.send(topic, b"%d" % number) for number in range(5) for topic in ("a", "b")]
        producer.flush()
        assert not any(future.done() for future in futures)
    assert json.loads(server.asked[0].body) == {"transactional_id": "copier", "timeout_ms": 5000}
    for topic in ("a", "b"):
        numbers = [int(request.headers["Producer-Seq"]) for request in server.sent(topic)]
        counts = [len(json.loads(request.body)["records"]) for request in server.sent(topic)]
        assert numbers == [sum(counts[:place]) for place in range(len(counts))]
        assert len(counts) > 1
        for request in server.sent(topic):
            assert (request.headers["Transaction-Id"], request.headers["Producer-Id"]) == ("t1", "copier")
            assert request.headers["Producer-Epoch"] == "1"
    assert futures[9].result(SECONDS) == RecordMetadata("b", 0, 4, None)
    with producer.transaction():
        again = producer.send("a", b"x", timestamp=7)
    assert server.sent("a")[-1].headers["Producer-Seq"] == "0"
    assert again.result(SECONDS) == RecordMetadata("a", 0, 0, 7)


def test_the_buffer_goes_out_when_it_is_full(opened: Open, server: Server):
    producer = opened(buffer_memory=200)
    with producer.transaction():
        for number in range(9):
            producer.send(f"t{number % 3}", b"x" * 30)
        assert len(server.asked) > 2
    assert server.count("commit") == 1


def test_an_exception_aborts_and_the_futures_say_so(opened: Open, server: Server):
    producer, heard = opened(), []
    with pytest.raises(ValueError, match="mine"), producer.transaction():
        future = producer.send("a", b"x", on_delivery=lambda error, metadata: heard.append((error, metadata)))
        raise ValueError("mine")
    assert (server.count("a"), server.count("commit"), server.count("abort")) == (0, 0, 1)
    error = future.exception(SECONDS)
    assert isinstance(error, errors.TransactionAborted)
    assert heard == [(error, None)]


@pytest.mark.parametrize("route", ["transactions", "a", "offsets", "commit"])
def test_what_is_not_answered_is_asked_again(opened: Open, server: Server, route: str):
    server.says(route, NOT_NOW, LOST, UNREACHABLE, no(504, 50401), NOT_NOW)
    producer = opened()
    with producer.transaction() as transaction:
        future = producer.send("a", b"x")
        transaction.send_offsets("g", {("a", 0): 3})
    assert server.count(route) == 6
    assert len({(request.body, request.headers.get("Producer-Seq")) for request in server.sent(route)}) == 1
    assert future.result(SECONDS).offset == 0


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, 40914, errors.TransactionFenced),
        (409, 40915, errors.TransactionTimedOut),
        (409, 40916, errors.TransactionAborted),
        (409, 40917, errors.TransactionError),
        (413, 41301, errors.TransactionTooLarge),
        (404, 40405, errors.UnknownTransaction),
    ],
)
@pytest.mark.parametrize("route", ["a", "offsets", "commit"])
def test_a_refusal_is_raised_by_its_name_and_nothing_is_stored(
    opened: Open, server: Server, route: str, status: int, code: int, kind: type[errors.LakelogError]
):
    server.says(route, no(status, code, size=9, limit=5))
    producer = opened()
    with pytest.raises(kind) as caught, producer.transaction() as transaction:
        future = producer.send("a", b"x")
        transaction.send_offsets("g", {("a", 0): 3})
    assert type(caught.value) is kind
    assert future.exception(SECONDS) is caught.value
    assert caught.value.outcome == "not_attempted"
    assert server.count("abort") == 1
    if isinstance(caught.value, errors.TransactionTooLarge):
        assert (caught.value.size, caught.value.limit) == (9, 5)


@pytest.mark.parametrize("refusal", [no(404, 40403), no(409, 40904)])
@pytest.mark.parametrize("route", ["offsets", "commit"])
def test_a_group_that_went_on_is_said_to_have(opened: Open, server: Server, route: str, refusal: Answer):
    server.says(route, refusal)
    producer = opened()
    with pytest.raises(errors.CommitFailed), producer.transaction() as transaction:
        transaction.send_offsets("g", {("a", 0): 3})
    assert server.count("abort") == 1


def test_of_a_commit_that_nobody_answers_the_outcome_is_unknown(opened: Open, server: Server):
    server.says("commit", LOST, *[NOT_NOW] * 10_000)
    producer = opened(max_block_ms=50)
    with pytest.raises(errors.OutcomeUnknown) as caught, producer.transaction():
        future = producer.send("a", b"x")
    assert future.exception(SECONDS) is caught.value
    assert server.count("abort") == 0


def test_a_commit_that_was_never_taken_is_not_done(opened: Open, server: Server):
    server.says("commit", *[NOT_NOW] * 10_000)
    producer = opened(max_block_ms=50)
    with pytest.raises(errors.NotAvailable), producer.transaction():
        pass
    assert server.count("abort") == 1


def test_after_a_lost_answer_only_who_knows_the_transaction_is_believed(opened: Open, server: Server):
    producer = opened()
    for said, kind in ((no(409, 40916), errors.TransactionAborted), (no(404, 40405), errors.OutcomeUnknown)):
        server.says("commit", LOST, said)
        with pytest.raises(kind), producer.transaction():
            pass


def test_records_that_nobody_takes_fail_the_whole_transaction_for_sure(opened: Open, server: Server):
    server.says("a", *[LOST] * 10_000)
    producer = opened(delivery_timeout_ms=50)
    with pytest.raises(errors.NotAvailable) as caught, producer.transaction():
        producer.send("a", b"x")
    assert caught.value.outcome == "not_attempted"
    assert (server.count("commit"), server.count("abort")) == (0, 1)


def test_a_refused_record_is_blamed_and_the_others_are_aborted_even_if_the_caller_goes_on(opened: Open, server: Server):
    server.says("a", no(422, 422, errors=[{"index": 1, "message": "no"}]))
    producer = opened()
    with pytest.raises(errors.InvalidRecord), producer.transaction():
        good, bad = producer.send("a", b"x"), producer.send("a", b"y")
        with pytest.raises(errors.InvalidRecord):
            producer.flush()
        with pytest.raises(errors.InvalidRecord):
            producer.send("b", b"z")
    assert isinstance(good.exception(SECONDS), errors.TransactionAborted)
    assert isinstance(bad.exception(SECONDS), errors.InvalidRecord)
    assert (server.count("commit"), server.count("abort")) == (0, 1)


def test_a_producer_with_a_transactional_id_sends_in_one_transaction_at_a_time(opened: Open):
    producer = opened()
    with pytest.raises(errors.IllegalState):
        producer.send("a", b"x")
    with producer.transaction() as transaction:
        with pytest.raises(errors.IllegalState), producer.transaction():
            pass
        producer.send("a", b"x")
    with pytest.raises(errors.IllegalState):
        transaction.send_offsets("g", {("a", 0): 3})
    with pytest.raises(errors.IllegalState):
        producer.send("a", b"x")


def test_without_a_transactional_id_there_is_no_transaction(server: Server):
    for kind in KINDS.values():
        producer = kind({}, server)
        with pytest.raises(errors.IllegalState, match=r"transactional\.id"):
            producer.transaction()
        producer.end()


@pytest.mark.parametrize("setting", [{"acks": "0"}, {"enable.idempotence": False}])
def test_transactions_need_numbers(server: Server, setting: Mapping[str, object]):
    with pytest.raises(errors.InvalidSetting, match=r"transactional\.id"):
        KINDS["threads"](setting | {"transactional.id": "x"}, server)


def test_a_close_aborts_what_is_open(opened: Open, server: Server):
    producer = opened()
    with pytest.raises(errors.Closed), producer.transaction():
        future = producer.send("a", b"x")
        producer.close()
    assert isinstance(future.exception(SECONDS), errors.Closed)
    assert (server.count("commit"), server.count("abort")) == (0, 1)
    with pytest.raises(errors.Closed), producer.transaction():
        pass


class Reader:
    """What a Consumer answers."""

    def group_offsets(self, offsets: Any) -> GroupOffsets:
        assert offsets is None
        return GroupOffsets("g", "ann", 4, {TopicPartition("a", 1): OffsetAndMetadata(7, "note")})


def test_offsets_go_with_the_member_and_its_generation(opened: Open, server: Server):
    producer = opened()
    with producer.transaction() as transaction:
        transaction.send_offsets(Reader())
        transaction.send_offsets("alone", {("a", 0): 3})
        with pytest.raises(errors.IllegalState):
            transaction.send_offsets("alone")
    entry = {"topic": "a", "partition": 1, "next_offset": 7, "metadata": "note"}
    of_member, alone = (json.loads(request.body) for request in server.sent("offsets"))
    assert of_member == {"group": "g", "instance": "ann", "generation": 4, "offsets": [entry]}
    assert alone["group"] == "alone"
    assert "instance" not in alone


@pytest.mark.parametrize(
    ("partitions", "ranges", "places"),
    [
        ([1, 0, 1], [(0, 5, 1), (1, 8, 2)], [(1, 8), (0, 5), (1, 9)]),
        (None, [(1, 8, 3)], [(1, 8), (1, 9), (1, 10)]),
        (None, [(0, 5, 1), (1, 8, 2)], [(None, None)] * 3),
        ([1, 1, 1], [(0, 5, 1), (1, 8, 2)], [(1, None)] * 3),
        ([1, 0, 1], None, [(1, None), (0, None), (1, None)]),
    ],
)
def test_a_place_is_told_where_it_is_known(
    partitions: list[int] | None,
    ranges: Sequence[tuple[int, int, int]] | None,
    places: list[tuple[int | None, int | None]],
):
    stored = None if ranges is None else [Stored("t", [Range(*each) for each in ranges])]
    assert place_records([partitions], [3], stored) == [[Place(*each) for each in places]]
