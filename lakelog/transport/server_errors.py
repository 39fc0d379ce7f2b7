"""Errors of unsuccessful answers: one table from the server's codes to the errors of clients. Pure.

    4xx              nothing was stored or changed
    not_attempted    in the body of a 5xx, as of a 503: nothing was stored or changed
    everything else  unknown

Without an error code in the body, the status counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from lakelog.foundation.errors import (
    Fenced,
    ForeignAnswer,
    GroupNotEmpty,
    IllegalState,
    InvalidConfig,
    LakelogError,
    NoOffset,
    NotAvailable,
    OffsetOutOfRange,
    OutcomeUnknown,
    ProducerFenced,
    Refused,
    Said,
    TopicExists,
    TransactionAborted,
    TransactionError,
    TransactionFenced,
    TransactionTimedOut,
    TransactionTooLarge,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
)
from lakelog.transport.exchange import Answer

#: The errors by code, where the status alone is ambiguous.
_BY_CODE: Final[dict[int, type[LakelogError]]] = {
    40002: InvalidConfig,
    40401: UnknownTopic,
    40402: UnknownPartition,
    40403: UnknownTopic,
    40404: UnknownGroup,
    40405: UnknownTransaction,
    40901: TopicExists,
    40903: IllegalState,
    40904: Fenced,
    40906: GroupNotEmpty,
    40912: ProducerFenced,
    40914: TransactionFenced,
    40915: TransactionTimedOut,
    40916: TransactionAborted,
    40917: TransactionError,
    42206: OffsetOutOfRange,
}
_NO_OFFSET: Final = 40905
_OUT_OF_RANGE: Final = 41601
_TRANSACTION_TOO_LARGE: Final = 41301
#: The 4xx that are temporary.
_LATER: Final = frozenset({408, 425, 429})
_SHOWN: Final = 300
_SHOWN_OF_OTHERS: Final = 100
_MARKS: Final = re.compile(r"<(?:style|script|head)\b.*?</(?:style|script|head)>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_MOST_DIGITS: Final = 6


class Fault(NamedTuple):
    """An unsuccessful answer. `again`: a retry can help. `facts`: the body if it is an object, else empty."""

    error: LakelogError
    facts: Mapping[str, Any] = {}
    again: bool = False
    retry_after_s: float = 0.0

    @property
    def unknown(self) -> bool:
        return self.error.outcome == "unknown"


def read_fault(answer: Answer, what: str) -> Fault:
    """Read the fault in an answer. `what` names the request, to begin an error message."""
    facts = _facts(answer.body)
    said = said_of(answer, facts)
    retry_after_s = _retry_after_s(answer)
    if 400 <= answer.status < 500:
        if answer.status in _LATER:
            return Fault(NotAvailable(said.message, said=said), facts, again=True, retry_after_s=retry_after_s)
        ours = isinstance(facts.get("error_code"), int)
        return Fault(_refusal(said, facts) if ours else _foreign(answer, said), facts)
    if answer.status >= 500 and facts.get("outcome") == "not_attempted":
        again = facts.get("retriable") is not False
        return Fault(
            NotAvailable(said.message, said=said, retriable=again), facts, again=again, retry_after_s=retry_after_s
        )
    why = f"the answer was {answer.status}: {said.message}"
    return Fault(OutcomeUnknown(what, why, said=said), facts, again=True, retry_after_s=retry_after_s)


def _refusal(said: Said, facts: Mapping[str, Any]) -> LakelogError:
    if said.error_code == _OUT_OF_RANGE:
        start, end = (_whole(facts.get(name)) for name in ("log_start_offset", "end_offset"))
        return OffsetOutOfRange(said.message, log_start_offset=start, end_offset=end, said=said)
    if said.error_code == _NO_OFFSET:
        topic, partition = facts.get("topic"), _whole(facts.get("partition"))
        return NoOffset(said.message, topic=topic if isinstance(topic, str) else None, partition=partition, said=said)
    if said.error_code == _TRANSACTION_TOO_LARGE:
        size, limit = (_whole(facts.get(name)) for name in ("size", "limit"))
        return TransactionTooLarge(said.message, size=size, limit=limit, said=said)
    return _BY_CODE.get(said.error_code, Refused)(said.message, said=said)


def _foreign(answer: Answer, said: Said) -> ForeignAnswer:
    """Error with a foreign page's text, without its markup."""
    text = " ".join(_MARKS.sub(" ", answer.body.decode(errors="replace")).split())
    return ForeignAnswer(answer.status, text[:_SHOWN_OF_OTHERS], said=said)


def _whole(given: object) -> int | None:
    return given if isinstance(given, int) else None


def said_of(answer: Answer, facts: Mapping[str, Any]) -> Said:
    code, message = facts.get("error_code"), facts.get("message")
    return Said(
        answer.status,
        code if isinstance(code, int) else answer.status,
        message if isinstance(message, str) else answer.body[:_SHOWN].decode(errors="replace").strip(),
        answer.headers.get("x-request-id"),
    )


def _facts(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _retry_after_s(answer: Answer) -> float:
    """Seconds in the header; 0 if it is absent, or a date, which a lakelog server never sends."""
    given = answer.headers.get("retry-after", "")
    return float(given) if given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS else 0.0
