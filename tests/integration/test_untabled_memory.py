"""What waits for a table that is stuck, or for a commit, takes no more memory than it may, however small it comes."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.project_files import ROOT

BEGIN = """
import gc, os, resource, sys
from pathlib import Path
from delta_log import Limits, Log, Record
from delta_log.model.errors import Overloaded
from delta_log.transactions.buffered_records import Bounds
from tests.support.logs import hold_tables, replace_settings

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

os.fdatasync = lambda _file: None  # what is synced takes no memory
"""
#: One record after the other, as an operator's worst night has them: the tables are stuck, and who sends does not stop.
STUCK = """
def request(i):
    shape = i % 4
    if shape == 0:
        return [Record(b"%d" % i)]
    if shape == 1:
        return [Record(b"%020d" % i, b"%08d" % i)]
    if shape == 2:
        return [Record(b"%d" % i, headers=tuple([(f"name {j} of {i}", b"%d" % i) for j in range(5)]))]
    return [Record(b"%d" % i, b"%d" % j) for j in range(10)]

limit = 6_000_000
log = Log.open(sys.argv[1], settings=replace_settings(limits=Limits(memory_bytes=limit // 2, topic_bytes=limit)))
log.create_topic("t", partitions=1)
hold_tables(log)
for i in range(200):
    log.append("t", request(i))
log.flush()
before, sent = resident(), 200
try:
    while True:
        log.append("t", request(sent))
        sent += 1
except Overloaded:
    pass
grown = resident() - before
waiting = [chunk for group in log._running.catalog.live("t").pending for _, chunk in group.chunks]
at_hand = sum(chunk.run is not None or chunk.payload is not None for chunk in waiting)
log.flush()
log.append("t", request(sent))
read = sum(fetched.count for fetched in log.scan("t", 0))
log.close()
print(grown / limit, at_hand / len(waiting), read - sum(len(request(i)) for i in range(sent + 1)))
"""


#: The same in transactions that nobody ends.
OPEN = """
limit = 4_000_000
log = Log.open(sys.argv[1], settings=replace_settings(transactions=Bounds(total_bytes=limit)))
log.create_topic("t")
hold_tables(log)  # what the first commit of a table imports is not theirs
begun = [log.transactions.begin(name).id for name in "abcd"]

def send():
    for transaction in begun:
        log.transactions.append(transaction, "t", [Record(b"value")])

for _ in range(100):
    send()
log.flush()
before = resident()
try:
    while True:
        send()
except Overloaded:
    print((resident() - before) / limit)
log.close()
"""


def say(program: str, root: Path) -> list[float]:
    """In a process whose memory nobody used before."""
    command = [sys.executable, "-c", BEGIN + program, str(root)]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return list(map(float, ran.stdout.split()))


def test_what_a_stuck_table_holds_back_takes_the_memory_that_it_may_and_no_more(tmp_path: Path):
    grown, at_hand, missing = say(STUCK, tmp_path / "root")
    assert grown < 1.2
    assert 0.3 < at_hand < 0.7
    assert missing == 0


def test_what_open_transactions_hold_takes_the_memory_that_it_may_and_no_more(tmp_path: Path):
    (grown,) = say(OPEN, tmp_path / "root")
    assert grown < 1.2
