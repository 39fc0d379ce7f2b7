"""What a read asks for, and what its answer may say of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mmh3

from delta_log import Fetched, TopicInfo
from ingest_api.call import Header
from ingest_api.errors import Refusal
from ingest_api.parameters import Clamped, OneOfKinds, Parameter, Text, Whole, Words

LATEST_MS: Final = 253_402_300_799_999
MIB: Final = 1024 * 1024
MOST_WAIT_MS: Final = 60_000

OFFSET: Final = Parameter(
    "offset",
    OneOfKinds((Whole(), Words(("earliest", "latest")))),
    "Where to begin; `earliest` where nothing says it.",
)
ENDS: Final = Parameter("offset", Words(("earliest", "latest")), "Where to begin; `earliest` where nothing says it.")
TIMESTAMP: Final = Parameter(
    "timestamp", Whole(0, LATEST_MS), "Begin at the first record at or after this time, in milliseconds."
)
FROM: Final = Parameter(
    "from",
    Text(1 << 18, "[0-9]+:[0-9]+(?:,[0-9]+:[0-9]+)*"),
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


def offset_headers(fetched: Fetched) -> list[Header]:
    return [
        (b"lakelog-next-offset", b"%d" % fetched.next_offset),
        (b"lakelog-end-offset", b"%d" % fetched.end_offset),
        (b"lakelog-log-start-offset", b"%d" % fetched.log_start_offset),
    ]


def cache_headers(
    topic: TopicInfo, fetched: Fetched, offset: int, query: Mapping[str, Any], shape: str
) -> list[Header]:
    """A name for exactly these records in this shape, and how long somebody may keep them.

    Only what no later append can change is kept: a range that begins at a number and was cut by a limit. Records that
    compaction may take away are not kept, and no others longer than a removed file would stay.
    """
    seen = f"{topic.id} {fetched.partition} {offset} {fetched.next_offset} {fetched.count} {shape}"
    headers = [(b"etag", b'"%016x"' % (mmh3.hash64(seen, signed=False)[0])), (b"vary", b"accept, accept-encoding")]
    full = fetched.count > 0 and fetched.next_offset < fetched.end_offset
    kept_s = topic.config.file_delete_delay_ms // 1000
    lasting = isinstance(query["offset"], int) and full and topic.config.cleanup_policy == "delete" and kept_s > 0
    return [*headers, (b"cache-control", b"private, max-age=%d" % kept_s if lasting else b"no-cache")]


def is_known(etags: bytes | None, headers: list[Header]) -> bool:
    """Whether the client has these very records already."""
    ours = next(value for name, value in headers if name == b"etag")
    return etags is not None and ours in (given.strip().removeprefix(b"W/") for given in etags.split(b","))
