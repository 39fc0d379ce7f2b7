"""Which errors say that a record could not be processed, of those that leave the `with` block of a consumer. Pure."""

from __future__ import annotations

from typing import Final

from lakelog.foundation.errors import (
    ConcurrentUse,
    Fenced,
    NotAvailable,
    OutcomeUnknown,
    ProducerFenced,
    StillUnderWay,
    TransactionAborted,
    TransactionFenced,
    WokenUp,
)

#: They speak of the server, of others, or of an end that somebody wanted.
_NO_RECORDS: Final = (
    ConcurrentUse, Fenced, NotAvailable, OutcomeUnknown, ProducerFenced, StillUnderWay, TransactionAborted,
    TransactionFenced, WokenUp,
)  # fmt: skip


def is_failure(error: BaseException | None) -> bool:
    """An interrupt is none, nor is the end of a task, or a clean exit."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return isinstance(error, Exception) and not isinstance(error, _NO_RECORDS)
