"""What is appended: keys of 16 bytes, values of 100 bytes of JSON as a shop might send it; the same in every run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

import pyarrow as pa

from delta_log.model.types import Record

KEY_BYTES = 16
VALUE_BYTES = 100
RECORD_BYTES = KEY_BYTES + VALUE_BYTES
_CUSTOMERS = 50_000
_CITIES = ("Lisbon", "Osaka", "Quito", "Tromsø", "Accra", "Leipzig", "Da Nang", "Winnipeg")
_STATES = ("placed", "paid", "packed", "shipped", "delivered", "returned")


def make_records(count: int, seed: int = 7) -> list[Record]:
    random = Random(seed)
    return [_make_record(random) for _ in range(count)]


def _make_record(random: Random) -> Record:
    order = {
        "order": f"{random.getrandbits(40):010x}",
        "state": random.choice(_STATES),
        "city": random.choice(_CITIES),
        "cents": random.randrange(100, 100_000),
        "note": "leave it with the neighbour, please, and ring twice",
    }
    value = json.dumps(order, ensure_ascii=False, separators=(",", ":")).encode()
    return Record(value.ljust(VALUE_BYTES)[:VALUE_BYTES], f"customer-{random.randrange(_CUSTOMERS):07d}".encode())


def to_requests(records: Sequence[Record], per_request: int) -> list[list[Record]]:
    """Whole requests only; no more distinct ones than are needed to keep caches honest."""
    whole = range(0, len(records) - per_request + 1, per_request)
    return [list(records[start : start + per_request]) for start in whole]


def to_arrow(request: Sequence[Record]) -> pa.Table:
    """A request as an Arrow producer sends it."""
    return pa.table(
        {
            "key": pa.array([record.key for record in request], pa.binary()),
            "value": pa.array([record.value for record in request], pa.binary()),
        }
    )
