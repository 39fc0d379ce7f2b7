"""What is sent over HTTP: the same records in every format, as values of exactly so many bytes of valid JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

import msgspec
import pyarrow as pa

from benchmarks.http_load import Requests
from benchmarks.records import KEY_BYTES, to_arrow, to_requests
from delta_log.model.types import Record

BINARY: Final = "application/vnd.kafka.binary.v2+json"
JSON: Final = "application/vnd.kafka.json.v2+json"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
OCTETS: Final = "application/octet-stream"
EVENTS: Final = "text/event-stream"
#: How a row names a media type.
MEDIA: Final = {"binary": BINARY, "json": JSON, "ndjson": NDJSON, "arrow": ARROW, "octets": OCTETS, "events": EVENTS}

_CUSTOMERS: Final = 50_000
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz      "
#: Distinct requests that take turns, and no more of their bytes than this.
_MOST_BODIES: Final = 16
_MOST_BYTES: Final = 16_000_000


def make_orders(count: int, value_bytes: int, *, keyed: bool, seed: int = 7) -> list[Record]:
    """Orders of customers; the customer is the key, and in the value too, where a pointer finds it."""
    random = Random(seed)
    text = "".join(random.choices(_LETTERS, k=64 * 1024))
    return [_make_order(random, text, value_bytes, keyed=keyed) for _ in range(count)]


def _make_order(random: Random, text: str, value_bytes: int, *, keyed: bool) -> Record:
    customer = f"customer-{random.randrange(_CUSTOMERS):07d}"
    start = f'{{"order":"{random.getrandbits(40):010x}","customer":"{customer}","cents":{random.randrange(100_000)}'
    start += ',"note":"'
    place = random.randrange(len(text) - value_bytes)
    note = text[place : place + value_bytes - len(start) - 2]
    return Record(f'{start}{note}"}}'.encode(), customer.encode() if keyed else None)


def make_requests(form: str, per_request: int, value_bytes: int, *, keyed: bool, most: int) -> Requests:
    """So many records a request, out of at most `most` distinct ones where that is enough for one."""
    size = per_request * (value_bytes + KEY_BYTES)
    count = max(1, min(_MOST_BODIES, _MOST_BYTES // size, most // per_request))
    groups = to_requests(make_orders(count * per_request, value_bytes, keyed=keyed), per_request)
    headers = {"Content-Type": MEDIA[form]}
    query = ""
    if keyed and form == "ndjson":
        query = "?key=/customer"
    if keyed and form == "octets":
        headers["Lakelog-Key"] = (groups[0][0].key or b"").decode()
    payload = sum(len(record.value or b"") + len(record.key or b"") for group in groups for record in group)
    return Requests(
        headers, tuple(ENCODERS[form](group) for group in groups), per_request, payload / len(groups), query
    )


def _encode_binary(records: Sequence[Record]) -> bytes:
    return msgspec.json.encode({"records": [_members(record) for record in records]})


def _members(record: Record) -> dict[str, bytes | None]:
    given = {"key": record.key, "value": record.value}
    return {name: data for name, data in given.items() if data is not None}


def _encode_json(records: Sequence[Record]) -> bytes:
    values = [{"value": json.loads(record.value or b"null")} for record in records]
    return msgspec.json.encode({"records": values})


def _encode_lines(records: Sequence[Record]) -> bytes:
    return b"".join((record.value or b"") + b"\n" for record in records)


def _encode_arrow(records: Sequence[Record]) -> bytes:
    table = to_arrow(records)
    if table["key"].null_count:
        table = table.drop_columns(["key"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _encode_octets(records: Sequence[Record]) -> bytes:
    return records[0].value or b""


ENCODERS: Final[Mapping[str, Callable[[Sequence[Record]], bytes]]] = {
    "binary": _encode_binary,
    "json": _encode_json,
    "ndjson": _encode_lines,
    "arrow": _encode_arrow,
    "octets": _encode_octets,
}
