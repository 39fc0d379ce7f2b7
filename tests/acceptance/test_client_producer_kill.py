"""Producers beside servers that are killed and connections that break: the truth is told of every record."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Admin, RecordMetadata
from tests.support.client_crowd import DEADLINE_S, Crowd
from tests.support.cutting_proxy import CuttingProxy
from tests.support.http_ledger import Broken, HttpLedger, read_arrow, read_lines, read_tables
from tests.support.serving import Server, serving, wait_for

#: LAKELOG_KILL_ROUNDS=20 for a long run; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
TOPICS = {"orders": 3}
KINDS = ("threads", "tasks")
#: A small buffer keeps callers from running far ahead of a server that is away.
SETTINGS: dict[str, object] = {
    "batch.size": 1_000,
    "buffer.memory": 40_000,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 100,
}
TROUBLE = {
    "cut the request": 0.05,
    "lose the answer": 0.05,
    "cut the answer": 0.05,
    "come late": 0.05,
    "spoil the answer": 0.03,
}


def settings(proxy: CuttingProxy, **more: object) -> dict[str, object]:
    return SETTINGS | {"bootstrap.servers": proxy.url} | {name.replace("_", "."): each for name, each in more.items()}


def make_topics(server: Server) -> None:
    with Admin({"bootstrap.servers": server.url}) as admin:
        for topic, partitions in TOPICS.items():
            admin.create_topic(topic, partitions=partitions)


def check(server: Server, ledger: HttpLedger) -> None:
    ledger.check(read_lines(server.url, TOPICS), killed=False)
    ledger.check(read_arrow(server.url, TOPICS), killed=False)


@pytest.mark.timeout(300 + 30 * ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_servers_may_come_and_go_and_every_record_is_stored_once_and_in_order(tmp_path: Path, kind: str, end: str):
    ledger, chance = HttpLedger(), random.Random(f"{SEED} {kind} {end}")
    crowd, stopped = Crowd(ledger, "orders"), threading.Event()

    def wait_for_records(more: int) -> None:
        before = crowd.sent
        wait_for(lambda: crowd.sent >= before + more, "more records")

    with CuttingProxy(chance) as proxy:
        living = None
        for _ in range(ROUNDS):
            with serving(tmp_path) as server:
                proxy.target = server.address
                if living is None:
                    make_topics(server)
                    living = crowd.start(settings(proxy), kind, lambda _: not stopped.is_set())
                wait_for_records(chance.randint(500, 3_000))
                getattr(server, end)()
                proxy.target = None
        with serving(tmp_path) as server:
            proxy.target = server.address
            wait_for_records(1_000)
            stopped.set()
            assert living is not None
            living.join(DEADLINE_S)
            assert not living.is_alive()
            check(server, ledger)
    ledger.check(read_tables(tmp_path, TOPICS), killed=False)
    assert len(crowd.outcomes) == crowd.sent
    assert all(isinstance(outcome, RecordMetadata) for outcome in crowd.outcomes), "time was enough for all of them"


@pytest.mark.parametrize("kind", KINDS)
def test_connections_may_break_anywhere_and_every_record_is_stored_once_and_in_order(tmp_path: Path, kind: str):
    """Requests that come late were given up, and repeated, long before."""
    ledger = HttpLedger()
    crowd = Crowd(ledger, "orders")
    with serving(tmp_path) as server, CuttingProxy(random.Random(f"{SEED} {kind}")) as proxy:
        make_topics(server)
        proxy.target, proxy.trouble = server.address, TROUBLE
        crowd.live(settings(proxy), kind, lambda number: number < 1_000 or not set(proxy.happened) >= set(TROUBLE))
        proxy.wait_until_late_ones_came()
        check(server, ledger)
        assert all(isinstance(outcome, RecordMetadata) for outcome in crowd.outcomes), "time was enough for all of them"


@pytest.mark.parametrize("kind", KINDS)
def test_where_time_is_not_enough_the_truth_is_told_of_each_record(tmp_path: Path, kind: str):
    ledger = HttpLedger()
    crowd = Crowd(ledger, "orders")
    with serving(tmp_path) as server, CuttingProxy(random.Random(f"{SEED} {kind}"), late_s=0.1) as proxy:
        make_topics(server)
        proxy.target, proxy.trouble = server.address, {what: 3 * share for what, share in TROUBLE.items()}
        hasty = settings(proxy, batch_size=500, delivery_timeout_ms=200, retries=2, max_block_ms=60_000)

        def told() -> set[str]:
            return {getattr(outcome, "outcome", "stored") for outcome in crowd.outcomes}

        wait_for(lambda: crowd.live(hasty, kind, lambda number: number < 700) or {"stored", "unknown"} <= told())
        proxy.wait_until_late_ones_came()
        check(server, ledger)


def test_without_numbers_the_same_breaks_are_found_out(tmp_path: Path):
    """That these tests can fail."""
    ledger = HttpLedger()
    crowd = Crowd(ledger, "orders")
    with serving(tmp_path) as server, CuttingProxy(random.Random(SEED)) as proxy:
        make_topics(server)
        proxy.target, proxy.trouble = server.address, TROUBLE
        lost: Callable[[], int] = lambda: proxy.happened["lose the answer"]  # noqa: E731
        crowd.live(settings(proxy, enable_idempotence=False), "threads", lambda number: number < 700 or not lost())
        proxy.wait_until_late_ones_came()
        with pytest.raises(Broken):
            check(server, ledger)
