"""The batches of a partition: the files of its table that hold its records, without reading any of them.

Must not know how a table is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec

from delta_log import Log
from delta_log.model.types import DataFile
from ingest_api.routes.topics.shapes import answers
from ingest_api.routes.topics.topics import find_partition
from ingest_api.web.context import ServerContext
from ingest_api.web.negotiation import plain_media_type
from ingest_api.web.parameters import Clamped, Parameter, Whole
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation

_MOST: Final = 10_000
PARAMETERS: Final = (
    Parameter("offset", Whole(), "Leave out batches that end before this offset.", default=0),
    Parameter("max_batches", Clamped(1, _MOST), "How many batches at most.", default=_MOST),
)


class BatchView(msgspec.Struct):
    """`last_offset` belongs to it; `count` can be less than the offsets between, where a topic is compacted.

    `position` is how many bytes the batches before it have, `created_ms` when its oldest records came into the table.
    """

    base_offset: int
    last_offset: int
    count: int
    size: int
    position: int
    created_ms: int
    file: str


class BatchesView(msgspec.Struct):
    batches: list[BatchView]


def operations(tier: ServerContext) -> list[Operation]:
    """List the route of this module."""

    async def list_batches(call: Call) -> Reply:
        media = plain_media_type(call.list_header(b"accept"))
        chosen = call.query(PARAMETERS)
        return json_reply(await tier.in_thread(_read_batches, tier.log, call.path, chosen), content_type=media)

    return [
        Operation(
            "GET", "/topics/{topic}/partitions/{partition}/batches", "list_batches", "List the batches of a partition",
            list_batches, "topics",
            (answers(BatchesView, "The files of its table in the order of their offsets; not what is newer than it."),),
            PARAMETERS, error_statuses=(404,), reads=True,
        ),
    ]  # fmt: skip


def _read_batches(log: Log, path: Mapping[str, str], chosen: Mapping[str, Any]) -> BatchesView:
    info, partition = find_partition(log, path)
    return BatchesView(plan_batches(log.files(info.name, partition), chosen["offset"], chosen["max_batches"]))


def plan_batches(files: Sequence[DataFile], offset: int, most: int) -> list[BatchView]:
    """Make a page of batches; positions count from the start of the partition."""
    positions = accumulate((file.size for file in files), initial=0)
    placed = [(file, position) for file, position in zip(files, positions, strict=False) if file.last_offset >= offset]
    return [
        BatchView(file.base_offset, file.last_offset, file.count, file.size, position, file.modified_ms, file.path)
        for file, position in placed[:most]
    ]
