"""The server's background work: folds small files, writes checkpoints, cleans up, follows the commits of jobs.

It is long because each duty is a pass over one table, and the duties share the state that tells which is due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pyarrow as pa

from delta_log.append.group_commit import Writer
from delta_log.commit.journal_trim import copy_forward
from delta_log.delta.file_commits import merge_files, move_log_start, read_rows, remove_files, replace_rows
from delta_log.delta.topic_commits import DELETED
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.journal import Journal
from delta_log.maintenance.compaction.file_bins import MOST_UNFOLDED, plan_fold
from delta_log.maintenance.compaction.keyed_files import plan_ledger_compaction
from delta_log.maintenance.error_throttle import ErrorThrottle
from delta_log.maintenance.history import clean_history, delete_orphans, is_tail_long
from delta_log.maintenance.retention import RetentionPlan, plan_retention
from delta_log.maintenance.retention_lag import OverdueWatch
from delta_log.maintenance.topic_deletion import carry_out_deletion
from delta_log.model.clock_tolerance import check_clocks
from delta_log.model.errors import LakelogError, NotOwner, TopicClosed
from delta_log.model.schema import PRODUCERS_SCHEMA
from delta_log.model.topic_settings import INT64_MAX
from delta_log.model.types import DataFile
from delta_log.records.idempotence import survivors
from delta_log.runtime.meters import JobMeter
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.topics.catalog import Catalog
from delta_log.topics.row_formats import LedgerRows
from delta_log.topics.topic_state import PRODUCERS_TABLE, TopicState, producer_batch, producer_rows

FOLD_BYTES: Final = 32 * 1024 * 1024
FOLLOW_EVERY_S: Final = 1.0
CLEAN_EVERY_S: Final = 60.0
BURY_EVERY_S: Final = 3600.0
#: While the disk is full, deletions must not wait; deleted topics are kept only as long as the shortest history.
_CLEAN_FULL_EVERY_S: Final = 5.0
_BURY_FULL_AFTER_MS: Final = 60_000
_PRODUCER_FILES: Final = 20
_CLEANED_A_HISTORY: Final = 10
_log = logging.getLogger(__name__)


class BackgroundMaintenance:
    """The owner's maintenance. Each duty is a method, a pass over one table; `run_once` does all that are due."""

    def __init__(
        self,
        catalog: Catalog,
        journal: Journal,
        writer: Writer,
        *,
        clock_ms: Callable[[], int],
        producer_expiration_ms: int,
        is_replaced: Callable[[], bool],
        lost_ownership: Callable[[LakelogError], None],
        probe: Probe = no_probe,
    ) -> None:
        self._catalog = catalog
        self._journal = journal
        self._writer = writer
        self.jobs = JobMeter(clock_ms)
        self._epoch = writer.epoch
        self._clock_ms = clock_ms
        self._producer_expiration_ms = producer_expiration_ms
        self._is_replaced = is_replaced
        self.lose_ownership = lost_ownership
        self._at = probe
        self._overdue = OverdueWatch()
        self._complaints = ErrorThrottle()
        self._buried = time.monotonic()
        self._cleaned: dict[str, tuple[float, int]] = {}
        self._forgot = float("-inf")
        self._with_orphans: set[str] = set()
        #: periodic tasks of other parts
        self.extra_tasks: list[Callable[[], None]] = []
        #: producers whose transactional id has an open transaction
        self.active_transactional_ids: Callable[[], Iterable[str]] = tuple
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakelog-upkeep", daemon=True)

    def start(self, with_orphans: set[str]) -> None:
        """Start the thread. `with_orphans`: the topics that an earlier owner was writing to when it ended."""
        self._with_orphans = set(with_orphans)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def run_once(self) -> None:
        with self.jobs.run("upkeep") as run:
            run.failed = not self._pass()

    def _pass(self) -> bool:
        """Do everything once; False if something could not be done."""
        complete = self._look_for_newcomers()
        if isinstance(self._writer.fatal, NotOwner):
            return complete
        complete = self._shorten_journal() and complete
        if time.monotonic() - self._buried >= (CLEAN_EVERY_S if self._writer.room.full else BURY_EVERY_S):
            self._buried = time.monotonic()
            self._bury_unopened()
        for live in self._catalog.lives():
            if self._stop.is_set():
                break
            complete = self._try_to_care_for(live) and complete
        for what in self.extra_tasks:
            complete = self._try(what) and complete
        self._overdue.look(self._catalog.lives(), self._clock_ms())
        return complete

    def _try(self, what: Callable[[], None]) -> bool:
        try:
            what()
        except Exception as error:  # noqa: BLE001 - no error may stop the upkeep of the tables
            self._complaints.say("what is done besides", error)
            return False
        return True

    def _try_to_care_for(self, live: TopicState) -> bool:
        try:
            self._care_for(live)
        except NotOwner as error:
            self.lose_ownership(error)
        except Exception as error:  # noqa: BLE001 - no error may stop the upkeep of the other tables
            if isinstance(error, TopicClosed) and live.table.stopped is not None:
                live.close(live.closed or live.table.stopped)
            self._complaints.say(live.name, error)
        else:
            self._complaints.settle(live.name)
            return True
        return False

    def fold(self, live: TopicState) -> int:
        """Merge small files; returns how many merges were made."""
        with live.folding:
            return self._fold(live)

    def keep_up(self, live: TopicState) -> None:
        """Run after each own commit, so that files come no faster than they are folded, at any rate of commits."""
        self.shorten_tail(live)
        if self._has_many_files(live) and not self._writer.room.full:
            with live.folding:
                if self._has_many_files(live):
                    self._fold(live)

    def _has_many_files(self, live: TopicState) -> bool:
        return live.owned and live.table.snapshot.file_count - live.folded_files >= MOST_UNFOLDED

    def _fold(self, live: TopicState) -> int:
        try:
            return self._fold_rows(live)
        finally:
            live.folded_files = live.table.snapshot.file_count

    def _fold_rows(self, live: TopicState) -> int:
        if isinstance(live.rows, LedgerRows):
            return self._compact_ledger(live, live.rows)
        if live.name == PRODUCERS_TABLE:
            return self._fold_producers(live)
        folded = 0
        for index in range(live.partitions):
            files = live.table.snapshot.files(index)
            for bin_ in plan_fold(
                files,
                fan_in=live.config.fold_files,
                max_bytes=min(FOLD_BYTES, live.config.segment_bytes),
                segment_ms=live.config.segment_ms,
            ):
                codec = live.config.parquet_codec
                with self.jobs.run("fold"):
                    merge_files(live.table, live.id, bin_, live.rows.schema, codec, self._clock_ms, self._at)
                    self._at("fold.committed")
                self.shorten_tail(live)
                folded += 1
        return folded

    def shorten_tail(self, live: TopicState) -> None:
        """Run after each own commit, so that readers replay at most a hundred commits, at any rate of commits."""
        if is_tail_long(live.table):
            with self.jobs.run("checkpoint"):
                write_checkpoint(live.table, self._at)

    def retain(self, live: TopicState, now_ms: int) -> list[RetentionPlan]:
        """Apply the topic's limits: first the log start moves, then whole files leave the table."""
        with self.jobs.run("retention"):
            return self._retain(live, now_ms)

    def _retain(self, live: TopicState, now_ms: int) -> list[RetentionPlan]:
        check_clocks(self._clock_ms(), live.table.store.now_ms())
        plans: list[RetentionPlan] = []
        if not live.config.deletes:
            return plans
        for index, tail in enumerate(live.tails):
            tabled = tail.table_offset  # read before the files: what is committed meanwhile must not count as removed
            files = live.table.snapshot.files(index)
            plan = plan_retention(
                files,
                log_start=tail.log_start_offset,
                end=max(tabled, files[-1].next_offset) if files else tabled,
                retention_ms=live.config.retention_ms,
                retention_bytes=live.config.retention_bytes,
                segment_ms=live.config.segment_ms,
                now_ms=now_ms,
            )
            if plan is None:
                continue
            move_log_start(live.table, live.id, index, plan.new_log_start, self._clock_ms)
            tail.log_start_offset = max(tail.log_start_offset, plan.new_log_start)
            self._at("retention.start_moved")
            remove_files(live.table, live.id, [removal.file for removal in plan.removals], self._clock_ms)
            tail.drop_below(tail.log_start_offset)
            plans.append(plan)
        return plans

    def _run(self) -> None:
        while not self._stop.wait(FOLLOW_EVERY_S):
            self.run_once()

    def _look_for_newcomers(self) -> bool:
        """Detect a takeover even while idle; otherwise this process serves stale data indefinitely."""
        try:
            if not isinstance(self._writer.fatal, NotOwner) and self._is_replaced():
                self.lose_ownership(NotOwner(f"there is a later epoch than {self._epoch}"))
        except LakelogError as error:
            _log.warning("whether there is a new owner cannot be seen: %s", error)
            return False
        return True

    def _shorten_journal(self) -> bool:
        try:
            copied = copy_forward(self._journal, self._writer, self._catalog.lives())
        except (LakelogError, OSError) as error:
            # A journal in a bucket: a new owner may have released segments whose rows it brought to the tables.
            _log.warning("the journal cannot be shortened: %s", error)
            return False
        if copied:
            _log.info("copied %d frames of tables that are behind to the journal's newest segment", copied)
        return True

    def _care_for(self, live: TopicState) -> None:
        now = time.monotonic()
        if live.deleted:
            self._care_for_deleted(live)
            return
        if live.name == PRODUCERS_TABLE:
            self._forget_silent_producers(now)
        if live.closed is not None:
            return
        if now - live.last_follow >= FOLLOW_EVERY_S:
            self._catalog.follow(live)
        if not live.owned:
            if self._writer.room.full:  # only a root in a directory can be full: there is no former owner to wait for
                self._clean(live, now)
            return
        if live.name in self._with_orphans and not live.recovered_left:
            found = delete_orphans(live, self._epoch)
            self._with_orphans.discard(live.name)
            if found:
                _log.info("deleted %d files of %s that a crash left behind", len(found), live.name)
        if not self._writer.room.full:
            self.fold(live)
        self.shorten_tail(live)
        self._clean(live, now)

    def _clean(self, live: TopicState, now: float) -> None:
        if self._is_clean_up_due(live, now):
            self._cleaned[live.name] = now, live.table.snapshot.version
            with self.jobs.run("cleanup"):
                clean_history(live, self._clock_ms(), self._at)

    def _is_clean_up_due(self, live: TopicState, now: float) -> bool:
        """True also after a tenth of `history.commits`: what a fast table keeps must not depend on its commit rate."""
        at, version = self._cleaned.get(live.name, (float("-inf"), -1))
        fresh = live.table.snapshot.version - version
        every = _CLEAN_FULL_EVERY_S if self._writer.room.full else CLEAN_EVERY_S
        return now - at >= every or fresh >= live.config.history_commits // _CLEANED_A_HISTORY

    def _forget_silent_producers(self, now: float) -> None:
        """Expire idle producers, even without a write to their table since the start: only the time counts."""
        if now - self._forgot < min(CLEAN_EVERY_S, self._producer_expiration_ms / 1000):
            return
        self._forgot = now
        silent_since = self._clock_ms() - self._producer_expiration_ms
        self._writer.alone(lambda: self._writer.producers.expire(silent_since, self.active_transactional_ids()))

    def _care_for_deleted(self, live: TopicState) -> None:
        marked = live.table.snapshot.configuration.get(DELETED)
        if marked is None:
            carry_out_deletion(self._catalog, self._writer, live)
        elif self._clock_ms() - int(marked) > min(live.config.history_ms, self._bury_after_ms):
            self._catalog.bury(live.name, self._clock_ms(), self._bury_after_ms)

    @property
    def _bury_after_ms(self) -> int:
        return _BURY_FULL_AFTER_MS if self._writer.room.full else INT64_MAX

    def _fold_producers(self, live: TopicState) -> int:
        """Replace many files by one with the producers that are still remembered."""
        files = list(live.table.snapshot.files(-1))
        if len(files) <= _PRODUCER_FILES:
            return 0
        with self.jobs.run("fold"):
            self._merge_producers(live, files)
        return 1

    def _merge_producers(self, live: TopicState, files: list[DataFile]) -> None:
        numbered = producer_rows(read_rows(live.table, files, PRODUCERS_SCHEMA))
        silent_since = self._clock_ms() - self._producer_expiration_ms
        kept = {id(row) for row in survivors([row for _, row in numbered], silent_since)}
        kept = kept or {id(numbered[-1][1])}
        batch = producer_batch([(seq, row) for seq, row in numbered if id(row) in kept])
        self._put_in_place(live, files, pa.Table.from_batches([batch]))

    def _compact_ledger(self, live: TopicState, rows: LedgerRows) -> int:
        """Replace files by one with the latest row of each key."""
        plan = plan_ledger_compaction(live.table.snapshot.files(-1))
        if plan is None:
            return 0
        with self.jobs.run("fold"):
            stored = read_rows(live.table, plan.inputs, rows.schema)
            self._put_in_place(live, plan.inputs, rows.codec.surviving(stored, whole=plan.whole))
        return 1

    def _put_in_place(self, live: TopicState, files: Sequence[DataFile], rows: pa.Table) -> None:
        replace_rows(live.table, live.id, files, rows, live.config.parquet_codec, self._clock_ms, self._at)
        self._at("fold.committed")

    def _bury_unopened(self) -> None:
        """Remove the tables of topics that an earlier process deleted and that this one never opened."""
        for name in self._catalog.unopened():
            try:
                self._catalog.bury(name, self._clock_ms(), self._bury_after_ms)
            except LakelogError as error:
                _log.warning("the table of %s cannot be looked at: %s", name, error)
