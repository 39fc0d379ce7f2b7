"""The headers of idempotent requests, all three or none, and of requests in a transaction. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from delta_log import ProducerStamp
from ingest_api.web.errors import Refusal
from ingest_api.web.request import Header

NAMES: Final = {b"producer-id": "Producer-Id", b"producer-epoch": "Producer-Epoch", b"producer-seq": "Producer-Seq"}
SEQUENCE: Final = b"producer-seq"
TRANSACTION_ID: Final = b"transaction-id"
TRANSACTION_STAGE: Final = b"transaction-stage"
_OF_TRANSACTIONS: Final = {TRANSACTION_ID: "Transaction-Id", TRANSACTION_STAGE: "Transaction-Stage"}
_WHOLE: Final = re.compile(rb"0|[1-9][0-9]{0,18}")


class Sender(NamedTuple):
    """Sender of idempotent requests: the values that all of them share, and the index of the header with the number."""

    producer_id: str
    epoch: int
    place: int


def read_sender(headers: Sequence[Header]) -> Sender | None:
    """Return the sender of an idempotent request, else None. The log checks the ranges of the numbers."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in NAMES:
            if name in found:
                raise Refusal(400, f"the header {NAMES[name]} is given twice")
            found[name] = value
    if not found:
        return None
    absent = [shown for name, shown in NAMES.items() if name not in found]
    if absent:
        raise Refusal(
            422, f"an idempotent request has Producer-Id, Producer-Epoch and Producer-Seq: {absent[0]} is absent"
        )
    try:
        producer_id = found[b"producer-id"].decode()
    except UnicodeDecodeError:
        raise Refusal(422, "Producer-Id must be UTF-8") from None
    place = next(place for place, (name, _) in enumerate(headers) if name == SEQUENCE)
    return Sender(producer_id, _whole(b"producer-epoch", found[b"producer-epoch"]), place)


def read_stamp(headers: Sequence[Header], sender: Sender) -> ProducerStamp:
    """Return the stamp of a request: its sender and its number."""
    return ProducerStamp(sender.producer_id, sender.epoch, _whole(SEQUENCE, headers[sender.place][1]))


def refuse_stamp(headers: Sequence[Header], *, code: int) -> None:
    """Refuse these headers on a route that stores each record separately: it cannot keep their promise."""
    for name, _ in headers:
        if name in NAMES or name in _OF_TRANSACTIONS:
            why = "is not taken here, as each record is stored for itself; POST /topics/{topic} takes it"
            raise Refusal(400, f"{NAMES.get(name) or _OF_TRANSACTIONS[name]} {why}", code=code)


def read_transaction(headers: Sequence[Header]) -> str | None:
    """The transaction that a request is part of."""
    return _once(headers, TRANSACTION_ID)


def read_stage(headers: Sequence[Header]) -> str | None:
    """The part of its transaction that a request is for."""
    return _once(headers, TRANSACTION_STAGE)


def _once(headers: Sequence[Header], wanted: bytes) -> str | None:
    found = [value for name, value in headers if name == wanted]
    if len(found) > 1:
        raise Refusal(400, f"the header {_OF_TRANSACTIONS[wanted]} is given twice")
    return found[0].decode("latin-1") if found else None


def _whole(name: bytes, value: bytes) -> int:
    if not _WHOLE.fullmatch(value):
        raise Refusal(422, f"{NAMES[name]} must be a whole number, 0 or more")
    return int(value)
