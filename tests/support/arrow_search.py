"""A search for Arrow streams that harm the process that reads them.

    python -m tests.support.arrow_search produce 1 0 100000      target, seed, first mutant, and the one behind the last

Each mutant is read in a child process, which ends by a signal where one crashes it (SIGSEGV), takes seconds of the
processor (SIGPROF), or wants more memory than there is. The number of the one in hand is in a file that outlives it.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from delta_log.model.errors import LakelogError
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import ProducerStamp
from delta_log.records.prepare import prepare_arrow
from delta_log.records.row_codec import ArrowRows, RowBlock, Run, decode_arrow, decode_block, encode_arrow, to_batches
from delta_log.records.validation import Rules
from ingest_api.formats import decode
from ingest_api.web.errors import Refusal
from lakelog.consume.arrow import read_batches, table_of
from lakelog.foundation.arrow_types import ArrowRefused
from lakelog.foundation.errors import OutcomeUnknown
from tests.architecture.project_files import ROOT
from tests.support import arrow_corpus
from tests.support.arrow_mutants import Mutants

KEPT = ROOT / ".cache" / "arrow"
MOST_BYTES = 100_000
_NOW = 1_800_000_000_000
_RULES = Rules.of("t", 3, TopicConfig.of({}))
#: Of one mutant: seconds of the processor, and bytes by Arrow beside those of the process.
_SLOW_S = 5.0
_ARROW_BYTES = 32 * 1024 * 1024
_ADDRESSES = 1024 * 1024 * 1024


def produce(body: bytes) -> bool:
    """All that a server does with a request before it is durable, and what it reads of it later."""
    try:
        partition = 0 if sum(body[-64:]) % 3 == 0 else None
        table = decode.decode_arrow(body, most_records=1_000, most_bytes=MOST_BYTES, partition=partition)
    except Refusal as refused:
        _check_memory(refused)
        return False
    try:
        request = prepare_arrow(_RULES, table, first_null=0, now_ms=_NOW, stamp=ProducerStamp("p", 0, 0))
    except LakelogError as refused:
        _check_memory(refused)
        return False
    for part in request.parts:
        rows: Any = decode_arrow(part.payload) if isinstance(part.rows, ArrowRows) else decode_block(part.payload)
        assert isinstance(rows, RowBlock | ArrowRows)
        for batch in to_batches([Run(0, rows)]):
            batch.validate(full=True)
            encode_arrow(ArrowRows(batch.select(["timestamp", "key", "value", "headers"])))
    return True


def consume(body: bytes) -> bool:
    """What a consumer does with an answer to a poll."""
    try:
        found = read_batches(body)
    except OutcomeUnknown as refused:
        _check_memory(refused)
        return False
    for _, stretch in found:
        stretch.rows()
    _look_at(table_of([stretch for _, stretch in found]))
    return True


def fetch(body: bytes) -> bool:
    """What Spark's source does with an answer to a read."""
    from jobs.source.rest_client import _records_of

    try:
        for batch in _records_of(BytesIO(body)):
            _look_at(batch)
    except (ArrowRefused, pa.ArrowInvalid) as refused:
        _check_memory(refused)
        return False
    return True


def _look_at(records: pa.Table | pa.RecordBatch) -> None:
    """At every value; a time need not be one of Python's."""
    for column in records.columns:
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def believe(body: bytes) -> bool:
    """A reader that has Arrow's word for everything, in which the search has to find something."""
    try:
        _look_at(pa.ipc.open_stream(body).read_all())
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError, MemoryError, ArithmeticError):
        return False
    except SystemError:  # it has seen a negative size in time
        return False
    return True


Target = Callable[[bytes], bool]
TARGETS: dict[str, tuple[Target, Callable[[], list[bytes]]]] = {
    "produce": (produce, lambda: arrow_corpus.requests() * 6 + arrow_corpus.views() * 40 + arrow_corpus.every_stream()),
    "consume": (consume, lambda: arrow_corpus.polled() * 50 + arrow_corpus.every_stream()),
    "fetch": (fetch, lambda: arrow_corpus.fetched() * 50 + arrow_corpus.every_stream()),
    "believe": (believe, arrow_corpus.every_stream),
}


class Found(NamedTuple):
    """A mutant that did harm, and how; none where `number` is None. `taken` is how many were sound all the same."""

    tried: int
    taken: int
    number: int | None = None
    why: str = ""
    kept: Path | None = None


def search(target: str, seed: int, first: int, behind: int) -> Found:
    """Mutants from `first` on, each by the child until one does harm. That one is kept as a file."""
    with tempfile.NamedTemporaryFile() as progress:
        progress.write(bytes(16))
        progress.flush()
        command = [
            sys.executable,
            "-m",
            "tests.support.arrow_search",
            target,
            str(seed),
            str(first),
            str(behind),
            progress.name,
        ]
        around = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        child = subprocess.run(command, cwd=ROOT, env=around, capture_output=True, text=True, check=False)
        at, taken = struct.unpack("<qq", Path(progress.name).read_bytes())
    if child.returncode == 0:
        return Found(behind - first, taken)
    why = child.stderr[-3_000:]
    if child.returncode < 0:
        why = f"{signal.Signals(-child.returncode).name} {why}"
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = KEPT / f"{target}-{seed}-{at}.arrow"
    kept.write_bytes(Mutants(TARGETS[target][1](), seed).make(at))
    return Found(at - first + 1, taken, at, why, kept)


def _main(target: str, seed: str, first: str, behind: str, progress: str = "") -> None:
    read, streams = TARGETS[target]
    mutants = Mutants(streams(), int(seed))
    _limit_memory()
    with _shared(progress) as seen:
        number = taken = 0
        for number in range(int(first), int(behind)):
            struct.pack_into("<qq", seen, 0, number, taken)
            body = mutants.make(number)
            signal.setitimer(signal.ITIMER_PROF, _SLOW_S)
            taken += read(body)
            if target != "believe" and pa.default_memory_pool().max_memory() > _ARROW_BYTES:
                sys.exit(f"{pa.default_memory_pool().max_memory()} bytes by Arrow")
        struct.pack_into("<qq", seen, 0, number, taken)


def _shared(progress: str) -> mmap.mmap:
    """Two numbers that another process can read when this one is gone: the mutant in hand, and how many were taken."""
    if not progress:
        return mmap.mmap(-1, 16)
    with Path(progress).open("r+b") as file:
        return mmap.mmap(file.fileno(), 16)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * mmap.PAGESIZE + _ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _check_memory(refused: Exception) -> None:
    """A stream is refused for what it is, and not for lack of memory."""
    assert getattr(refused, "status", 422) == 422, refused
    assert "alloc" not in str(refused), refused
    assert "emory" not in str(refused), refused


if __name__ == "__main__":
    _main(*sys.argv[1:])
