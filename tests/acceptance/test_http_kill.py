"""kill -9 of a server at any moment: what it answered is there afterwards, once, in order, at its place."""

from __future__ import annotations

import os
import random
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.http_ledger import Broken, HttpLedger, read_arrow, read_lines, read_tables
from tests.support.http_producers import FORMS, Producer, join_all, poll, run_all
from tests.support.serving import Server, journal_of, serving, wait_for

#: LAKELOG_KILL_ROUNDS=50 for a long run; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "3"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
TOPICS = {"orders": 3, "clicks": 3}
STAMPED = ("lines", "zipped", "binary", "octets", "arrow", "tabled")
COMMITS = {"lakelog.commit.interval.ms": 100}


class Clients:
    """Producers of every format and readers that follow, on one server after the other."""

    def __init__(self, ledger: HttpLedger) -> None:
        self.ledger = ledger
        self._producers = [Producer(ledger, form, topic) for form, topic in zip(FORMS, list(TOPICS) * 9, strict=False)]
        self._producers += [Producer(ledger, form, "orders", stamped=True) for form in STAMPED]

    def all_were_answered(self) -> bool:
        """Each at least once, but who wants no answer."""
        names = {producer.name for producer in self._producers} - {"at once"}
        return names <= {sent.by for sent in list(self.ledger.sent) if sent.fate == "answered"}

    def begin(self, server: Server, stopped: threading.Event) -> list[threading.Thread]:
        cluster = httpx.get(server.url).json()["cluster_id"]
        work: list[Callable[[], None]] = [
            partial(producer.produce, server.address, cluster, stopped) for producer in self._producers
        ]
        work += [partial(poll, self.ledger, server.address, "orders", partition, stopped) for partition in range(3)]
        return run_all(work)


def create_topics(server: Server) -> None:
    for topic, partitions in TOPICS.items():
        made = httpx.put(f"{server.url}/topics/{topic}", json={"partitions": partitions, "configs": COMMITS})
        assert made.status_code == 201, made.text


def check(server: Server, ledger: HttpLedger) -> None:
    ledger.check(read_lines(server.url, TOPICS))
    ledger.check(read_arrow(server.url, TOPICS))


def live_through(root: Path, ledger: HttpLedger, kills: Iterable[int], *, program: tuple[str, ...] = ()) -> None:
    """One server after the other on the same root, each killed after so many answers, and a last one that is not."""
    clients = Clients(ledger)
    for number, answers in enumerate(kills):
        with serving(root, program=program) as server:
            if number == 0:
                create_topics(server)
            else:
                check(server, ledger)
            threads = clients.begin(server, threading.Event())
            ledger.wait_for_answers(answers)
            server.kill()
            join_all(threads)
    with serving(root, program=program) as server:
        check(server, ledger)
        stopped = threading.Event()
        threads = clients.begin(server, stopped)
        ledger.wait_for_answers(200)
        wait_for(
            lambda: (ledger.seen and clients.all_were_answered()) or ledger.faults, "a reader that follows, and all"
        )
        stopped.set()
        join_all(threads)
        check(server, ledger)
    ledger.check(read_tables(root, TOPICS))


@pytest.mark.timeout(300 + 20 * ROUNDS)
def test_nothing_that_was_answered_is_lost_doubled_or_moved_by_kills(tmp_path: Path):
    ledger, chance = HttpLedger(), random.Random(SEED)
    live_through(tmp_path, ledger, [chance.randint(40, 800) for _ in range(ROUNDS)])
    fates = {name: {sent.fate for sent in ledger.sent if sent.by == name} for name in {sent.by for sent in ledger.sent}}
    assert len(fates) == len(FORMS) + len(STAMPED)
    assert all("answered" in found for name, found in fates.items() if name != "at once")
    assert not [sent.by for sent in ledger.unknown if "stamp" in sent.by], "each was repeated until it was answered"
    assert journal_of(tmp_path) == []  # what a kill left in its staging goes later


#: And brings nothing to the tables, which would have what the journal loses.
ANSWERS_BEFORE_IT_WRITES = """
    from collections import deque
    from delta_log.runtime.syscalls import Disk
    from delta_log.commit.commit_scheduler import CommitScheduler

    waiting, write_all, close = deque(), Disk.write_all, Disk.close

    def write_later(disk, fd, parts, position):
        waiting.append((fd, [bytes(part) for part in parts], position))
        while len(waiting) > 20:
            write_all(disk, *waiting.popleft())

    def close_after_all(disk, fd):
        while any(late[0] == fd for late in waiting):
            write_all(disk, *waiting.popleft())
        close(disk, fd)

    Disk.write_all, Disk.close = write_later, close_after_all
    CommitScheduler.notice = lambda tabler, live: None
"""
FORGETS_WHO_SENT = """
    from ingest_api.routes.records import produce as routes_produce

    routes_produce.read_sender = lambda headers: None
"""
TELLS_THE_NEXT_OFFSET = """
    from delta_log import Appended

    offsets = Appended.offsets
    Appended.offsets = lambda appended: [offset + 1 for offset in offsets(appended)]
"""
STORES_THE_FIRST_ALONE = """
    from ingest_api.routes.records import produce as routes_produce

    decode_lines = routes_produce.decode_lines
    routes_produce.decode_lines = lambda body, **how: decode_lines(body, **how)[:3]
"""


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (ANSWERS_BEFORE_IT_WRITES, r"was told .*, is at \[None"),
        (FORGETS_WHO_SENT, r"and later|is at|twice"),
        (TELLS_THE_NEXT_OFFSET, r"was told .*, is at \["),
        (STORES_THE_FIRST_ALONE, r"sent \d+ values and was told|was told .*, is at"),
    ],
    ids=["answers before it writes", "forgets who sent", "tells the next offset", "stores a part"],
)
def test_a_server_that_breaks_its_word_is_found_out(tmp_path: Path, fault: str, found: str):
    script = tmp_path / "broken_server.py"
    script.write_text(textwrap.dedent(fault) + "\nimport sys\nfrom lakelog.cli.main import main\nsys.exit(main())\n")
    with pytest.raises(Broken, match=found):
        live_through(tmp_path / "root", HttpLedger(), [100], program=(sys.executable, str(script)))
