"""Parameters of a read, and headers of its answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import mmh3

from delta_log import TopicInfo
from delta_log.model.errors import OffsetOutOfRange, UnknownPartition
from delta_log.model.quoting import quoted
from delta_log.model.types import PartitionOffsets
from delta_log.records.validation import LATEST_TIMESTAMP
from ingest_api.formats.encode.events import format_event_id, parse_event_id
from ingest_api.web.errors import Refusal
from ingest_api.web.parameters import Clamped, OneOfKinds, Parameter, Text, Whole, Words
from ingest_api.web.request import Header

MIB: Final = 1024 * 1024
MOST_WAIT_MS: Final = 60_000
#: Most partitions of a merged answer: the positions of all have to fit into the head of the next request.
MOST_MERGED: Final = 1_000

OFFSET: Final = Parameter(
    "offset",
    OneOfKinds((Whole(), Words(("earliest", "latest")))),
    "Where to begin; `earliest` where nothing says it.",
)
ENDS: Final = Parameter("offset", Words(("earliest", "latest")), "Where to begin; `earliest` where nothing says it.")
TIMESTAMP: Final = Parameter(
    "timestamp", Whole(0, LATEST_TIMESTAMP), "Begin at the first record at or after this time, in milliseconds."
)
FROM: Final = Parameter(
    "from",
    Text(32 * 1024, "[0-9]{1,10}:[0-9]{1,19}(?:,[0-9]{1,10}:[0-9]{1,19})*"),
    "Where to begin in some partitions, as `partition:offset[,…]`; the others begin where `offset` says.",
)
LIMITS: Final = (
    Parameter("max_records", Clamped(1, 1_000_000), "How many records at most.", default=1_000_000),
    Parameter(
        "max_bytes", Clamped(1, 64 * MIB), "How many bytes of records at most, but at least one record.", default=MIB
    ),
    Parameter(
        "timeout", Clamped(0, MOST_WAIT_MS), "How long to wait for the first record, in milliseconds.", default=0
    ),
)
DECODE: Final = Parameter(
    "decode",
    Words(("auto", "json", "string", "base64")),
    "How NDJSON and events show keys and values.",
    default="auto",
)
ONE_PARTITION: Final = (OFFSET, TIMESTAMP, *LIMITS, DECODE)
ALL_PARTITIONS: Final = (ENDS, TIMESTAMP, FROM, *LIMITS, DECODE)


def check_start(query: Mapping[str, Any]) -> None:
    if query["offset"] is not None and query["timestamp"] is not None:
        raise Refusal(422, "offset and timestamp both say where to begin: give one of them")


def check_merged(topic: str, partitions: int) -> None:
    if partitions > MOST_MERGED:
        raise Refusal(
            422,
            f"{topic} has {partitions} partitions, and at most {MOST_MERGED} are read as one: read them one by one, "
            f"at /topics/{topic}/partitions/{{partition}}/records",
        )


def given_positions(text: str | None, topic: str, partitions: int) -> dict[int, int]:
    """Parse `from`: the offset to begin at in some partitions."""
    if text is None:
        return {}
    try:
        positions = parse_event_id(text.encode())
    except Refusal:
        raise Refusal(422, f"from={quoted(text)} cannot be used: each partition comes once, with an offset") from None
    if max(positions) >= partitions:
        raise UnknownPartition(topic, max(positions), partitions)
    return positions


def next_offsets_header(positions: Mapping[int, int]) -> Header:
    return b"lakelog-next-offsets", format_event_id(positions).encode()


def check_position(topic: str, partition: int, offset: int, known: PartitionOffsets) -> None:
    """Refuse an offset out of range before the answer begins."""
    if not known.log_start_offset <= offset <= known.end_offset:
        raise OffsetOutOfRange(topic, partition, offset, known.log_start_offset, known.end_offset)


class Found(Protocol):
    """Result of a read of one partition, whether its records are in memory or not."""

    @property
    def partition(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...


def offset_headers(fetched: Found) -> list[Header]:
    return [
        (b"lakelog-next-offset", b"%d" % fetched.next_offset),
        (b"lakelog-end-offset", b"%d" % fetched.end_offset),
        (b"lakelog-log-start-offset", b"%d" % fetched.log_start_offset),
    ]


def cache_headers(topic: TopicInfo, fetched: Found, offset: int, query: Mapping[str, Any], shape: str) -> list[Header]:
    """Make the ETag of exactly these records in this shape, and the time for which a client may cache them.

    Only a result that no later append can change may be cached: a range that begins at a number and was cut by a limit.
    Records that compaction may remove are not cached, and others no longer than a removed file would stay.
    """
    seen = f"{topic.id} {fetched.partition} {offset} {fetched.next_offset} {fetched.count} {shape}"
    headers = [(b"etag", b'"%016x"' % (mmh3.hash64(seen, signed=False)[0])), (b"vary", b"accept")]
    full = fetched.count > 0 and fetched.next_offset < fetched.end_offset
    kept_s = topic.config.file_delete_delay_ms // 1000
    lasting = isinstance(query["offset"], int) and full and topic.config.cleanup_policy == "delete" and kept_s > 0
    return [*headers, (b"cache-control", b"private, max-age=%d" % kept_s if lasting else b"no-cache")]


def is_known(etags: bytes | None, headers: list[Header]) -> bool:
    """True if the client has exactly these records already."""
    if etags is None:
        return False
    ours = next(value for name, value in headers if name == b"etag")
    given = [etag.strip(b" \t").removeprefix(b"W/") for etag in etags.split(b",")]
    return ours in given or given == [b"*"]
