"""The declarations of the routes that return records."""

from __future__ import annotations

from typing import Any, Final

from ingest_api.routes.records.fetch import Fetch
from ingest_api.routes.records.fetch_plan import ALL_PARTITIONS, ONE_PARTITION
from ingest_api.routes.records.follow import Follow
from ingest_api.routes.records.read_all import ReadAll
from ingest_api.web.context import ServerContext
from ingest_api.web.negotiation import Format
from ingest_api.web.parameters import Parameter, Text
from ingest_api.web.route_spec import Content, Operation, ResponseSpec

_HEADER: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name", "value"],
    "properties": {"name": {"type": "string"}, "value": {"type": ["string", "null"]}},
}


def _records(embedded: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "topic": {"type": "string"},
        "key": embedded,
        "value": embedded,
        "partition": {"type": "integer"},
        "offset": {"type": "integer"},
        "timestamp": {"type": "integer"},
        "headers": {"type": "array", "items": _HEADER},
    }
    return {"type": "array", "items": {"type": "object", "required": list(properties), "properties": properties}}


_LINES: Final[dict[str, Any]] = {Format.NDJSON: {"type": "string"}, Format.EVENTS: {"type": "string"}}
_ALL: Final[dict[str, Any]] = _LINES | {
    Format.BINARY: _records({"type": ["string", "null"]}),
    Format.JSON: _records({}),
    Format.ARROW: {"type": "string", "format": "binary"},
}
_OFFSETS: Final = {
    "Lakelog-Next-Offset": "Where to go on.",
    "Lakelog-End-Offset": "The next offset that a record will be given.",
    "Lakelog-Log-Start-Offset": "The first offset that there may be.",
    "ETag": "Names exactly these records in this format.",
    "Cache-Control": "How long the answer may be kept.",
    "Vary": "What else the answer depends on.",
    "X-Accel-Buffering": "Of events: nobody between may keep them back.",
}
_NEXT: Final = {
    "Lakelog-Next-Offsets": "Of lines: where to go on, as the parameter `from` of the next read.",
    "Cache-Control": _OFFSETS["Cache-Control"],
    "X-Accel-Buffering": _OFFSETS["X-Accel-Buffering"],
}
RESUME: Final = Parameter("Last-Event-ID", Text(1 << 18), "Of events: go on behind this one.", "header")
KNOWN: Final = Parameter("If-None-Match", Text(4096), "The ETag of what the client has.", "header")


def operations(tier: ServerContext) -> list[Operation]:
    follow = Follow(tier)
    return [
        Operation(
            "GET", "/topics/{topic}/partitions/{partition}/records", "fetch", "Read a partition by offset",
            Fetch(tier, follow), "records",
            (ResponseSpec(200, "Records in the order of their offsets.", Content(_ALL), _OFFSETS),
             ResponseSpec(304, "The client has these very records.", None, _OFFSETS)),
            (*ONE_PARTITION, RESUME, KNOWN), error_statuses=(404, 406, 416), reads=True,
        ),
        Operation(
            "GET", "/topics/{topic}/records", "read_all", "Read all partitions of a topic", ReadAll(tier, follow),
            "records",
            (ResponseSpec(200, "Records of all partitions, each partition's in order.", Content(_LINES), _NEXT),),
            (*ALL_PARTITIONS, RESUME), error_statuses=(404, 406, 416), reads=True,
        ),
    ]  # fmt: skip
