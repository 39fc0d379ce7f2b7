"""Whatever is done to a table, at every moment every reader of Delta finds its newest version whole, or no table yet.

What lies on the disk between two of its steps is what a death there leaves.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from delta_log import Log, Settings
from delta_log.delta.checkpoint import log_versions
from delta_log.delta.table import Table, entry_path
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.history import clean_history
from delta_log.model.errors import LakelogError
from delta_log.runtime.syscalls import Disk
from delta_log.stores import LocalStore
from delta_log.topics.topic_state import TopicState
from tests.support.keyed_rows import MARKS, READERS_OF_DELTA, TABLES, compact, is_table, live_of
from tests.support.marking import expected, unit

LONG_AFTER_MS = 1 << 50


class Onlooker:
    """Looks at one table with everybody's eyes."""

    def __init__(self, root: Path) -> None:
        self.location = root / "topics" / MARKS.name
        self.unhinted = root.parent / "unhinted"
        self.seen: list[int] = []
        self.broken: list[str] = []

    def look(self, step: str, path: str) -> None:
        """Nothing is raised here: it would be taken for a fault of the disk."""
        if self.location in Path(path).parents:
            try:
                self.seen.append(self._look())
            except Exception as error:  # noqa: BLE001 - whatever keeps a reader from the table
                name = Path(path).relative_to(self.location)
                self.broken.append(f"after {step} of {name}, look {len(self.seen)}: {error!r}")

    def _look(self) -> int:
        """The version that there is, -1 while there is none."""
        if not is_table(self.location):
            with pytest.raises(TableNotFoundError):
                DeltaTable(self.location)
            return -1
        versions = log_versions([path.name for path in (self.location / "_delta_log").iterdir()], ".json")
        newest = max(versions)
        assert sorted(versions) == list(range(min(versions), newest + 1)), "a gap"
        ours = Table(LocalStore(self.location.parents[1]), f"topics/{MARKS.name}")
        assert ours.load()
        assert (ours.snapshot.version, DeltaTable(self.location).version()) == (newest, newest)
        self._look_without_hint(newest)
        rows = {name: by(str(self.location), MARKS) for name, by in READERS_OF_DELTA.items()}
        turns = next((row[2] for row in rows["delta-rs"] if row[1] == 0), 0)
        for name, found in rows.items():
            assert found == expected("ann", turns)[MARKS.name], name
        return newest

    def _look_without_hint(self, newest: int) -> None:
        """A reader need not find, nor believe, what points to the newest checkpoint."""
        shutil.rmtree(self.unhinted, ignore_errors=True)
        shutil.copytree(self.location / "_delta_log", self.unhinted / "_delta_log")
        (self.unhinted / "_delta_log/_last_checkpoint").unlink(missing_ok=True)
        assert DeltaTable(self.unhinted).version() == newest


class LookedAt(Disk):
    """Somebody looks after every step that changes what a directory names; nobody takes another one meanwhile."""

    def __init__(self, look: Callable[[str, str], None]) -> None:
        self._look = look
        self._lock = threading.Lock()

    def link(self, source: str, target: str) -> None:
        with self._lock:
            super().link(source, target)
            self._look("link", target)

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            super().rename(source, target)
            self._look("rename", target)

    def unlink(self, path: str) -> None:
        with self._lock:
            super().unlink(path)
            self._look("unlink", path)

    def make_directory(self, path: str) -> None:
        with self._lock:
            super().make_directory(path)
            self._look("make_directory", path)


def live_through(log: Log, forget: Callable[[TopicState], object]) -> None:
    """A table is made, grows, is compacted, is given checkpoints, and loses its history, more than once."""
    ledger = log.open_ledger(TABLES)
    for turn in range(1, 19):
        ledger.append(unit("ann", turn))
        if turn % 2 == 0:
            log.flush()
        if turn % 4 == 0:
            compact(log, MARKS.name)
        if turn % 6 == 0:
            write_checkpoint(live_of(log, MARKS.name).table)
            log.flush()
        if turn % 9 == 0:
            forget(live_of(log, MARKS.name))


def forget_newest_first(live: TopicState) -> None:
    found = LocalStore.list
    with mock.patch.object(LocalStore, "list", lambda *given: found(*given)[::-1]):
        clean_history(live, LONG_AFTER_MS)


def forget_what_no_checkpoint_holds(live: TopicState) -> None:
    for version in range(live.table.snapshot.version):
        live.table.store.delete(live.table.path(entry_path(version)))


def forget_files_of_the_newest_version(live: TopicState) -> None:
    for file in live.table.snapshot.all_files():
        live.table.store.delete(live.table.path(file.path))


def test_at_every_moment_every_reader_finds_the_newest_version_whole_or_no_table_yet(tmp_path: Path):
    onlooker = Onlooker(tmp_path / "root")
    disk = LookedAt(onlooker.look)
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False), disk=disk) as log:
        live_through(log, lambda live: clean_history(live, LONG_AFTER_MS))
    assert onlooker.broken == []
    assert onlooker.seen == sorted(onlooker.seen)
    assert onlooker.seen[0] == -1
    assert onlooker.seen[-1] > 10
    assert not (onlooker.location / f"_delta_log/{0:020d}.json").exists()


@pytest.mark.parametrize(
    "forget", [forget_newest_first, forget_what_no_checkpoint_holds, forget_files_of_the_newest_version]
)
def test_it_is_seen_where_a_clean_up_would(tmp_path: Path, forget: Callable[[TopicState], None]):
    onlooker = Onlooker(tmp_path / "root")
    disk = LookedAt(onlooker.look)
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False), disk=disk) as log, suppress(LakelogError):
        live_through(log, forget)
    assert onlooker.broken != []
