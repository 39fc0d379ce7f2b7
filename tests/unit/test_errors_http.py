"""What a client is told of each error of the log: one row for every one that there is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from delta_log.model import errors
from delta_log.model.errors import LakelogError
from ingest_api.web.errors import TABLE, Refusal, answer_error, row_of, try_again

NEVER = {"outcome": "not_attempted"}
AGAIN = {"retriable": True, "outcome": "not_attempted"}
NOT_AGAIN = {"retriable": False, "outcome": "not_attempted"}
UNKNOWN = {"retriable": True, "outcome": "unknown"}

ROWS: list[tuple[LakelogError, int, int, dict[str, Any]]] = [
    (errors.InvalidRequest("no"), 422, 422, {}),
    (errors.InvalidName("a b", "no blanks"), 422, 422, {}),
    (errors.InvalidConfig("retention.ms", "x", "a number"), 422, 422, {}),
    (errors.InvalidRecord(3, "its key is odd"), 422, 422, {"index": 3}),
    (errors.RecordTooLarge(3, 20, 10), 422, 42210, {"index": 3, "size": 20, "limit": 10}),
    (errors.InvalidTimestamp(3, -1, "too early"), 422, 422, {"index": 3}),
    (errors.InvalidPartitions("t", 0, "at least one"), 422, 422, {}),
    (
        errors.TooManyPartitions("t", 9, "max_partitions", 8, 5),
        422,
        42211,
        {"setting": "max_partitions", "limit": 8, "present": 5},
    ),
    (errors.UnknownTopic("t"), 404, 40401, {}),
    (errors.UnknownPartition("t", 9, 3), 404, 40402, {}),
    (errors.TopicExists("t", "T"), 409, 40901, NEVER),
    (errors.OffsetOutOfRange("t", 0, 9, 2, 5), 416, 41601, {"log_start_offset": 2, "end_offset": 5}),
    (errors.ProducerError("odd"), 422, 422, {}),
    (errors.InvalidStamp("p", "epoch"), 422, 422, {}),
    (errors.OutOfOrderSequence("p", 4, 9), 409, 40911, NEVER | {"expected": 4, "received": 9}),
    (errors.StaleProducerEpoch("p", 2, 1), 409, 40912, NEVER | {"current": 2, "received": 1}),
    (errors.ProducerEpochTooHigh("p", 2, 9), 409, 40919, NEVER | {"current": 2, "received": 9}),
    (errors.SequenceReused("p", 7), 409, 40913, NEVER | {"sequence": 7}),
    (errors.TransactionError("odd"), 422, 422, {}),
    (errors.UnknownTransaction("x"), 404, 40405, {}),
    (errors.TransactionFenced("x", 3), 409, 40914, NEVER | {"current": 3}),
    (errors.TransactionTimedOut("x"), 409, 40915, NEVER),
    (errors.TransactionAborted("x", "a test"), 409, 40916, NEVER),
    (errors.TransactionDecided("x", "committed"), 409, 40917, NEVER | {"state": "committed"}),
    (errors.VersionDecided("x", 3, 4), 409, 40918, NEVER | {"version": 3, "decided": 4}),
    (errors.UnknownStage("x", "s"), 422, 42209, {"stage": "s"}),
    (errors.TransactionTooLarge("x", "bytes", 20, 10), 413, 41301, {"size": 20, "limit": 10}),
    (errors.InvalidTransactionTimeout(0, 9), 422, 42208, {"limit": 9}),
    (errors.NotAvailable("no"), 503, 503, AGAIN),
    (errors.Overloaded("the tables", 2, 1), 503, 50301, AGAIN),
    (errors.TopicClosed("t", "damaged"), 503, 50302, NOT_AGAIN),
    (errors.RootInUse("r", "pid 1"), 503, 503, AGAIN),
    (errors.NotOwner("replaced"), 503, 503, NOT_AGAIN),
    (errors.ReadOnly(), 503, 503, NOT_AGAIN),
    (errors.Closed(), 503, 503, NOT_AGAIN),
    (errors.PredecessorFailed("a test"), 503, 503, AGAIN),
    (errors.StorageRefused("the journal", "full"), 503, 50303, AGAIN),
    (errors.DiskFull("the journal", "no space left on device"), 503, 50310, AGAIN),
    (errors.NotARoot("r", "it holds something else"), 503, 503, NOT_AGAIN),
    (errors.Corruption("f", "checksum"), 503, 50304, NOT_AGAIN),
    (errors.PlanOutdated("t", "moved"), 503, 50305, AGAIN),
    (errors.OutcomeUnknown("the request", "a lost answer"), 504, 50401, UNKNOWN),
]


def all_errors(kind: type[LakelogError] = LakelogError) -> set[type[LakelogError]]:
    return {each for direct in kind.__subclasses__() for each in (direct, *all_errors(direct))}


def test_every_error_of_the_log_has_a_row_here():
    ours = {each for each in all_errors() if each.__module__ == errors.__name__}
    assert ours == {type(error) for error, *_ in ROWS}


@pytest.mark.parametrize(("error", "status", "code", "facts"), ROWS, ids=[type(row[0]).__name__ for row in ROWS])
def test_an_error_of_the_log_is_answered_with(error: LakelogError, status: int, code: int, facts: dict[str, Any]):
    answer = answer_error(error)
    body = msgspec.json.decode(answer.body)
    assert (answer.status, body.pop("error_code")) == (status, code)
    message = body.pop("message")
    assert message
    if isinstance(error, errors.InvalidRecord):
        assert body.pop("errors") == [{"index": 3, "message": message}]
    assert body == facts


@pytest.mark.parametrize("error", [row[0] for row in ROWS], ids=[type(row[0]).__name__ for row in ROWS])
def test_the_laws_of_statuses_hold(error: LakelogError):
    answer = answer_error(error)
    if answer.status < 500:
        assert error.outcome == "not_attempted"
    if error.outcome == "unknown":
        assert answer.status == 504
    code = row_of(error).code
    assert code == answer.status or code // 100 == answer.status
    tries_again = answer.status == 503 and error.retriable
    assert answer.headers == ([(b"retry-after", b"1")] if tries_again else [])


def test_no_row_of_the_table_is_hidden_by_one_above_it():
    for at, (kind, _) in enumerate(TABLE):
        assert not any(issubclass(kind, above) for above, _ in TABLE[:at]), kind


def test_a_record_that_is_too_large_is_refused_with_the_sentence_that_kafka_has():
    message = msgspec.json.decode(answer_error(errors.RecordTooLarge(3, 20, 10)).body)["message"]
    assert message.startswith("The request included a message larger than the max message size the server will accept.")
    assert "Record 3: 20 bytes, the limit is 10" in message


def test_an_offset_outside_of_the_log_is_said_to_be_out_of_range():
    assert b"out of range" in answer_error(errors.OffsetOutOfRange("t", 0, 9, 2, 5)).body


def test_what_nobody_foresaw_is_told_without_its_details():
    answer = answer_error(ZeroDivisionError("secret"))
    assert answer.status == 500
    assert msgspec.json.decode(answer.body) == {
        "error_code": 50000, "message": "internal error", "outcome": "unknown",
    }  # fmt: skip


def test_a_refusal_carries_its_facts():
    answer = answer_error(Refusal(422, "no", code=42299, more=[1]))
    assert (answer.status, msgspec.json.decode(answer.body)) == (
        422,
        {"error_code": 42299, "message": "no", "more": [1]},
    )
    answer = answer_error(try_again("full", code=50306))
    assert answer.status == 503
    assert answer.headers == [(b"retry-after", b"1")]
    assert msgspec.json.decode(answer.body) == {"error_code": 50306, "message": "full", **AGAIN}


@pytest.mark.parametrize("error", [Refusal(422, "no"), errors.UnknownTopic("t"), ZeroDivisionError("secret")])
def test_an_answer_is_one_line_that_is_ended(error: Exception):
    body = answer_error(error).body
    assert body.endswith(b"}\n")
    assert body.count(b"\n") == 1
