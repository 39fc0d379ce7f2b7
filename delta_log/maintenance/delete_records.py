"""Delete-records: a partition's log start moves up by request, and what lies below it leaves the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from delta_log.delta.file_commits import cut_file, move_log_start, remove_files
from delta_log.maintenance.retention import HIGH_WATERMARK, DeleteRecordsPlan, OutsideLog, plan_delete_records
from delta_log.model.errors import OffsetOutOfRange, PlanOutdated
from delta_log.topics.topic_state import Live

_ATTEMPTS: Final = 4


def delete_records(
    live: Live,
    partition: int,
    before_offset: int,
    *,
    bring_up: Callable[[Live], None],
    clock_ms: Callable[[], int],
) -> DeleteRecordsPlan:
    """Bring the table to the offset, move the log start, then remove whole files and cut the one in between.

    Each step stands for itself: a crash after the first leaves files below the log start, which retention removes.
    What lies below the log start already is gone: to ask for it once more changes nothing.
    """
    tail = live.tails[partition]
    wanted = tail.end if before_offset == HIGH_WATERMARK else before_offset
    if not 0 <= wanted <= tail.end:
        raise OffsetOutOfRange(live.name, partition, before_offset, tail.start, tail.end)
    if wanted > tail.tabled:
        bring_up(live)
    for _ in range(_ATTEMPTS):
        with suppress(PlanOutdated):  # a file was folded or compacted away meanwhile
            return _delete(live, partition, max(wanted, tail.start), clock_ms)
    return _delete(live, partition, max(wanted, tail.start), clock_ms)


def _delete(live: Live, partition: int, wanted: int, clock_ms: Callable[[], int]) -> DeleteRecordsPlan:
    tail = live.tails[partition]
    plan = plan_delete_records(
        live.table.snapshot.files(partition),
        partition=partition,
        log_start=tail.start,
        end=tail.tabled,
        before_offset=wanted,
    )
    if isinstance(plan, OutsideLog):
        raise OffsetOutOfRange(live.name, partition, wanted, plan.log_start, plan.end)
    move_log_start(live.table, live.id, partition, plan.new_log_start, clock_ms)
    tail.start = max(tail.start, plan.new_log_start)
    if plan.remove:
        remove_files(live.table, live.id, plan.remove, clock_ms)
    if plan.rewrite is not None:
        codec = live.config.parquet_codec
        cut_file(live.table, live.id, plan.rewrite, plan.new_log_start, live.rows.schema, codec, clock_ms)
    tail.drop_below(tail.start)
    return plan
