"""The crash tests find what they are for: each is run here against a log that is broken on purpose."""

import textwrap
from pathlib import Path

import pytest

from tests.support.cuts import SEED, check_cuts, record
from tests.support.killing import Worker, check_after_death
from tests.support.ledger import Broken, Ledger
from tests.support.recording_disk import RecordingDisk

CUTS = 24


class NeverSyncsTheJournal(RecordingDisk):
    def sync_data(self, fd: int) -> None:
        """Acknowledged all the same."""


class SyncsTheJournalTooLate(RecordingDisk):
    """Acknowledges first, and syncs before it writes the next time."""

    late = -1

    def sync_data(self, fd: int) -> None:
        self.late = fd

    def write_all(self, fd, parts, position) -> None:
        if self.late == fd:
            super().sync_data(fd)
        super().write_all(fd, parts, position)


class NeverSyncsFiles(RecordingDisk):
    def sync(self, fd: int) -> None:
        """A name without content."""

    def sync_data(self, fd: int) -> None:
        super().sync(fd)


class NeverSyncsDirectories(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        """Content without a name."""


class ForgetsTheJournalsDirectory(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        if not path.endswith("/journal"):
            super().sync_directory(path)


class ForgetsTheLogOfTables(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        if not path.endswith("/_delta_log"):
            super().sync_directory(path)


class ForgetsThePartitionsOfTables(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        if "/partition=" not in path:
            super().sync_directory(path)


@pytest.mark.parametrize(
    "broken",
    [
        NeverSyncsTheJournal,
        SyncsTheJournalTooLate,
        NeverSyncsFiles,
        NeverSyncsDirectories,
        ForgetsTheJournalsDirectory,
        ForgetsTheLogOfTables,
        ForgetsThePartitionsOfTables,
    ],
)
def test_a_power_cut_shows_the_loss_when_the_disk(tmp_path: Path, broken: type[RecordingDisk]):
    recording = record(tmp_path / "root", turns=20, seed=SEED, disk=broken(tmp_path / "root"))
    losses = check_cuts(recording, tmp_path, cuts=CUTS, seed=SEED)
    assert any("Broken" in loss or "Closed" in loss for loss in losses), losses


def test_a_kill_shows_the_loss_when_the_journal_is_written_after_the_acknowledgement(tmp_path: Path):
    """What the journal loses shows as long as no table has it, and no segment is closed, which writes all of it."""
    script = tmp_path / "hasty_worker.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import threading
            from collections import deque

            from delta_log import Settings
            from delta_log.runtime.syscalls import Disk
            from tests.acceptance import crash_worker
            from tests.support.logs import hold_tables

            waiting, write_all, close = deque(), Disk.write_all, Disk.close

            def write_later(disk, fd, parts, position):
                waiting.append((fd, [bytes(part) for part in parts], position))
                while len(waiting) > 20:
                    write_all(disk, *waiting.popleft())

            def close_after_all(disk, fd):
                while any(late[0] == fd for late in waiting):
                    write_all(disk, *waiting.popleft())
                close(disk, fd)

            class OnlyAppends(crash_worker.Worker):
                def __init__(self, log, number):
                    super().__init__(log, number)
                    hold_tables(log)
                    self._permits.release(1_000)

                def operate(self):
                    threading.Event().wait()

            Disk.write_all, Disk.close = write_later, close_after_all
            crash_worker.Worker = OnlyAppends
            crash_worker.Settings = lambda **_: Settings()
            crash_worker.main(*sys.argv[1:])
            """
        )
    )
    worker = Worker(tmp_path / "root", 0, worker=script)
    ledger = Ledger(worker.run(kill_after=100))
    assert worker.was_killed, worker.story
    with pytest.raises(Broken, match=r"should be .*, is None"):
        check_after_death(tmp_path / "root", ledger)
