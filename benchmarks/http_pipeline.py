"""What one core needs for the same bodies when it does nothing else: no HTTP, no journal, no offsets, no checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Final

import msgspec
import pyarrow as pa
from murmurhash2 import murmurhash2

from benchmarks.baselines import encode_files
from benchmarks.http_load import Requests
from benchmarks.topics import PARTITIONS

_KAFKA_SEED: Final = 0x9747B28C
_REQUESTS_A_FILE: Final = 100
_BYTES_A_FILE: Final = 32_000_000

Column = Sequence[bytes | None]


class _Sent(msgspec.Struct):
    key: bytes | None = None
    value: bytes | None = None


class _Envelope(msgspec.Struct):
    records: list[_Sent]


class _Order(msgspec.Struct):
    customer: str


#: msgspec decodes the base64 as well.
decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_check_lines: Final = msgspec.json.Decoder(msgspec.Raw).decode_lines
_find_customers: Final = msgspec.json.Decoder(_Order).decode_lines


def _split_envelope(body: bytes, *, keyed: bool) -> tuple[Column, Column]:
    records = decode_envelope(body).records
    return [record.key for record in records] if keyed else [], [record.value for record in records]


def _split_lines(body: bytes, *, keyed: bool) -> tuple[Column, Column]:
    if keyed:
        return [order.customer.encode() for order in _find_customers(body)], body.split(b"\n")[:-1]
    return [], [bytes(line) for line in _check_lines(body)]


SPLITTERS: Final[Mapping[str, Callable[..., tuple[Column, Column]]]] = {
    "binary": _split_envelope,
    "ndjson": _split_lines,
}


def run_body_pipeline(requests: Requests, form: str, *, keyed: bool, seconds: float) -> float:
    """Records a second of one core that decodes the bodies, hashes keys, builds Arrow and encodes parquet.

    A file for each partition and 100 requests, or 32 MB of bodies; records without keys go to the partitions in turn.
    """
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    done = 0
    try:
        began = perf_counter()
        while not done or perf_counter() < began + seconds:
            done += _encode(requests.bodies, SPLITTERS[form], keyed=keyed)
        return done / (perf_counter() - began)
    finally:
        pa.set_cpu_count(threads)


def _encode(bodies: Sequence[bytes], split: Callable[..., tuple[Column, Column]], *, keyed: bool) -> int:
    keys: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    values: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    for place in range(min(_REQUESTS_A_FILE, max(1, _BYTES_A_FILE // len(bodies[0])))):
        given, contents = split(bodies[place % len(bodies)], keyed=keyed)
        if not keyed:
            for partition in range(PARTITIONS):
                values[partition] += contents[partition::PARTITIONS]
            continue
        places: list[list[int]] = [[] for _ in range(PARTITIONS)]
        for index, key in enumerate(given):
            places[(murmurhash2(key, _KAFKA_SEED) & 0x7FFFFFFF) % PARTITIONS].append(index)
        for partition, indexes in enumerate(places):
            keys[partition] += [given[index] for index in indexes]
            values[partition] += [contents[index] for index in indexes]
    encode_files(keys if keyed else [[None] * len(column) for column in values], values)
    return sum(map(len, values))


def time_decoding(requests: Requests, seconds: float) -> float:
    """Records a second of one core that only decodes the JSON of the envelopes, base64 included."""
    done, began = 0, perf_counter()
    while not done or perf_counter() < began + seconds:
        for body in requests.bodies:
            done += len(decode_envelope(body).records)
    return done / (perf_counter() - began)
