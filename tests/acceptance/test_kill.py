"""kill -9 at any moment: what was acknowledged, or seen by a reader, is there afterwards, once, at its place."""

import os
import random
from pathlib import Path

import pytest

from tests.support.killing import Worker, check_after_death
from tests.support.ledger import Ledger

#: LAKELOG_KILL_ROUNDS=200 for a long run; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "5"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))

STEPS = {
    "journal.before_write": 40,
    "journal.written": 41,
    "journal.synced": 42,
    "journal.renamed": 2,
    "journal.rolled": 3,
    "journal.released": 2,
    "store.staged": 25,
    "store.linked": 9,
    "store.renamed": 13,
    "table.file_written": 8,
    "table.files_written": 6,
    "table.committed": 12,
    "fold.file_written": 2,
    "fold.committed": 2,
    "checkpoint.written": 2,
    "cleanup.files_deleted": 5,
    "retention.start_moved": 1,
    "topic.deletion_decided": 1,
}


@pytest.mark.timeout(300 + 20 * ROUNDS)
def test_nothing_that_was_promised_is_lost_by_kills_at_random_moments(tmp_path: Path):
    chance, ledger = random.Random(SEED), Ledger()
    for number in range(ROUNDS):
        worker = Worker(tmp_path / "root", number)
        events = worker.run(kill_after=chance.randint(20, 1200))
        assert worker.was_killed, f"round {number} of seed {SEED}: {worker.story}"
        for event in events:
            ledger.take(event)
        check_after_death(tmp_path / "root", ledger)
    assert any(life.values for life in ledger.lives.values())


@pytest.mark.parametrize("step", STEPS)
def test_nothing_that_was_promised_is_lost_by_a_kill_at(tmp_path: Path, step: str):
    ledger = Ledger()
    for number, hit in enumerate((1, STEPS[step])):
        worker = Worker(tmp_path / "root", number, step=step, hit=hit)
        events = worker.run()
        assert worker.was_killed, f"{step} was not hit {hit} times: {worker.story}"
        for event in events:
            ledger.take(event)
        if number:
            check_after_death(tmp_path / "root", ledger)


def test_a_kill_while_the_log_is_being_closed_loses_nothing(tmp_path: Path):
    worker = Worker(tmp_path / "root", 0, step="journal.emptied", hit=2)
    ledger = Ledger(worker.run(close_after=300))
    assert worker.was_killed, worker.story
    check_after_death(tmp_path / "root", ledger)
