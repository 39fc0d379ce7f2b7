"""Verdict on an attempt: a closed set of results for its records, read from the outcome of the exchange. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from lakelog.foundation.errors import (
    InvalidRecord,
    LakelogError,
    OutcomeUnknown,
    RecordTooLarge,
    Said,
    TransactionTooLarge,
    Unreachable,
)
from lakelog.produce.batch import NOWHERE, Place
from lakelog.produce.rows import Row
from lakelog.transport.exchange import Answer, AnswerLost, NotSent, Outcome
from lakelog.transport.server_errors import Fault, read_fault

_TOO_LARGE: Final = 42210
_UNKNOWN_PARTITION: Final = 40402
_AHEAD: Final = 40911
_SKIPPED: Final = 40919
_NUMBERS_IN_USE: Final = frozenset({40912, 40913})


class Stored(NamedTuple):
    places: Sequence[Place]


class Refused(NamedTuple):
    """Refusal: nothing of the attempt was stored.

    `bad`: the errors of the bad records by their index in the attempt; if it is empty, all are refused.
    `foreign`: another producer uses this producer's id and numbers.
    """

    error: LakelogError
    bad: dict[int, LakelogError]
    foreign: bool = False


class TooLarge(NamedTuple):
    """The body is larger than the server accepts."""

    error: LakelogError


class Ahead(NamedTuple):
    """Not stored: the server does not know the request before this one."""

    error: LakelogError


class Skipped(NamedTuple):
    """Not stored: epochs before this one were never opened. `current` is the last opened one; −1: none."""

    error: LakelogError
    current: int


class Later(NamedTuple):
    """Not stored; a retry may succeed."""

    error: LakelogError
    after_s: float


class Unknown(NamedTuple):
    error: LakelogError
    after_s: float


Verdict = Stored | Refused | TooLarge | Ahead | Skipped | Later | Unknown


class _Blamed(msgspec.Struct):
    index: Annotated[int, msgspec.Meta(ge=0)]
    message: str


class _Answered(msgspec.Struct):
    offsets: list[Place]


_DECODER: Final = msgspec.json.Decoder(_Answered)


def read_verdict(outcome: Outcome, topic: str, rows: Sequence[Row], address: str) -> Verdict:
    what = f"storing {len(rows)} records for {topic}"
    match outcome:
        case NotSent(why):
            return Later(Unreachable(address, why), 0.0)
        case AnswerLost(why):
            return Unknown(OutcomeUnknown(what, f"{address} gave no whole answer: {why}"), 0.0)
        case Answer(200):
            return _read_places(outcome, what, len(rows))
        case Answer(202):
            return Stored([NOWHERE] * len(rows))
        case Answer():
            return _read_refusal(outcome, what, topic, rows)


def _read_places(answer: Answer, what: str, count: int) -> Verdict:
    try:
        places = _DECODER.decode(answer.body).offsets
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Unknown(OutcomeUnknown(what, f"the answer cannot be read: {error}"), 0.0)
    if len(places) != count:
        return Unknown(OutcomeUnknown(what, f"the answer speaks of {len(places)} records"), 0.0)
    return Stored(places)


def _read_refusal(answer: Answer, what: str, topic: str, rows: Sequence[Row]) -> Verdict:
    fault = read_fault(answer, what)
    if fault.unknown:
        return Unknown(fault.error, fault.retry_after_s)
    if fault.again:
        return Later(fault.error, fault.retry_after_s)
    said = fault.error.said
    code = said.error_code if said else answer.status
    if answer.status == 413 and not isinstance(fault.error, TransactionTooLarge):
        return TooLarge(fault.error)
    if code == _AHEAD:
        return Ahead(fault.error)
    match fault.facts:
        case {"current": int(current)} if code == _SKIPPED:
            return Skipped(fault.error, current)
        case _:
            pass
    return Refused(fault.error, find_bad(fault, topic, rows), foreign=code in _NUMBERS_IN_USE)


def find_bad(fault: Fault, topic: str, rows: Sequence[Row]) -> dict[int, LakelogError]:
    """Errors of single records in a refusal, by their index in the request; empty if all are refused."""
    code = 0 if fault.error.said is None else fault.error.said.error_code
    if code == _UNKNOWN_PARTITION:
        # The answer names no partition. They count from 0, so if any is missing, the highest is.
        highest = max((row.partition for row in rows if row.partition is not None), default=-1)
        return {index: fault.error for index, row in enumerate(rows) if row.partition == highest}
    bad: dict[int, LakelogError] = {}
    try:
        blamed = msgspec.convert(fault.facts.get("errors", ()), list[_Blamed])
    except msgspec.ValidationError:
        return {}
    for each in blamed:
        if each.index < len(rows):
            bad[each.index] = _error_of_record(fault, code, topic, each.message)
    return bad


def _error_of_record(fault: Fault, code: int, topic: str, message: str) -> LakelogError:
    said = fault.error.said or Said(422, code, message)
    match fault.facts:
        case {"size": int(size), "limit": int(limit)} if code == _TOO_LARGE:
            return RecordTooLarge(topic, size, limit, said=said)
        case _:
            return InvalidRecord(topic, message, said=said)
