"""Table commits: bring a table up to the journal, whole groups per commit, one file per touched partition."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from delta_log.append.group_commit import Writer
from delta_log.commit.journal_trim import release_journal
from delta_log.delta.actions import Action, Add, CommitInfo, Txn
from delta_log.delta.conflicts import TOPIC_ID, Kind
from delta_log.delta.parquet import encode_parquet, time_bounds
from delta_log.delta.snapshot import EPOCH_TXN, Snapshot, end_txn
from delta_log.journal import Journal
from delta_log.model.errors import NotOwner, OutcomeUnknown, PlanOutdated
from delta_log.model.types import DataFile, OffsetRange
from delta_log.runtime.meters import CommitMeter
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.topics.partition_state import Chunk, PartitionState, kept_bytes
from delta_log.topics.topic_state import PendingGroup, TopicState

#: Less than this is encoded by one thread: several at once would leave no core for waiting requests.
_TOGETHER_FROM: Final = 4 * 1024 * 1024


class TailMemory:
    """Rows that are in the tables and stay in memory for readers near the log end; up to `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._lock = threading.Lock()
        self._kept: deque[tuple[PartitionState, Chunk]] = deque()

    def keep(self, tail: PartitionState, chunk: Chunk) -> None:
        with self._lock:
            self._kept.append((tail, chunk))
            self.held += kept_bytes(chunk)
            while self.held > self.limit and self._kept:
                owner, oldest = self._kept.popleft()
                self.held -= kept_bytes(oldest)
                owner.drop_below(oldest.next_offset)


@dataclass(slots=True)
class _Share:
    """The part of a commit for a single partition."""

    index: int
    tail: PartitionState
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    file: DataFile | None = None
    batch: pa.RecordBatch | None = None

    @property
    def next_offset(self) -> int:
        return self.chunks[-1].next_offset

    @property
    def size(self) -> int:
        return sum(chunk.size for chunk in self.chunks)


class _Overtaken(Exception):
    """A former owner was first to commit the same rows to a table that is not taken over yet."""


class TableCommitter:
    """Performs table commits; called by one thread at a time for each table (`live.committing`)."""

    def __init__(
        self,
        journal: Journal,
        writer: Writer,
        encoders: Executor,
        memory: TailMemory,
        *,
        clock_ms: Callable[[], int],
        together: bool = False,
        probe: Probe = no_probe,
    ) -> None:
        self._together_from = 0 if together else _TOGETHER_FROM
        self._journal = journal
        self._writer = writer
        self._encoders = encoders
        self.memory = memory
        self.meter = CommitMeter()
        self._clock_ms = clock_ms
        self._at = probe

    def commit(self, live: TopicState, limit: int) -> bool:
        """Commit the oldest pending groups, about `limit` bytes; True if some are left.

        If no group of an earlier owner is left after it, the same commit takes ownership of the table.
        """
        if isinstance(self._writer.fatal, NotOwner):
            raise self._writer.fatal
        if live.pending and isinstance(live.closed, BaseException):
            raise live.closed
        room = self._writer.room
        while True:
            groups = live.peek_pending(room.bound_small(limit))
            takes_over = not live.owned and live.recovered_left <= len(groups)
            if not groups and not takes_over:
                return False
            if groups:
                room.check_small(f"the table of {live.name}", sum(group.size for group in groups))
            try:
                with self.meter.commit():
                    self._commit(live, groups, takes_over=takes_over)
            except (_Overtaken, FileNotFoundError):
                if live.owned or not self._adopt(live):
                    raise
            else:
                return bool(live.pending)

    def _adopt(self, live: TopicState) -> bool:
        """Adopt a former owner's commits of groups pending here, which it had journaled; True if there were any."""
        live.table.follow()
        snapshot = live.table.snapshot
        before = [tail.table_offset for tail in live.tails]
        self._writer.freed(live.drop_pending([snapshot.end(index) for index in range(live.partitions)]))
        for index, tail in enumerate(live.tails):
            end = snapshot.end(index)
            if end > tail.high_watermark:
                raise NotOwner(
                    f"{live.name}-{index} ends at {end} in its table, and at {tail.high_watermark} in the journal"
                )
            tail.settle(
                [chunk for chunk in tail.chunks_from(0, tail.high_watermark) if chunk.next_offset <= end], None, end
            )
        resolve_waiters(live, snapshot.version)
        release_journal(self._journal, self._writer)
        return [tail.table_offset for tail in live.tails] != before

    def _commit(self, live: TopicState, groups: Sequence[PendingGroup], *, takes_over: bool) -> None:
        shares = self._shares(live, groups)
        commit_id = self._commit_id(groups)
        self._write_files(live, shares, commit_id)
        self._at("table.files_written")
        was_in_doubt, live.in_doubt = live.in_doubt, len(groups)
        try:
            version = live.table.commit(
                Kind.APPEND,
                lambda snapshot: self._plan(live, shares, commit_id, snapshot, takes_over=takes_over),
                commit_id=commit_id,
            )
        except OutcomeUnknown:
            raise
        except BaseException:
            live.in_doubt = was_in_doubt
            raise
        live.table.verify(version, commit_id)
        self._settle(live, groups, shares, version)
        live.owned = live.owned or takes_over

    def _shares(self, live: TopicState, groups: Sequence[PendingGroup]) -> list[_Share]:
        shares: dict[int, _Share] = {}
        for group in groups:
            for index, chunk in group.chunks:
                shares.setdefault(index, _Share(index, live.tails[index])).chunks.append(chunk)
        return [shares[index] for index in sorted(shares)]

    def _commit_id(self, groups: Sequence[PendingGroup]) -> str:
        """An id derived from the place in the journal, so that a commit whose answer was lost is recognised.

        A former owner may be committing the same groups: its commits and files must have other ids.
        """
        epoch = self._writer.epoch
        if not groups:
            return f"{epoch}-takes-over"
        place = groups[-1].chunks[-1][1].place
        of = "" if place.epoch == epoch else f"of-{place.epoch}-"
        return f"{epoch}-{of}{place.segment}-{place.position}"

    def _write_files(self, live: TopicState, shares: Sequence[_Share], commit_id: str) -> None:
        if len(shares) == 1 or sum(share.size for share in shares) < self._together_from:
            for share in shares:
                self._write_file(live, share, commit_id)
        else:
            written = [self._encoders.submit(self._write_file, live, share, commit_id) for share in shares]
            wait(written)
            for done in written:
                done.result()

    def _write_file(self, live: TopicState, share: _Share, commit_id: str) -> None:
        batches = live.rows.batches(share.chunks, self._journal)
        if not batches:
            return
        table = pa.Table.from_batches(batches, schema=live.rows.schema).combine_chunks()
        order = table.column(live.rows.order)
        base, last = order[0].as_py(), order[-1].as_py()
        partition = share.index if live.rows.partitioned else -1
        name = f"{base:020d}-{commit_id}.parquet"
        path = f"partition={partition}/{name}" if partition >= 0 else name
        data = encode_parquet(table, live.config.parquet_codec, ordered_by=(live.rows.order, "timestamp"))
        live.table.store.put(live.table.path(path), data)
        self._at("table.file_written")
        low, high = time_bounds(table) if live.rows.partitioned else (0, 0)
        share.file = DataFile(path, partition, base, last, table.num_rows, len(data), low, high, self._clock_ms())
        if live.rows.keep_in_memory:
            share.batch = table.to_batches()[0]

    def _plan(
        self, live: TopicState, shares: Sequence[_Share], commit_id: str, snapshot: Snapshot, *, takes_over: bool
    ) -> list[Action]:
        if snapshot.configuration.get(TOPIC_ID) != live.id:
            raise PlanOutdated(live.name, "the topic was deleted or created anew")
        for share in shares:
            if snapshot.end(share.index) != share.tail.table_offset:
                if not live.owned and snapshot.epoch < self._writer.epoch:
                    raise _Overtaken
                raise NotOwner(f"{live.name}-{share.index} ends at {snapshot.end(share.index)} in its table")
        epoch = self._writer.epoch if live.owned or takes_over else snapshot.epoch
        facts = {"topicId": live.id, "ranges": {str(s.index): [s.tail.table_offset, s.next_offset] for s in shares}}
        actions: list[Action] = [
            CommitInfo(
                commit_id,
                self._clock_ms(),
                "WRITE",
                blind_append=True,
                read_version=snapshot.version,
                epoch=epoch,
                facts=facts,
            )
        ]
        actions += [Add(share.file) for share in shares if share.file is not None]
        actions += [Txn(end_txn(share.index), share.next_offset) for share in shares]
        actions.append(Txn(EPOCH_TXN, epoch))
        return actions

    def _settle(self, live: TopicState, groups: Sequence[PendingGroup], shares: Sequence[_Share], version: int) -> None:
        for share in shares:
            merged = share.tail.settle(share.chunks, share.batch, share.next_offset)
            if merged is not None:
                self.memory.keep(share.tail, merged)
        freed = live.pop_pending(len(groups))
        live.recovered_left = max(0, live.recovered_left - len(groups))
        live.last_commit = time.monotonic()
        self._writer.freed(freed)
        resolve_waiters(live, version)
        release_journal(self._journal, self._writer)


def resolve_waiters(live: TopicState, version: int) -> None:
    """Answer the waiters whose ranges are in the table now."""
    with live.lock:
        ready = [waiter for waiter in live.table_waiters if is_tabled(live, waiter.ranges)]
        live.table_waiters = [waiter for waiter in live.table_waiters if waiter not in ready]
    for waiter in ready:
        if waiter.future.set_running_or_notify_cancel():
            waiter.future.set_result(version)


def is_tabled(live: TopicState, ranges: Sequence[OffsetRange]) -> bool:
    return all(live.tails[given.partition].table_offset >= given.next_offset for given in ranges)
