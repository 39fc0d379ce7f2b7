"""A ledger against plain dictionaries, through everything that can happen to one."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from delta_log import Ledger, Log, Record
from delta_log.append.group_commit import Limits
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.commit.journal_trim import copy_forward
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.compaction import keyed_files as ledger_compaction
from delta_log.model.errors import OutcomeUnknown, StorageRefused
from delta_log.records.keyed_table import Row
from tests.conftest import examples
from tests.support.keyed_rows import (
    READERS_OF_DELTA,
    TABLES,
    compact,
    live_of,
    mark,
    no_mark,
    no_reader,
    reader,
    state,
    stored,
)
from tests.support.logs import Place, eventually, our_threads, replace_settings, values_of

#: Which table, which key, and whether the key is taken away.
CHANGES = st.lists(
    st.tuples(st.sampled_from(["__marks", "__readers"]), st.integers(0, 11), st.integers(0, 2).map(lambda n: not n)),
    max_size=12,
)
NAMES = st.sampled_from(["__marks", "__readers"])
FAULTS = st.tuples(
    st.sampled_from(["create _delta_log", "read _delta_log", "put 0"]),
    st.sampled_from(["refused", "request lost", "answer lost"]),
    st.integers(1, 4),
)


class LedgerMachine(RuleBasedStateMachine):
    on_disk: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        # Nothing happens behind the test's back: tables are committed by `flush` alone.
        self.patches = [
            mock.patch.object(CommitScheduler, "start", return_value=None),
            mock.patch.multiple(ledger_compaction, KEPT_FILES=2, KEPT_ROWS=20),
        ]
        for patch in self.patches:
            patch.start()
        self.directory = tempfile.mkdtemp() if self.on_disk else None
        path = None if self.directory is None else Path(self.directory) / "root"
        self.place = Place(path, segment_size=4096)
        self.model: dict[str, dict[Any, Row]] = {table.name: {} for table in TABLES}
        self.records: list[bytes] = []
        self.count = 0

    @initialize(memory=st.sampled_from([0, 300, 10**8]))
    def begin(self, memory: int) -> None:
        self.settings = replace_settings(limits=Limits(memory_bytes=memory))
        self.open()
        self.log.create_topic("t", 1)

    def open(self) -> None:
        self.log: Log = self.place.open(self.settings)
        self.ledger: Ledger = self.log.open_ledger(TABLES)

    def unit(self, changes: list[tuple[str, int, bool]]) -> list[tuple[str, Row]]:
        unit: list[tuple[str, Row]] = []
        for table, key, gone in changes:
            self.count += 1
            if table == "__marks":
                name = "ab"[key % 2]
                unit.append(no_mark(name, key) if gone else mark(name, key, self.count, None, self.count))
            else:
                name = "xyzuvw"[key % 6]
                unit.append(no_reader(name) if gone else reader(name, self.count, b"%d" % self.count))
        return unit

    def happened(self, unit: list[tuple[str, Row]]) -> None:
        for table, row in unit:
            key = row[:2] if table == "__marks" else row[0]
            self.model[table].pop(key, None)
            if any(value is not None for value in (row[2:] if table == "__marks" else row[1:])):
                self.model[table][key] = row

    def record(self) -> Record:
        self.count += 1
        return Record(b"%d" % self.count)

    @rule(changes=CHANGES, flush=st.booleans())
    def append(self, changes: list[tuple[str, int, bool]], flush: bool) -> None:
        unit = self.unit(changes)
        self.ledger.append(unit)
        self.happened(unit)
        if flush:
            self.log.flush()

    @rule(changes=CHANGES, single=CHANGES)
    def append_and_compact(self, changes: list[tuple[str, int, bool]], single: list[tuple[str, int, bool]]) -> None:
        """Many rows, then a few at a time: only the newest files are compacted."""
        for some in (changes, single[:1], single[1:2]):
            self.append(some, flush=True)
        for table in TABLES:
            self.compact_and_checkpoint(table.name)

    @rule(units=st.lists(CHANGES, min_size=1, max_size=5), refused=st.integers(0, 9), alone=st.booleans())
    def queue_up(self, units: list[list[tuple[str, int, bool]]], refused: int, alone: bool) -> None:
        """Units and records at once; the journal refuses one write, and then all units behind it fail."""
        given = [self.unit(changes) for changes in units]
        records = [self.record() for _ in units]
        journal, real, writes = self.log._running.journal, self.log._running.journal.append, 0

        def append(frames: Any, payloads: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == refused:
                raise StorageRefused("the journal", "a test")
            return real(frames, payloads)

        async def work() -> list[Any]:
            waiting: list[Any] = []
            for unit, record in zip(given, records, strict=True):
                waiting += [self.ledger.queue_up(unit), asyncio.ensure_future(self.log.append_async("t", [record]))]
                if alone:
                    await asyncio.wait([waiting[-1]])
            return await asyncio.gather(*waiting, return_exceptions=True)

        journal.append = append  # type: ignore[method-assign]
        try:
            answers = asyncio.run(work())
        finally:
            journal.append = real  # type: ignore[method-assign]
        outcomes = [answer == () for answer in answers[::2]]
        assert outcomes == sorted(outcomes, reverse=True), "a unit was stored behind one that was not"
        for unit, done in zip(given, outcomes, strict=True):
            if done:
                self.happened(unit)
        stored = [
            (a.offsets()[0], r.value) for a, r in zip(answers[1::2], records, strict=True) if hasattr(a, "offsets")
        ]
        self.records += [value or b"" for _, value in sorted(stored)]
        if not all(outcomes):
            self.ledger.resume()

    @rule()
    def append_a_record(self) -> None:
        record = self.record()
        self.log.append("t", [record])
        self.records.append(record.value or b"")

    @rule()
    def crash(self) -> None:
        self.place.crash()
        self.open()

    @rule()
    def restart(self) -> None:
        self.place.close()
        self.open()

    @rule(pause=st.booleans())
    def start_without_the_ledger(self, pause: bool) -> None:
        self.place.crash()
        self.place.open(self.settings)
        (self.place.close if pause else self.place.crash)()
        self.open()

    @rule(compacts=st.booleans())
    def flush(self, compacts: bool) -> None:
        self.log.flush()
        if compacts:
            self.log.run_upkeep()

    @rule(fault=FAULTS, changes=CHANGES, name=NAMES, compacts=st.booleans())
    def flush_in_trouble(
        self, fault: tuple[str, Any, int], changes: list[tuple[str, int, bool]], name: str, compacts: bool
    ) -> None:
        unit = self.unit([*changes, ("__marks", 0, False), ("__readers", 0, False)])
        self.ledger.append(unit)
        self.happened(unit)
        (operation, part), (_, what, times) = fault[0].split(), fault
        self.place.fail(operation, f"topics/{name}/{part}", what, times)
        with suppress(StorageRefused, OutcomeUnknown):
            self.log.flush()
            if compacts:
                compact(self.log, name)
        self.place.faults.clear()

    @rule(kept=st.integers(0, 2))
    def upkeep(self, kept: int) -> None:
        running = self.log._running
        self.log.run_upkeep()
        copy_forward(running.journal, running.writer, running.catalog.lives(), kept_segments=kept)

    @rule(name=NAMES)
    def compact_and_checkpoint(self, name: str) -> None:
        if self.log._running.catalog.find(name) is not None and live_of(self.log, name).owned:
            compact(self.log, name)
            write_checkpoint(live_of(self.log, name).table)

    @invariant()
    def the_latest_rows_are_there(self) -> None:
        assert state(self.ledger) == {name: list(rows.values()) for name, rows in self.model.items()}

    @invariant()
    def the_records_are_there(self) -> None:
        assert values_of(self.log, "t") == self.records

    @invariant()
    def places_only_rise(self) -> None:
        for table in TABLES:
            if self.log._running.catalog.find(table.name) is not None:
                places = [row["commit_seq"] for row in stored(self.log, table.name)]
                tail = live_of(self.log, table.name).tails[0]
                assert places == sorted(set(places))
                assert tail.high_watermark == tail.log_end_offset
                assert all(place < tail.high_watermark for place in places)

    def teardown(self) -> None:
        try:
            if self.place.log is not None:
                self.place.close()
                self.check_at_rest()
        finally:
            self.place.crash()
            for patch in self.patches:
                patch.stop()
            if self.directory is not None:
                shutil.rmtree(self.directory)

    def check_at_rest(self) -> None:
        """Closed, the tables alone say all there is to say, to other readers of Delta too."""
        self.open()
        assert self.log.recovery.startswith("journal: 0 segments")
        self.the_latest_rows_are_there()
        self.place.close()
        for table in TABLES if self.on_disk else ():
            location = f"{self.directory}/root/topics/{table.name}"
            if Path(location).exists():
                for by in READERS_OF_DELTA.values():
                    assert by(location, table) == list(self.model[table.name].values())


class LocalLedgerMachine(LedgerMachine):
    on_disk = True


CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


class TestInMemory(LedgerMachine.TestCase):
    settings = settings(max_examples=examples(50), stateful_step_count=25, suppress_health_check=CHECKS)


class TestOnDisk(LocalLedgerMachine.TestCase):
    settings = settings(max_examples=examples(8), stateful_step_count=25, suppress_health_check=CHECKS)


def test_no_thread_is_left():
    eventually(lambda: our_threads() == [], "the end of every thread")
