"""How long somebody waits who asks a topic by SQL from a shell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.http_servers import PROJECT
from benchmarks.records import make_records
from benchmarks.rows import Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size
from benchmarks.topics import fill_topic
from delta_log.log import Log

TOPIC: Final = "orders"
FIRST: Final = Target("value", "<=", 1.0)
_QUERIES: Final = {
    "count": "SELECT count(*) AS n FROM orders",
    "newest": 'SELECT partition, "offset", value FROM {text} WHERE partition = 0 ORDER BY "offset" DESC LIMIT 10',
    "groups": "SELECT key, count(*) AS n FROM {text} GROUP BY key ORDER BY n DESC, key LIMIT 10",
}
#: What anybody would write who has delta-rs and no lakelog.
_BARE: Final = """
import sys
from deltalake import DeltaTable, QueryBuilder
print(QueryBuilder().register("orders", DeltaTable(sys.argv[1])).execute(sys.argv[2]).read_all())
"""


def run(place: Path, size: Size) -> Iterator[Row]:
    """A topic of 4 partitions, of a million records at `quick`, asked by a process of its own each time.

    `sql-first`: seconds from starting `lakelog sql` to the first line of its answer: for a count, which the table's log
    answers, for the newest values of a partition as text, and for the number of records of each key as text. Beside a
    script of three lines that asks the same of delta-rs, of the bytes where `lakelog sql` makes text of them; and the
    seconds of CPU until the process has ended, which say more where the machine is busy. One round goes before that is
    not counted.
    """
    root = place / "root"
    with Log.open(root) as log:
        fill_topic(log, TOPIC, make_records(size.pool), size.stored)
    for kind, query in _QUERIES.items():
        ours = ["-m", "lakelog", "sql", query.format(text=f"{TOPIC}_text"), "--data", str(root)]
        theirs = ["-c", _BARE, str(root / "topics" / TOPIC), query.format(text=TOPIC)]
        rounds = [(_first_line(ours), _first_line(theirs)) for _ in range(2 * size.turns)][1:]
        measured, bases = ([each[side].seconds for each in rounds] for side in (0, 1))
        row = over_turns(measured, "s", name="sql-first", params={"query": kind, "records": size.stored})
        row.also["s of CPU"] = median(ours.cpu for ours, _ in rounds)
        yield judge(beside(row, "delta-rs", measured, bases), FIRST)


class _Asked(NamedTuple):
    """Until the first line, and of the whole process."""

    seconds: float
    cpu: float


def _first_line(words: Sequence[str]) -> _Asked:
    before = _cpu_of_children()
    began = perf_counter()
    with subprocess.Popen([sys.executable, *words], cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline() if process.stdout is not None else ""
        seconds = perf_counter() - began
        process.communicate()
    if process.returncode or not first:
        raise RuntimeError(f"{words} ended with {process.returncode}")
    return _Asked(seconds, _cpu_of_children() - before)


def _cpu_of_children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
