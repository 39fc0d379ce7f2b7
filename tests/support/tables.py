"""Tables and their actions for tests: files without content, commits by others, and Hypothesis strategies."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence

from hypothesis import strategies as st

from delta_log.delta.actions import Action, Add, CommitInfo, MetaData, Protocol, Remove, Txn
from delta_log.delta.conflicts import TOPIC_ID, Kind
from delta_log.delta.snapshot import EPOCH_TXN, Snapshot, end_txn, start_txn
from delta_log.delta.table import Table
from delta_log.model.schema import FILE_SCHEMA, delta_schema
from delta_log.model.types import LATEST_MS, DataFile
from delta_log.stores import Store

SCHEMA = delta_schema(FILE_SCHEMA, partitioned=True)
NAME = "topics/t"
NOW = 1_800_000_000_000
_serial = itertools.count()

INT64 = st.integers(0, 2**63 - 1)
TIMES = st.integers(0, LATEST_MS)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def a_file(
    base: int, count: int = 1, *, partition: int = 0, name: str = "", at: int = NOW, size: int = 100
) -> DataFile:
    path = f"partition={partition}/{base:020d}-{name or next(_serial)}.parquet"
    return DataFile(path, partition, base, base + count - 1, count, size, at, at, at)


def metadata(**properties: str) -> MetaData:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return MetaData(
        str(uuid.UUID(int=1)), SCHEMA, ("partition",), {TOPIC_ID: "topic", "lakelog.partitions": "1"} | names, NOW
    )


def info(commit_id: str = "", *, at: int = NOW, **facts: object) -> CommitInfo:
    return CommitInfo(commit_id or uuid.uuid4().hex, at, "TEST", facts=facts)


def first_commit(epoch: int = 1, partitions: int = 1) -> list[Action]:
    ends = [Txn(end_txn(index), 0) for index in range(partitions)]
    return [info("create"), Protocol(), metadata(), *ends, Txn(EPOCH_TXN, epoch)]


def append(file: DataFile, *, epoch: int = 1, commit_id: str = "") -> list[Action]:
    ends = Txn(end_txn(file.partition), file.next_offset)
    return [info(commit_id), Add(file), ends, Txn(EPOCH_TXN, epoch)]


def removal(*files: DataFile, at: int = NOW) -> list[Action]:
    return [info(), *(Remove(file.path, file.partition, file.size, at) for file in files)]


def make_table(store: Store, *, epoch: int | None = 1, name: str = NAME) -> Table:
    """A new table of `epoch`."""
    table = Table(store, name, epoch=epoch)
    table.commit(Kind.CONFIG, lambda _: first_commit(epoch or 1))
    return table


def open_table(store: Store, *, epoch: int | None = None, name: str = NAME) -> Table:
    """The same as another process has it."""
    table = Table(store, name, epoch=epoch)
    assert table.load()
    return table


def commit(table: Table, actions: Sequence[Action], kind: Kind = Kind.REWRITE) -> int:
    return table.commit(kind, lambda _: actions)


def append_rows(table: Table, count: int = 1, *, commit_id: str = "") -> DataFile:
    """Commit one file behind the end of partition 0, without writing it."""
    file = a_file(table.snapshot.end(0), count)
    table.commit(Kind.APPEND, lambda _: append(file, epoch=table.epoch or 1, commit_id=commit_id), commit_id=commit_id)
    return file


def content(snapshot: Snapshot) -> object:
    """Everything that a snapshot says, but for when its tombstones were seen."""
    files = {file.path: file for file in snapshot.all_files()}
    listed = {p: [f.path for f in snapshot.files(p)] for p in {f.partition for f in files.values()}}
    removed = {path: tombstone for path, (tombstone, _) in snapshot.removed.items()}
    return snapshot.version, snapshot.protocol, snapshot.metadata, snapshot.txns, files, listed, removed


@st.composite
def files(draw: st.DrawFn, partition: int | None = None) -> DataFile:
    where = draw(st.integers(-1, 3)) if partition is None else partition
    base, count = draw(st.integers(0, 2**62)), draw(st.integers(1, 1000))
    last = base + count - 1 + draw(st.integers(0, 50))
    low, high = sorted((draw(TIMES), draw(TIMES))) if where >= 0 else (0, 0)
    path = draw(st.sampled_from([f"partition={where}/", ""])) + draw(st.uuids()).hex + ".parquet"
    return DataFile(path, where, base, last, count, draw(INT64), low, high, draw(INT64))


@st.composite
def actions(draw: st.DrawFn) -> Action:
    file = draw(files())
    texts, numbers = draw(st.dictionaries(TEXTS, TEXTS, max_size=3)), draw(INT64)
    facts = {f"x{name}": value for name, value in texts.items()}
    return draw(
        st.sampled_from(
            [
                Add(file, draw(st.booleans())),
                Remove(file.path, file.partition, file.size, draw(TIMES), draw(st.booleans())),
                Txn(draw(TEXTS), numbers),
                MetaData(draw(TEXTS), draw(TEXTS), tuple(texts), texts, draw(TIMES)),
                Protocol(),
                Protocol(3, 7, ("lakelog.exclusive",), ("deletionVectors",)),
                Protocol(1, 2, ()),
                CommitInfo(
                    draw(TEXTS),
                    draw(TIMES),
                    draw(TEXTS),
                    draw(st.booleans()),
                    numbers,
                    draw(st.integers(-1, 99)),
                    facts,
                ),
            ]
        )
    )


@st.composite
def histories(draw: st.DrawFn, most: int = 12) -> list[list[Action]]:
    """Commits as a table could have them: appends to two partitions, merges, removals, moves and new settings."""
    commits: list[list[Action]] = [first_commit(partitions=2)]
    live: list[DataFile] = []
    ends = [0, 0]
    for number in range(draw(st.integers(0, most))):
        what = draw(st.sampled_from(["append", "append", "append", "merge", "remove", "start", "config", "epoch"]))
        index = draw(st.integers(0, 1))
        mine = [file for file in live if file.partition == index]
        if what == "append":
            file = a_file(ends[index], draw(st.integers(1, 9)), partition=index, name=f"{number}")
            ends[index] = file.next_offset
            live.append(file)
            commits.append(append(file))
        elif what == "merge" and len(mine) > 1:
            old = sorted(mine, key=lambda f: f.base_offset)[: draw(st.integers(2, len(mine)))]
            merged = a_file(
                old[0].base_offset, old[-1].next_offset - old[0].base_offset, partition=index, name=f"{number}m"
            )
            live = [*(file for file in live if file not in old), merged]
            commits.append([*removal(*old, at=NOW + number), Add(merged, data_change=False)])
        elif what == "remove" and mine:
            live.remove(mine[0])
            commits.append(removal(mine[0], at=NOW + number))
        elif what == "start":
            commits.append([info(), Txn(start_txn(index), draw(st.integers(0, 9)))])
        elif what == "config":
            commits.append([info(), metadata(lakelog_history_ms=str(number))])
        else:
            commits.append([info(), Txn(EPOCH_TXN, number)])
    return commits
