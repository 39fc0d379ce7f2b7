"""What the live end keeps at hand takes no more memory than it may, however small the commits are."""

import subprocess
import sys

from tests.architecture.project_files import ROOT

#: One record a commit, as an idle topic has them for days; in a process whose memory nobody used before.
PROGRAM = """
import resource
from pathlib import Path
from delta_log.journal.group_format import Frame, Place
from delta_log.records.payload_kinds import ROWS
from delta_log.records.row_codec import RowBlock, Run
from delta_log.commit.table_committer import TailMemory
from delta_log.topics.partition_state import Chunk, PartitionState, load_batches

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def commit(offset):
    block = RowBlock([b"key"], [b"a value that is not long, %d" % offset], 0)
    frame = Frame(ROWS, "t", "id", 0, offset, 1, 1, 50, 0, 0)
    chunk = Chunk(offset, 1, 150, frame, Place(1, 0, offset * 50, 50), Run(offset, block))
    tail.add(chunk)
    tail.advance(offset + 1)
    batch, = load_batches([chunk], None)
    memory.keep(tail, tail.settle([chunk], batch, offset + 1))

tail, memory = PartitionState(0, 0), TailMemory(100_000)
for offset in range(200):
    commit(offset)
memory.limit, before = 10_000_000, resident()
for offset in range(200, 6200):
    commit(offset)
print(resident() - before, tail.high_watermark - tail.first)
"""


def test_a_tail_of_many_little_commits_takes_the_memory_that_it_may_and_no_more():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, capture_output=True, text=True)
    grown, kept = map(int, ran.stdout.split())
    assert grown <= 15_000_000
    assert kept > 1000
