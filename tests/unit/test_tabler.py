"""Very many busy tables at once, whose commits take no time at all: the budget alone holds them back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future

from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.delta.table import Table
from delta_log.model.topic_config import TopicConfig
from delta_log.records.validation import Rules
from delta_log.stores import MemoryStore
from delta_log.topics.partition_state import PartitionState
from delta_log.topics.topic_state import PendingGroup, TopicRows, TopicState
from tests.support.logs import eventually

TOPICS, PARTITIONS, WORKERS, BUDGET, INTERVAL_S = 200, 8, 2, 4_000.0, 0.1


def busy_table(number: int) -> TopicState:
    name, config = f"busy-{number:03d}", TopicConfig.of({"lakelog.commit.interval.ms": int(INTERVAL_S * 1000)})
    table = Table(MemoryStore(), f"topics/{name}")
    tails, rules = [PartitionState(0, 0)] * PARTITIONS, Rules.of(name, PARTITIONS, config)
    live = TopicState(name, name, table, TopicRows(), tails, config, rules, owned=True)
    live.add_pending(PendingGroup([], 1))
    return live


def time_turns(tabler: CommitScheduler) -> Counter[str]:
    """For how many seconds each table had a worker: long, where the machine held that up."""
    held: Counter[str] = Counter()
    submit = tabler._pool.submit

    def timed(act: Callable[[TopicState], None], live: TopicState) -> Future[None]:
        began = time.monotonic()

        def turn() -> None:
            act(live)
            held[live.name] += time.monotonic() - began  # type: ignore[assignment]  # not whole

        return submit(turn)

    tabler._pool.submit = timed  # type: ignore[method-assign, assignment]
    return held


def test_busy_tables_share_the_budget_of_files_and_none_is_left_behind():
    """They ask for four times of it. A table's lag is a round of all the others at most, and its own turn.

    Commits take no time; while a machine holds one up, each other table has one an interval at most.
    """
    commits: Counter[str] = Counter()

    def commit(live: TopicState, _limit: int) -> bool:
        commits[live.name] += 1
        live.last_commit = time.monotonic()
        return True

    lives = [busy_table(number) for number in range(TOPICS)]
    began = time.monotonic()
    tabler = CommitScheduler(commit, workers=WORKERS, files_per_second=BUDGET, lost_ownership=lambda _error: None)
    held = time_turns(tabler)
    tabler.start()
    for live in lives:
        tabler.notice(live)
    eventually(lambda: min((commits[live.name] for live in lives), default=0) >= 4, "four rounds")
    seen, took = dict(commits), time.monotonic() - began
    tabler.stop([])
    assert sum(seen.values()) * PARTITIONS <= BUDGET * (took + 1) + WORKERS * PARTITIONS
    assert max(seen.values()) - min(seen.values()) <= 2 + max(held.values()) // INTERVAL_S
