"""Spark copies a topic to another, and makes a table of it, killed together with the server: each record is there once.

The copy and the table are made by two jobs in one JVM. LAKELOG_SPARK_COPY_S=300 for a long run, LAKELOG_SEED for other
moments.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from delta_log.fetch.sql import read_table
from lakelog.foundation.errors import UnknownTopic
from tests.support.copying import PARTITIONS, SOURCE, Copier, copying_by, ends, look, make_topics, read_all
from tests.support.cutting_proxy import CuttingProxy
from tests.support.serving import Server, java, serving, wait_for

SECONDS = float(os.environ.get("LAKELOG_SPARK_COPY_S", "1"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
#: A JVM starts, and the session of the one before ends.
PATIENCE_S = 200.0
LETTERS = "materialize-table.dlq"
WAYS = ("all", "server", "jobs")


def record(number: int) -> bytes:
    return b"no row %d" % number if number % 5 == 0 else b'{"n": %d}' % number


@pytest.mark.timeout(900 + 5 * SECONDS)
def test_jobs_that_are_killed_with_their_server_copy_each_record_once_and_have_it_once_in_their_table(tmp_path: Path):
    chance, table = random.Random(SEED), tmp_path / "table"
    jobs = [sys.executable, "-m", "tests.support.copying_jobs", str(table)]
    with CuttingProxy(chance) as proxy:
        with serving(tmp_path / "root") as server:
            make_topics(server)
        copier = Copier(jobs, proxy.url, signal.SIGTERM, java())
        with copying_by([copier], proxy, record, pause_s=0.2) as going:
            end, round_ = time.monotonic() + SECONDS, 0
            while round_ < 2 or time.monotonic() < end:
                way = WAYS[round_] if round_ < 2 else chance.choice(WAYS)
                round_ += 1
                with serving(tmp_path / "root") as killed:
                    proxy.target = killed.address
                    going.wait_for_copies(killed, chance.randint(50, 500), PATIENCE_S)
                    look(killed)
                    if way != "server":
                        copier.kill()
                        copier.start()
                    if way != "jobs":
                        killed.kill()
                        proxy.cut_off()
            with serving(tmp_path / "root") as last:
                proxy.target = last.address
                going.wait_for_copies(last, 100, PATIENCE_S)
                look(last)
                going.feeder.stop()
                wait_for(lambda: arrived(last, table), "that the table has all", PATIENCE_S)
                going.finish(last)
                check_table(last, table)


def rows_of(table: Path) -> list[tuple[int, int]]:
    rows = read_table(str(table), ["_partition", "_offset"]).to_pylist()
    return [(row["_partition"], row["_offset"]) for row in rows]


def letters_of(server: Server) -> list[tuple[int, int]]:
    """Where each came from."""
    found: list[tuple[int, int]] = []
    for letters in read_all(server, LETTERS).values():
        for letter in letters:
            said = {header.name: header.value or b"" for header in letter.headers}
            found.append((int(said["lakelog.dlq.partition"]), int(said["lakelog.dlq.offset"])))
    return found


def arrived(server: Server, table: Path) -> bool:
    """The table is there with the first row, and the letters' topic with the first letter."""
    if not any((table / "_delta_log").glob("*.json")):
        return False
    with suppress(UnknownTopic):
        return len(rows_of(table)) + ends(server, LETTERS) >= ends(server, SOURCE)
    return False


def check_table(server: Server, table: Path) -> None:
    """Each record is a row or a dead letter, once."""
    rows, letters = Counter(rows_of(table)), Counter(letters_of(server))
    values = {(each.partition, each.offset): each.value for of in read_all(server, SOURCE).values() for each in of}
    assert rows == Counter(place for place, value in values.items() if value.startswith(b"{"))
    assert letters == Counter(place for place, value in values.items() if not value.startswith(b"{"))
    assert len(read_all(server, LETTERS)) == PARTITIONS
