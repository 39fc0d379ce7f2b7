"""The steps of docs/how-to/recover.md lead where it says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_log import Log, LogReader, Record, Settings
from delta_log.model.errors import Corruption, TopicClosed
from tests.architecture.project_files import ROOT

QUIET = Settings(upkeep=False, tail_bytes=0)
KILLED_WRITER = """
import os, signal, sys
from delta_log import Log, Record, Settings
log = Log.open(sys.argv[1], settings=Settings(upkeep=False))
for topic in ("damaged", "sound"):
    log.create_topic(topic, config={"lakelog.commit.interval.ms": 3_600_000})
    log.when_tabled(topic, log.append(topic, [Record(b"first")])).result()
    log.append(topic, [Record(b"second")])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    subprocess.run([sys.executable, "-c", KILLED_WRITER, str(root)], cwd=ROOT, check=False)
    return root


def values(log: Log | LogReader, topic: str) -> list[bytes | None]:
    return [record.value for part in log.scan(topic, 0) for record in part.records()]


def newest_commit(root: Path, topic: str) -> Path:
    return max((root / "topics" / topic / "_delta_log").glob("*.json"))


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x20
    path.write_bytes(content)


def test_a_damaged_commit_closes_its_topic_alone_until_it_is_put_back(killed: Path):
    commit = newest_commit(killed, "damaged")
    backup = commit.read_bytes()
    commit.write_bytes(b"")
    with Log.open(killed, settings=QUIET) as log:
        assert "closed: damaged" in log.recovery
        with pytest.raises(TopicClosed, match=commit.name):
            log.read("damaged", 0, 0)
        log.append("sound", [Record(b"third")])
        assert values(log, "sound") == [b"first", b"second", b"third"]
    commit.write_bytes(backup)
    with Log.open(killed, settings=QUIET) as log:
        assert values(log, "damaged") == [b"first", b"second"]


def test_without_a_backup_the_copy_is_the_table_one_commit_earlier(killed: Path, tmp_path: Path):
    commit = newest_commit(killed, "damaged")
    commit.write_bytes(b"")
    copy = tmp_path / "copy"
    shutil.copytree(killed / "topics" / "damaged", copy)
    max((copy / "_delta_log").glob("*.json")).unlink()
    assert DeltaTable(str(copy)).version() == int(commit.stem) - 1


def test_a_damaged_data_file_costs_its_own_offsets_alone_until_it_is_put_back(tmp_path: Path):
    root = tmp_path / "root"
    with Log.open(root, settings=QUIET) as log:
        log.create_topic("orders")
        for value in (b"first", b"second", b"third"):
            log.append("orders", [Record(value)])
            log.flush()
    damaged = sorted(root.glob("topics/orders/partition=0/*.parquet"))[1]
    backup = damaged.read_bytes()
    flip_a_byte(damaged)
    with Log.open(root, settings=QUIET) as log:
        with pytest.raises((TopicClosed, Corruption), match=damaged.name):
            log.read("orders", 0, 1)
        assert [record.value for record in log.read("orders", 0, 2).records()] == [b"third"]
        log.append("orders", [Record(b"fourth")])
        damaged.write_bytes(backup)
        assert values(log, "orders") == [b"first", b"second", b"third", b"fourth"]
        flip_a_byte(damaged)
        log.delete_records("orders", 0, 2)
        assert values(log, "orders") == [b"third", b"fourth"]
