"""Topics so large that what is read of them is promised before it is decoded, and what may happen to their files."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa

from delta_log import Log, PartialFetch
from delta_log.model.types import DataFile
from tests.support.logs import Place

#: Of one file: two whole row groups and a half.
FILE_ROWS = 25_000
VALUE_BYTES = 60


def fill_large(log: Log, topic: str = "t", files: int = 3) -> pa.Table:
    """A topic of one partition in so many files; what was appended, with its offsets."""
    log.create_topic(topic)
    values: list[pa.Array] = []
    for _ in range(files):
        random = os.urandom(FILE_ROWS * VALUE_BYTES)
        cut = [random[at : at + VALUE_BYTES] for at in range(0, len(random), VALUE_BYTES)]
        values.append(pa.array(cut, pa.binary()))
        log.append_arrow(topic, pa.table({"value": values[-1]}))
        log.flush(topic)
    numbers = pa.array(range(files * FILE_ROWS), pa.int64())
    return pa.table({"offset": numbers, "value": pa.chunked_array(values)})


def live_files(log: Log, topic: str = "t") -> Sequence[DataFile]:
    return log._running.catalog.live(topic).table.snapshot.files(0)


def damage(place: Place, path: str, topic: str = "t", *, share: float) -> None:
    """Change one byte in the pages of a file, at so much of its length."""
    store, name = place.root().store, f"topics/{topic}/{path}"
    data = bytearray(store.read(name))
    data[int(len(data) * share)] ^= 0xFF
    store.put(name, bytes(data))


def load_all(begun: PartialFetch) -> list[pa.RecordBatch]:
    """All of its rows, in order."""
    batches = list(begun.first.batches)
    while (step := begun.later.take()) is not None:
        batches += step.load()
    return batches


def open_files(log: Log) -> int:
    """How many files are open for answers under way."""
    free = log._reader._files._room._free
    return free._initial_value - free._value  # type: ignore[attr-defined]
