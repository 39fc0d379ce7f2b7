"""Classification of errors that leave a consumer's `with` block: could a record not be processed? Pure."""

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

#: Errors about the server, about other clients, or about a requested end.
_NO_RECORDS: Final = (
    ConcurrentUse, Fenced, NotAvailable, OutcomeUnknown, ProducerFenced, StillUnderWay, TransactionAborted,
    TransactionFenced, WokenUp,
)  # fmt: skip


def is_failure(error: BaseException | None) -> bool:
    """True for a failed record; not for an interrupt, a cancelled task or a clean exit."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return isinstance(error, Exception) and not isinstance(error, _NO_RECORDS)
