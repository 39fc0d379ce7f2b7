"""docs/reference/root-layout.md describes what a root holds that has seen work, and nothing that it does not."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.delta.file_commits import rewritten_name
from delta_log.delta.topic_commits import DELETED, EXPORTED
from delta_log.maintenance.lease_holder import Leases
from delta_log.model.lost_ranges import LOST
from delta_log.model.schema import FILE_SCHEMA, PRODUCERS_SCHEMA, delta_schema
from jobs.tables import key_compaction
from lakelog.cli.jobs.schedule import lease_name
from tests.architecture.project_files import ROOT
from tests.support.keyed_rows import READERS, reader
from tests.support.logs import eventually
from tests.support.s3_server import S3Server

PAGE = (ROOT / "docs" / "reference" / "root-layout.md").read_text(encoding="utf-8")
CELL = re.compile(r"(?<!\\)\|")
SETTINGS = Settings(upkeep=False, segment_bytes=16 * 1024, ballast_bytes=1024 * 1024)
KILLED_WRITER = """
import os, signal, sys
from delta_log import Log, Record, Settings
log = Log.open(sys.argv[1], settings=Settings(upkeep=False, segment_bytes=16 * 1024))
for topic in ("orders", "lost"):
    log.create_topic(topic, 2, {"lakelog.commit.interval.ms": 3_600_000, "retention.ms": -1})
for number in range(100):
    log.append("orders", [Record(b"%06d" % number * 100)])
log.append("lost", [Record(b"its table will be gone")])
print("ready", flush=True)
signal.pause()
"""
COMMITS = 110


def table_under(heading: str) -> list[list[str]]:
    """The cells of the rows whose first cell is code, in one section."""
    _, _, rest = PAGE.partition(f"\n## {heading}\n")
    section = rest.partition("\n## ")[0]
    rows = (CELL.split(line.strip("|")) for line in section.splitlines() if line.startswith("| `"))
    return [[cell.strip().strip("`").replace("\\|", "|") for cell in row] for row in rows]


def file_patterns(*headings: str) -> dict[str, re.Pattern[str]]:
    rows = [row for heading in ("Files", *headings) for row in table_under(heading)]
    parts = {name: look for name, look, _ in (row for row in rows if row[0].startswith("<"))}
    patterns: dict[str, re.Pattern[str]] = {}
    for written in (row[0] for row in rows if not row[0].startswith("<")):
        pieces = re.split(r"(<[^>]+>)", written)
        patterns[written] = re.compile("".join(parts.get(piece) or re.escape(piece) for piece in pieces))
    return patterns


def list_root(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layout") / "root"


@pytest.fixture(scope="module")
def seen(root: Path) -> set[str]:
    """Every file that was there at some time: under work, after a kill, and after more work."""
    found: set[str] = set()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(root)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        found |= list_root(root)
        writer.kill()
    shutil.rmtree(root / "topics" / "lost")

    def look(step: str) -> None:
        if step == "store.staged" and not any(name.startswith("journal/staging/") for name in found):
            found.update(list_root(root))

    with Log.open(root, settings=SETTINGS, probe=look) as log:
        assert "set aside" in log.recovery
        ledger = log.open_ledger([READERS])
        for number in range(COMMITS):
            log.append("orders", [Record(b"%d" % number)], producer=ProducerStamp("shop", 0, number))
            ledger.append([reader("ann", number)])
            log.flush()
        Leases.open(root, "a scheduler").take(lease_name("key_compaction", ["--all"]), 1000)
        found |= list_root(root)
        log.run_upkeep()
        log.delete_records("orders", 0, 1)
        log.create_topic("prices", 1, {"cleanup.policy": "compact"})
        log.append("prices", [Record(b"1", b"tea"), Record(b"2", b"tea")])
        log.flush()
        assert key_compaction.main(["--data", str(root), "--all", "--engine", "local"]) == 0
        log.create_topic("deleted")
        log.delete_topic("deleted")
        eventually(lambda: log.statistics().ballast_bytes, "the ballast")
        found |= list_root(root)
    return found | list_root(root)


def test_every_file_of_a_root_is_described(seen: set[str]):
    patterns = file_patterns()
    unknown = {name for name in seen if not any(look.fullmatch(name) for look in patterns.values())}
    assert unknown == set()


def test_every_file_that_is_described_exists(seen: set[str]):
    by_a_job = f"topics/orders/partition=0/{0:020d}-{rewritten_name(None)}.parquet"
    names = seen | {by_a_job}
    absent = {written for written, look in file_patterns().items() if not any(map(look.fullmatch, names))}
    assert absent == set()


def test_every_object_of_a_root_in_a_bucket_is_described(s3_server: S3Server):
    url = s3_server.root("layout")
    with Log.open(url, settings=SETTINGS, store_options=s3_server.options) as log:
        log.create_topic("orders", 2)
        log.append("orders", [Record(b"1"), Record(b"2")], producer=ProducerStamp("shop", 0, 0))
        seen = list_root(s3_server.folder / "layout")
        log.flush()
    journals = {name for name in seen if name.startswith("journal/")}
    seen |= list_root(s3_server.folder / "layout")
    described = [look for written, look in file_patterns("In a bucket").items() if ".seg" not in written]
    assert {name for name in seen if not any(look.fullmatch(name) for look in described)} == set()
    assert {name for name in journals if name.endswith(".grp")} == journals


def test_a_clean_stop_leaves_an_empty_journal(tmp_path: Path):
    with Log.open(tmp_path / "root") as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"tea")])
    assert {name.partition("/")[0] for name in list_root(tmp_path / "root")} == {"lakelog.json", "writers", "topics"}


def test_the_columns_are_those_of_the_tables():
    fields = msgspec.json.decode(delta_schema(FILE_SCHEMA, partitioned=True))["fields"]
    types = {each["name"]: each["type"] if isinstance(each["type"], str) else "array" for each in fields}
    assert {row[0]: row[1] for row in table_under("A topic's table")} == types
    _, _, producers = PAGE.partition("The table `topics/__producers` is not partitioned.")
    assert re.findall(r"`(\w+)`", producers.partition("\n\n")[0]) == PRODUCERS_SCHEMA.names


@pytest.mark.usefixtures("seen")
def test_transaction_ids_properties_and_protocol_are_those_of_the_logs(root: Path):
    ids: set[str] = set()
    properties: set[str] = set()
    for entry in root.glob("topics/*/_delta_log/*.json"):
        for line in entry.read_bytes().splitlines():
            ((kind, body),) = msgspec.json.decode(line).items()
            if kind == "txn":
                ids.add(re.sub(r"/\d+$", "/<partition>", body["appId"]))
            elif kind == "metaData":
                properties |= body["configuration"].keys()
            elif kind == "protocol":
                wanted = (1, 7, ["appendOnly", "invariants", "lakelog.exclusive"])
                assert (body["minReaderVersion"], body["minWriterVersion"], body["writerFeatures"]) == wanted
    assert ids == {row[0] for row in table_under("Transaction ids")}
    named = {row[0] for row in table_under("Table properties")}
    settings = {
        "lakelog.cleanup.policy",
        "lakelog.retention.ms",
        "lakelog.commit.interval.ms",
        "lakelog.history.commits",
    }
    by_operators = {EXPORTED, LOST}
    assert properties == (named - {"lakelog.<setting>"} - by_operators) | settings
    assert {DELETED, *by_operators} <= named
