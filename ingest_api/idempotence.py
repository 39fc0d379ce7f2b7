"""The headers of idempotent requests: all three or none. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from delta_log import ProducerStamp
from ingest_api.call import Header
from ingest_api.errors import Refusal

NAMES: Final = {b"producer-id": "Producer-Id", b"producer-epoch": "Producer-Epoch", b"producer-seq": "Producer-Seq"}
_WHOLE: Final = re.compile(rb"0|[1-9][0-9]{0,18}")


def read_stamp(headers: Sequence[Header]) -> ProducerStamp | None:
    """Who sent a request, if it is idempotent. The log checks what the numbers may be."""
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
    return ProducerStamp(producer_id, _whole(found, b"producer-epoch"), _whole(found, b"producer-seq"))


def _whole(found: dict[bytes, bytes], name: bytes) -> int:
    if not _WHOLE.fullmatch(found[name]):
        raise Refusal(422, f"{NAMES[name]} must be a whole number, 0 or more")
    return int(found[name])
