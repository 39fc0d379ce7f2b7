"""Delete-records: moves a partition's log start up by request, and removes the records below it from the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from delta_log.delta.file_commits import cut_file, move_log_start, remove_files
from delta_log.maintenance.retention import HIGH_WATERMARK, DeleteRecordsPlan, OutsideLog, plan_delete_records
from delta_log.model.errors import OffsetOutOfRange, PlanOutdated
from delta_log.topics.topic_state import TopicState

_ATTEMPTS: Final = 4


def delete_records(
    live: TopicState,
    partition: int,
    before_offset: int,
    *,
    bring_up: Callable[[TopicState], None],
    clock_ms: Callable[[], int],
) -> DeleteRecordsPlan:
    """Bring the table up to the offset, move the log start, then remove whole files and cut the one across it.

    Each step is complete by itself: a crash in between leaves files below the log start, which retention removes.
    An offset below the log start changes nothing: its records are already gone.
    """
    tail = live.tails[partition]
    wanted = tail.high_watermark if before_offset == HIGH_WATERMARK else before_offset
    if not 0 <= wanted <= tail.high_watermark:
        raise OffsetOutOfRange(live.name, partition, before_offset, tail.log_start_offset, tail.high_watermark)
    if wanted > tail.table_offset:
        bring_up(live)
    for _ in range(_ATTEMPTS):
        with suppress(PlanOutdated):  # a file was folded or compacted away meanwhile
            return _delete(live, partition, max(wanted, tail.log_start_offset), clock_ms)
    return _delete(live, partition, max(wanted, tail.log_start_offset), clock_ms)


def _delete(live: TopicState, partition: int, wanted: int, clock_ms: Callable[[], int]) -> DeleteRecordsPlan:
    tail = live.tails[partition]
    plan = plan_delete_records(
        live.table.snapshot.files(partition),
        partition=partition,
        log_start=tail.log_start_offset,
        end=tail.table_offset,
        before_offset=wanted,
    )
    if isinstance(plan, OutsideLog):
        raise OffsetOutOfRange(live.name, partition, wanted, plan.log_start, plan.end)
    move_log_start(live.table, live.id, partition, plan.new_log_start, clock_ms)
    tail.log_start_offset = max(tail.log_start_offset, plan.new_log_start)
    if plan.remove:
        remove_files(live.table, live.id, plan.remove, clock_ms)
    if plan.rewrite is not None:
        codec = live.config.parquet_codec
        cut_file(live.table, live.id, plan.rewrite, plan.new_log_start, live.rows.schema, codec, clock_ms)
    tail.drop_below(tail.log_start_offset)
    return plan
