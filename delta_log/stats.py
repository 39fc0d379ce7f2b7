"""A running log in numbers. It reads what is at hand: no lock is waited for, no disk is asked, nothing is opened."""

from __future__ import annotations

import time
from typing import Final

from delta_log.journal.protocol import IN_DOUBT
from delta_log.maintenance.retention_lag import load_overdue
from delta_log.model.errors import NotOwner, StorageRefused
from delta_log.runtime.meters import LogStatistics, TopicStatistics, TransactionStatistics
from delta_log.startup.open import Running
from delta_log.topics.topic_state import TopicState

#: The journal counts as failing for so long after a failed write, unless a later write succeeded.
FAILING_FOR_S: Final = 10.0


def measure_log(running: Running, now_ms: int, transactions: TransactionStatistics) -> LogStatistics:
    writer, catalog, tabling = running.writer, running.catalog, running.tabling
    lives = [live for live in catalog.lives() if not live.deleted]
    return LogStatistics(
        epoch=running.epoch,
        refuses=why_refused(running),
        disk_full=writer.room.full,
        ballast_bytes=writer.room.held,
        ownership_lost=isinstance(writer.fatal, NotOwner),
        waiting=writer.turns.waiting,
        untabled_bytes=writer.untabled,
        tail_bytes=tabling.memory.held,
        producers=writer.producers.count,
        journal_seconds=writer.meter.seconds.freeze(),
        journal_failures=writer.meter.failures,
        journal_mended=running.journal.mended,
        group_requests=writer.meter.requests.freeze(),
        commit_seconds=tabling.meter.seconds.freeze(),
        commit_failures=tabling.meter.failures,
        topics=tuple(measure_topic(live, now_ms) for live in lives),
        closed=catalog.unusable() | {live.name: str(live.closed) for live in lives if live.closed is not None},
        jobs=running.upkeep.jobs.freeze(),
        transactions=transactions,
    )


def why_refused(running: Running) -> str | None:
    """The reason why nothing can be written now; None if there is none."""
    fatal, journal = running.writer.fatal, running.journal
    if fatal is not None:
        return str(fatal)
    if (doubt := journal.doubt) is not None:
        return str(StorageRefused(IN_DOUBT, doubt))
    failing = running.writer.meter.failing(time.monotonic(), within_s=FAILING_FOR_S, since=journal.mended_at)
    return running.writer.room.why_full or failing


def measure_topic(live: TopicState, now_ms: int) -> TopicStatistics:
    overdue = load_overdue(live, now_ms)
    return TopicStatistics(
        topic=live.name,
        partitions=live.partitions,
        files=live.table.snapshot.file_count,
        untabled_bytes=live.untabled,
        lag_s=_lag(live),
        overdue_bytes=overdue.size,
        overdue_ms=overdue.age_ms,
    )


def _lag(live: TopicState) -> float:
    try:
        return max(0.0, time.monotonic() - live.pending[0].since)
    except IndexError:
        return 0.0
