"""Transactions of both producers beside servers that are killed and connections that break: each is there or not."""

from __future__ import annotations

import os
import random
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Admin
from tests.support.armed_server import armed
from tests.support.client_kinds import KINDS
from tests.support.client_transactions import TOPICS, Sending
from tests.support.copying import HASTY, Watcher
from tests.support.cutting_proxy import CuttingProxy
from tests.support.http_ledger import Broken, read_arrow, read_lines, read_tables
from tests.support.serving import DEADLINE_S, Server, serving, wait_for

#: LAKELOG_KILL_ROUNDS=20 for a long run; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
#: What comes late of those that begin one is a rival: it shuts the open one out, for sure.
TROUBLE = {
    "cut the request": 0.03,
    "lose the answer": 0.05,
    "cut the answer": 0.03,
    "come late": 0.02,
    "spoil the answer": 0.03,
}


def make_topics(server: Server) -> None:
    with Admin({"bootstrap.servers": server.url}) as admin:
        for topic, partitions in TOPICS.items():
            admin.create_topic(topic, partitions=partitions)


def settings(proxy: CuttingProxy) -> dict[str, object]:
    return HASTY | {"bootstrap.servers": proxy.url, "batch.size": 100}


@pytest.mark.timeout(300 + 30 * ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_servers_die_and_connections_break_and_each_transaction_is_there_whole_or_not_at_all(tmp_path: Path, kind: str):
    chance = random.Random(f"{SEED} {kind}")
    with CuttingProxy(chance) as proxy:
        sending, watchers = Sending(kind, settings(proxy)), list[Watcher]()
        proxy.trouble = TROUBLE
        for number in range(ROUNDS + 1):
            with serving(tmp_path) as server:
                if number == 0:
                    make_topics(server)
                    sending.start(["a", "b", "c"], SEED)
                    watchers += [Watcher(proxy.url, topic) for topic in TOPICS]
                proxy.target = server.address
                enough = sending.committed + chance.randint(20, 80)
                wait_for(lambda enough=enough: sending.committed >= enough, "transactions")
                if number < ROUNDS:
                    server.kill()
                    proxy.target = None
                    continue
                wait_for(lambda: set(proxy.happened) >= set(TROUBLE) and sending.told["given up"], "everything")
                proxy.trouble = {}
                sending.stop()
                proxy.wait_until_late_ones_came()
                sending.check(held := read_lines(server.url, TOPICS))
                for topic, watcher in zip(TOPICS, watchers, strict=True):
                    total = sum(len(rows) for at, rows in held.items() if at[0] == topic)
                    wait_for(lambda watcher=watcher, total=total: watcher.count() >= total, "the reader")
                    watcher.stop()
                    for partition, records in watcher.seen.items():
                        assert [(record.offset, record.value) for record in records] == held[topic, partition]
    sending.check(read_tables(tmp_path, TOPICS))


class Dying:
    """One producer over the servers of a root, of which each dies in a commit."""

    def __init__(self, kind: str, proxy: CuttingProxy, file: Path) -> None:
        self.sending = Sending(kind, settings(proxy))
        self._proxy = proxy
        self._file = file
        self._producer = self.sending.open("a")
        self._thread: threading.Thread | None = None
        self._told: list[str] = []

    def die(self, server: Server, step: str) -> None:
        """In the middle of a commit, which somebody waits for from then on."""
        self._proxy.target = server.address
        self._commit(lambda: self._file.write_text(step))
        server.wait()
        self._proxy.cut_off()
        self._file.unlink()

    def go_on(self, server: Server) -> str:
        """What was told of it in the end."""
        self._proxy.target = server.address
        assert self._thread is not None
        self._thread.join(DEADLINE_S)
        return self._told[-1]

    def lose_answers(self, server: Server, count: int) -> str:
        """Of so many commits of one transaction."""
        before = self._proxy.happened["lose the answer"]

        def lose() -> None:
            self._proxy.trouble = {"lose the answer": 1.0}

        self._proxy.target = server.address
        self._commit(lose)
        wait_for(lambda: self._proxy.happened["lose the answer"] >= before + count, "lost answers")
        self._proxy.trouble = {}
        return self.go_on(server)

    def end(self) -> None:
        self._producer.end()

    def _commit(self, then: Callable[[], object]) -> None:
        def send() -> None:
            self._told.append(self.sending.send(self._producer, "a", random.Random(SEED), then=then))

        self._thread = threading.Thread(target=send, daemon=True)
        self._thread.start()


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_is_decided_once_whoever_dies_before_it_is_answered(tmp_path: Path, kind: str):
    root, file = tmp_path / "root", tmp_path / "step"
    with CuttingProxy(random.Random(SEED)) as proxy:
        dying = Dying(kind, proxy, file)
        try:
            with serving(root, program=armed(file)) as server:
                make_topics(server)
                dying.die(server, "journal.synced")
            with serving(root, program=armed(file)) as server:
                assert dying.go_on(server) == "committed"
                dying.die(server, "journal.before_write")
            with serving(root) as server:
                assert dying.go_on(server) == "aborted"
                assert dying.lose_answers(server, 3) == "committed"
                dying.sending.check(read_arrow(server.url, TOPICS))
        finally:
            dying.end()


FORGETS_WHAT_IT_DECIDED = """
    import sys
    from delta_log.keyed import Ledger
    from tests.support.armed_server import main

    Ledger.encode = lambda *given: []
    sys.exit(main(*sys.argv[1:]))
"""


def test_a_server_that_forgets_what_it_decided_is_found_out(tmp_path: Path):
    """That these tests can fail."""
    root, file, script = tmp_path / "root", tmp_path / "step", tmp_path / "broken.py"
    script.write_text(textwrap.dedent(FORGETS_WHAT_IT_DECIDED))
    with CuttingProxy(random.Random(SEED)) as proxy:
        dying = Dying("threads", proxy, file)
        try:
            with serving(root, program=armed(file, script)) as server:
                make_topics(server)
                dying.die(server, "journal.synced")
            with serving(root) as server:
                assert dying.go_on(server) == "aborted"
                with pytest.raises(Broken):
                    dying.sending.check(read_arrow(server.url, TOPICS))
        finally:
            dying.end()
