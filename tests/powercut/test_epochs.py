"""An epoch that was handed out is never handed out again, whenever the process is killed or the power goes."""

import shutil
import textwrap
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.records.idempotence import Producers
from tests.support import bumping_worker
from tests.support.killing import Worker
from tests.support.logs import fold_producers
from tests.support.powercut import PowerCut
from tests.support.recording_disk import RecordingDisk
from tests.support.workload import SETTINGS


def check_epochs(root: Path, given: dict[str, int]) -> None:
    with Log.open(root, settings=SETTINGS) as log:
        for name, epoch in given.items():
            assert log.init_producer(name).epoch > epoch, f"{name} was given {epoch} before"


def run_and_kill(root: Path, worker: Path, after: int = 60) -> dict[str, int]:
    process = Worker(root, 0, worker=worker)
    events = process.run(kill_after=after)
    assert process.was_killed, process.story
    counted = Counter((name, epoch) for _, name, epoch in events)
    assert set(counted.values()) == {1}, "an epoch was handed out twice"
    return {name: max(epoch for _, other, epoch in events if other == name) for name in {e[1] for e in events}}


def test_an_epoch_that_was_handed_out_survives_a_kill(tmp_path: Path):
    given: dict[str, int] = {}
    for _ in range(2):
        given = run_and_kill(tmp_path / "root", Path(bumping_worker.__file__))
        assert set(given) <= set(bumping_worker.NAMES)
        check_epochs(tmp_path / "root", given)


def test_a_kill_shows_the_loss_where_epochs_are_not_journaled(tmp_path: Path):
    script = tmp_path / "forgetful_worker.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys

            from delta_log.append.sequencer import Sequencer
            from tests.support import bumping_worker

            def bump(sequencer, group, bump):
                row = sequencer.producers.decide_bump(bump.producer_id, bump.timestamp_ms, bump.floor)
                sequencer.producers.replay(row)
                bump.opened = row.epoch

            Sequencer.bump = bump
            bumping_worker.main(sys.argv[1])
            """
        )
    )
    given = run_and_kill(tmp_path / "root", script)
    with pytest.raises(AssertionError, match="was given"):
        check_epochs(tmp_path / "root", given)


BEGINNING = """
import sys, threading

from tests.support import bumping_worker

turns = iter(range(20))

def begin(log, name):
    if name == "two" or next(turns, None) is None:
        threading.Event().wait()
    return log.transactions.begin(name).epoch

bumping_worker.main(sys.argv[1], begin)
"""


def test_the_epochs_of_transactions_survive_a_kill_though_most_of_them_were_written_nowhere(tmp_path: Path):
    script, root = tmp_path / "beginning_worker.py", tmp_path / "root"
    script.write_text(BEGINNING)
    for turn in range(2):
        given = run_and_kill(root, script, after=20)
        shutil.copytree(root, tmp_path / f"copy-{turn}")
        with (
            mock.patch.object(Producers, "close_reserved", return_value=None),
            pytest.raises(AssertionError, match="was given"),
        ):
            check_epochs(tmp_path / f"copy-{turn}", given)
        check_epochs(root, given)


class NeverSyncsTheJournal(RecordingDisk):
    def sync_data(self, fd: int) -> None:
        """Handed out all the same."""


def losses_of_power_cuts(place: Path, disk: RecordingDisk) -> list[int]:
    """The moments at which a cut loses an epoch that was handed out before."""
    given: list[tuple[int, int]] = []
    with Log.open(disk.root, settings=SETTINGS, disk=disk) as log:
        log.create_topic("t")
        for turn in range(12):
            given.append((log.init_producer("p").epoch, len(disk.steps)))
            log.append("t", [Record(b"%d" % turn)], producer=ProducerStamp("p", given[-1][0], 0))
            if turn % 4 == 1:
                log.flush()
            if turn % 4 == 3:
                fold_producers(log)
    cut, lost = PowerCut(disk.steps), []
    for moment in sorted({at for _, at in given} | set(range(given[0][1], len(disk.steps), 7))):
        cut.go_to(moment)
        cut.survivors(place / "left")
        known = max(epoch for epoch, at in given if at <= moment)
        with Log.open(place / "left", settings=SETTINGS) as left:
            if left.init_producer("p").epoch <= known:
                lost.append(moment)
        shutil.rmtree(place / "left")
    return lost


def test_an_epoch_that_was_handed_out_survives_a_power_cut_at_any_moment(tmp_path: Path):
    assert losses_of_power_cuts(tmp_path, RecordingDisk(tmp_path / "root")) == []


def test_a_power_cut_shows_the_loss_where_the_journal_is_not_synced(tmp_path: Path):
    assert losses_of_power_cuts(tmp_path, NeverSyncsTheJournal(tmp_path / "root")) != []
