"""Errors and their answers: one table from the log's errors to HTTP.

    4xx           nothing was stored and never will be: change the request
    503           not now; nothing was stored; `retriable` says whether trying again can help
    504           unknown: it may or may not be stored
    500           a fault of the server; unknown as well

`error_code` is the status or the status and two digits, as the Confluent and Karapace proxies have it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from consumer_groups.model import errors as group_errors
from delta_log.model import errors as log_errors
from delta_log.model.errors import LakelogError
from delta_log.model.quoting import tidy

RETRY_AFTER_S: Final = 1
UNKNOWN_TOPIC: Final = 40401
UNKNOWN_PARTITION: Final = 40402
#: Kafka's message for a record that is too large.
_TOO_LARGE: Final = "The request included a message larger than the max message size the server will accept."


class Refusal(Exception):
    """Raised for an answer that is no success. `facts` become members of its body."""

    def __init__(self, status: int, message: str, *, code: int | None = None, **facts: Any) -> None:
        message = tidy(message)
        super().__init__(message)
        self.status, self.message, self.code, self.facts = status, message, code or status, facts
        self.headers: list[tuple[bytes, bytes]] = []


def try_again(message: str, *, code: int) -> Refusal:
    """Make a retriable refusal: not now, and nothing was stored."""
    refusal = Refusal(503, message, code=code, retriable=True, outcome="not_attempted")
    refusal.headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    return refusal


class Row(NamedTuple):
    """Answer to one kind of error; `facts` are the attributes of the error that it includes."""

    status: int
    code: int
    facts: tuple[str, ...] = ()


#: The first entry whose class matches the error counts.
TABLE: Final[tuple[tuple[type[LakelogError], Row], ...]] = (
    (log_errors.UnknownTopic, Row(404, UNKNOWN_TOPIC)),
    (log_errors.UnknownPartition, Row(404, UNKNOWN_PARTITION)),
    (log_errors.TopicExists, Row(409, 40901)),
    (log_errors.OffsetOutOfRange, Row(416, 41601, ("log_start_offset", "end_offset"))),
    (log_errors.OutOfOrderSequence, Row(409, 40911, ("expected", "received"))),
    (log_errors.StaleProducerEpoch, Row(409, 40912, ("current", "received"))),
    (log_errors.ProducerEpochTooHigh, Row(409, 40919, ("current", "received"))),
    (log_errors.SequenceReused, Row(409, 40913, ("sequence",))),
    (log_errors.UnknownTransaction, Row(404, 40405)),
    (log_errors.TransactionFenced, Row(409, 40914, ("current",))),
    (log_errors.TransactionTimedOut, Row(409, 40915)),
    (log_errors.TransactionAborted, Row(409, 40916)),
    (log_errors.TransactionDecided, Row(409, 40917, ("state",))),
    (log_errors.VersionDecided, Row(409, 40918, ("version", "decided"))),
    (log_errors.TransactionTooLarge, Row(413, 41301, ("size", "limit"))),
    (log_errors.UnknownStage, Row(422, 42209, ("stage",))),
    (log_errors.InvalidTransactionTimeout, Row(422, 42208, ("limit",))),
    (group_errors.InvalidOption, Row(422, 42204, ("setting",))),
    (group_errors.UnknownInstance, Row(404, 40403)),
    (group_errors.UnknownGroup, Row(404, 40404)),
    (group_errors.NameTaken, Row(409, 40902)),
    (group_errors.IllegalState, Row(409, 40903)),
    (group_errors.StaleGeneration, Row(409, 40904, ("generation",))),
    (group_errors.PartitionNotOwned, Row(409, 40904, ("generation", "topic", "partition"))),
    (group_errors.PollOverdue, Row(409, 40904, ("generation",))),
    (group_errors.NoOffset, Row(409, 40905, ("topic", "partition"))),
    (group_errors.GroupNotEmpty, Row(409, 40906, ("members",))),
    (group_errors.InvalidPattern, Row(422, 42205)),
    (group_errors.InvalidOffset, Row(422, 42206, ("topic", "partition"))),
    (group_errors.MetadataTooLarge, Row(422, 42207, ("topic", "partition"))),
    (log_errors.RecordTooLarge, Row(422, 42210, ("index", "size", "limit"))),
    (log_errors.TooManyPartitions, Row(422, 42211, ("setting", "limit", "present"))),
    (log_errors.InvalidRecord, Row(422, 422, ("index",))),
    (log_errors.InvalidRequest, Row(422, 422)),
    (log_errors.Overloaded, Row(503, 50301)),
    (log_errors.TopicClosed, Row(503, 50302)),
    (log_errors.DiskFull, Row(503, 50310)),
    (log_errors.StorageRefused, Row(503, 50303)),
    (log_errors.Corruption, Row(503, 50304)),
    (log_errors.PlanOutdated, Row(503, 50305)),
    (log_errors.NotAvailable, Row(503, 503)),
    (log_errors.OutcomeUnknown, Row(504, 50401)),
)


class Answer(NamedTuple):
    """The answer to an error: a line of JSON, with its line end."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


def answer_error(error: Exception) -> Answer:
    """Make the answer to an error. One of an unexpected class is answered without its details."""
    if isinstance(error, Refusal):
        body = {"error_code": error.code, "message": error.message, **error.facts}
        return Answer(error.status, _line(body), error.headers)
    if isinstance(error, LakelogError):
        return _answer_log_error(error)
    body = {"error_code": 50000, "message": "internal error", "outcome": "unknown"}
    return Answer(500, _line(body), [])


def row_of(error: LakelogError) -> Row:
    return next((row for kind, row in TABLE if isinstance(error, kind)), Row(503, 503))


def _answer_log_error(error: LakelogError) -> Answer:
    row = row_of(error)
    body: dict[str, Any] = {"error_code": row.code, "message": message_of(error)}
    if row.status >= 500:
        body |= {"retriable": error.retriable, "outcome": error.outcome}
    elif row.status == 409:
        body["outcome"] = error.outcome
    body |= {name: getattr(error, name) for name in row.facts}
    if isinstance(error, log_errors.InvalidRecord):  # the log names only the first; `errors` is as formats name all
        body["errors"] = [{"index": error.index, "message": body["message"]}]
    again = row.status == 503 and error.retriable
    return Answer(row.status, _line(body), [(b"retry-after", b"%d" % RETRY_AFTER_S)] if again else [])


def _line(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body) + b"\n"


def message_of(error: LakelogError) -> str:
    if isinstance(error, log_errors.RecordTooLarge):
        return f"{_TOO_LARGE} Record {error.index}: {error.size} bytes, the limit is {error.limit}."
    return tidy(str(error))
