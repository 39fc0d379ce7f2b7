"""An engine that ignores what the protocol says and forces a change on a topic: it is named, and no reader is misled.

What it deletes is gone, and read as the hole that it is; what it puts in is never taken for a record.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_log import Log, LogReader, Record, Settings
from delta_log.model.errors import LakelogError
from delta_log.operations import check
from tests.support.logs import values_of

SETTINGS = Settings(upkeep=False, tail_bytes=0, max_block_s=0.0)


def force(root: Path, *actions: dict[str, object]) -> None:
    """The next version of the table, as another engine would write it."""
    log = root / "topics/theirs/_delta_log"
    version = max(int(entry.stem) for entry in log.glob("*.json")) + 1
    told = [{"commitInfo": {"timestamp": 1, "operation": "WRITE", "engineInfo": "another"}}, *actions]
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in told))


def first_file(root: Path) -> Path:
    return min((root / "topics/theirs/partition=0").glob("0*.parquet"))


def insert(root: Path) -> None:
    path = root / "topics/theirs/partition=0/part-00000-another.snappy.parquet"
    rows = pa.table({"offset": [7], "timestamp": pa.array([0], pa.timestamp("us", "UTC")), "value": [b"forged"]})
    pq.write_table(rows, path)
    force(
        root,
        {
            "add": {
                "path": f"partition=0/{path.name}",
                "partitionValues": {"partition": "0"},
                "size": path.stat().st_size,
                "modificationTime": 1,
                "dataChange": True,
            }
        },
    )


def delete(root: Path) -> None:
    force(
        root,
        {
            "remove": {
                "path": f"partition=0/{first_file(root).name}",
                "partitionValues": {"partition": "0"},
                "deletionTimestamp": 1,
                "dataChange": True,
            }
        },
    )


def rewrite(root: Path) -> None:
    """One file for another with the same rows but one."""
    old = first_file(root)
    new = old.with_name("part-00000-rewritten.snappy.parquet")
    rows = pq.read_table(old, partitioning=None)
    pq.write_table(rows.slice(0, rows.num_rows - 1), new)
    values = {"partition": "0"}
    force(
        root,
        {"remove": {"path": f"partition=0/{old.name}", "partitionValues": values, "dataChange": True}},
        {
            "add": {
                "path": f"partition=0/{new.name}",
                "partitionValues": values,
                "size": new.stat().st_size,
                "modificationTime": 1,
                "dataChange": True,
            }
        },
    )


CHANGES = {"INSERT": insert, "DELETE": delete, "OPTIMIZE": rewrite}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("when", ["while it is owned", "while nobody has it"])
def test_what_is_forced_on_a_topic_is_named_misleads_no_reader_and_stops_no_other_topic(
    tmp_path: Path, change: str, when: str
):
    root = tmp_path / "root"
    stored = [b"%d" % number for number in range(6)]
    log = Log.open(root, settings=SETTINGS)
    for topic in ("theirs", "ours"):
        log.create_topic(topic)
        for begin in range(0, 6, 2):
            log.append(topic, [Record(value) for value in stored[begin : begin + 2]])
            log.flush()
    if when == "while nobody has it":
        log.close()
        CHANGES[change](root)
        log = Log.open(root, settings=SETTINGS)
    else:
        CHANGES[change](root)
    with log:
        log.run_upkeep()
        for reader in (log, LogReader.open(root)):
            try:
                found = values_of(reader, "theirs")
            except LakelogError:
                continue
            left = stored[2:] if change == "DELETE" else stored
            assert found == left, f"{change} {when}: {found}"
        assert log.append("ours", [Record(b"6")]).offsets() == [6]
        assert values_of(log, "ours") == [*stored, b"6"]
        try:
            after = log.append("theirs", [Record(b"after")]).offsets()
        except LakelogError:
            pass
        else:
            assert after == [6], "an offset is never given twice"
    damage = [found for found in check(root).findings if "theirs" in str(found)]
    assert damage, f"{change} {when}"
