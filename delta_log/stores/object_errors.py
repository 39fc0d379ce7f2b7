"""Classifies an object store's answer, from an error of obstore. Pure.

It knows how obstore words its errors, and no requests: the caller decides what follows from an answer.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    NotModifiedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)


class Answer(Enum):
    """The kinds of answer of a store."""

    #: the name exists already
    TAKEN = "taken"
    #: another writer is creating this name right now: retry
    CONTENDED = "contended"
    ABSENT = "absent"
    #: the object was replaced since it was opened
    CHANGED = "changed"
    #: the object is empty, and a range was requested
    OUT_OF_RANGE = "out of range"
    #: the store refused, and nothing was stored
    REFUSED = "refused"
    #: the request was never sent
    UNSENT = "unsent"
    #: a lost answer, a time-out, or a server error: the request may or may not have been carried out
    UNKNOWN = "unknown"


_STATUS: Final = re.compile(r"\bstatus: (\d{3}),|status code: (\d{3})\b")
_CODE: Final = re.compile(r"<Code>([^<]{1,80})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,300})</Message>")
_PLACE: Final = re.compile(r"Error performing [A-Z]+ (https?://[^/\s]+)")
_RETRIED: Final = re.compile(r"\bretries: [1-9]")
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "specified bucket does not exist")
_UNSENT: Final = ("kind: Connect,", "ConnectionRefused", "failed to lookup address")
_TROUBLES: Final = (
    (_UNSENT, "it cannot be reached"),
    (("kind: Timeout", "TimedOut", "operation timed out"), "it did not answer in time"),
    (("HTTP error",), "the connection broke"),
)
_REFUSALS: Final = (PermissionDeniedError, UnauthenticatedError)
#: S3 answers 409 to one of two concurrent creations of the same name.
_BY_STATUS: Final = {
    408: Answer.UNKNOWN,
    409: Answer.CONTENDED,
    416: Answer.OUT_OF_RANGE,
    429: Answer.UNKNOWN,
}
_BY_KIND: Final[tuple[tuple[type[Exception], Answer], ...]] = (
    (AlreadyExistsError, Answer.TAKEN),
    (PreconditionError, Answer.CHANGED),
    (NotModifiedError, Answer.CHANGED),
    (PermissionDeniedError, Answer.REFUSED),
    (UnauthenticatedError, Answer.REFUSED),
)


def meaning_of(error: Exception) -> Answer:
    """Classify an error by what is certain after it. `UNSENT` is never returned for a request that obstore retried."""
    text = str(error)
    status = _status(text)
    if isinstance(error, FileNotFoundError):
        return Answer.REFUSED if _names_no_bucket(text) else Answer.ABSENT
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    for kind, answer in _BY_KIND:
        if isinstance(error, kind):
            return answer
    if status is not None:
        return Answer.REFUSED if status in range(400, 500) else Answer.UNKNOWN
    if any(mark in text for mark in _UNSENT) and _RETRIED.search(text) is None:
        return Answer.UNSENT
    return Answer.UNKNOWN if isinstance(error, GenericError) else Answer.REFUSED


def reason_of(error: Exception, bucket: str) -> str:
    """Describe an error in one sentence for a message; it contains no secrets."""
    text = str(error)
    if _names_no_bucket(text):
        return f"there is no bucket {bucket!r}"
    status = _status(text)
    said = ": ".join(found[1] for found in (_CODE.search(text), _MESSAGE.search(text)) if found)
    if isinstance(error, _REFUSALS):
        return f"access is denied ({said or 'it does not say why'})"
    if status is not None:
        return f"it answered {status}" + (f" ({said})" if said else "")
    place = _PLACE.search(text)
    where = f" at {place[1]}" if place else ""
    for marks, what in _TROUBLES:
        if any(mark in text for mark in marks):
            return what + where
    return text.splitlines()[0][:300] if text else type(error).__name__


def _names_no_bucket(text: str) -> bool:
    return any(mark in text for mark in _NO_BUCKET)


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2]) if found else None
