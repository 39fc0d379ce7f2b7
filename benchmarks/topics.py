"""Topics as the benchmarks use them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.records import to_arrow, to_requests
from delta_log.log import Log
from delta_log.model.types import Record

PARTITIONS = 4
_PER_REQUEST = 10_000


def fill_topic(log: Log, topic: str, records: Sequence[Record], count: int) -> None:
    """A topic with about `count` records in its table; `records` again and again."""
    log.create_topic(topic, PARTITIONS)
    requests = [to_arrow(request) for request in to_requests(records, _PER_REQUEST)]
    for place in range(max(1, count // _PER_REQUEST)):
        log.append_arrow(topic, requests[place % len(requests)])
    log.flush(topic)


def topic_files(root: Path, topic: str) -> list[Path]:
    """Its live parquet files, while nobody writes. Replaced ones stay for a while, so the table is asked."""
    from deltalake import DeltaTable  # noqa: PLC0415 - only who wants files pays for it

    table = root / "topics" / topic
    return sorted(table / path for path in DeltaTable(table).get_add_actions(flatten=True)["path"].to_pylist())
