"""What can be wrong with a topic, and that each of it is found."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_log import Log, Record, Settings
from delta_log.delta.parquet import encode_parquet, read_file
from delta_log.maintenance.audit.audit_files import audit_files
from delta_log.maintenance.audit.continuity import check_chain
from delta_log.maintenance.audit.plan import plan_audit_orders
from delta_log.maintenance.jobs_api import ORPHAN_AFTER_MS, Maintenance
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.stores import LocalStore
from jobs.tables import audit
from tests.support.job_stage import let_time_pass, now_ms
from tests.support.tables import a_file


def chain(*files: DataFile, log_start: int = 0, end: int = 10, dense: bool = True, clean: int = 0) -> list[str]:
    found = check_chain(files, partition=0, log_start=log_start, end=end, dense=dense, clean=clean)
    return [str(each) for each in found]


def test_files_side_by_side_from_the_log_start_to_the_end_are_sound():
    assert chain(a_file(0, 4), a_file(4, 6)) == []
    assert chain(a_file(0, 4), a_file(4, 6), log_start=2) == []
    assert chain(a_file(0, 4), a_file(4, 6), log_start=7) == []
    assert chain(log_start=10) == []


@pytest.mark.parametrize(
    ("files", "log_start", "missing"),
    [
        ([a_file(0, 4), a_file(5, 5)], 0, ["4 to 4"]),
        ([a_file(3, 7)], 1, ["1 to 2"]),
        ([a_file(0, 8)], 0, ["8 to 9"]),
        ([], 3, ["3 to 9"]),
        ([a_file(1, 1), a_file(3, 6)], 0, ["0 to 0", "2 to 2", "9 to 9"]),
    ],
)
def test_missing_offsets_are_named(files: list[DataFile], log_start: int, missing: list[str]):
    assert chain(*files, log_start=log_start) == [f"partition 0 lacks the offsets {each}" for each in missing]
    assert chain(*files, log_start=log_start, dense=False) == []


def test_where_a_key_compaction_has_been_offsets_may_be_left_out_and_nowhere_else():
    sparse = (a_file(1, 1), a_file(4, 2))
    assert chain(*sparse, clean=10) == []
    assert chain(*sparse, clean=6) == ["partition 0 lacks the offsets 6 to 9"]
    assert chain(*sparse, clean=3) == ["partition 0 lacks the offsets 3 to 3", "partition 0 lacks the offsets 6 to 9"]
    assert chain(clean=4) == ["partition 0 lacks the offsets 4 to 9"]


def test_files_below_what_is_clean_may_leave_out_offsets_and_others_may_not():
    files = [a_file(0, 4), a_file(4, 4), a_file(8, 4), a_file(0, 4, partition=1)]
    orders = plan_audit_orders("r", "t", files, clean={0: 6, 1: 0}.__getitem__, most_bytes=1 << 30, most_files=100)
    found = [([(file.partition, file.base_offset) for file in order.files], order.dense) for order in orders]
    assert found == [([(0, 0), (0, 4)], False), ([(0, 8), (1, 0)], True)]


def test_files_are_looked_into_as_few_at_a_time_as_there_should_be():
    files = [a_file(at, 2) for at in range(0, 10, 2)]
    size = files[0].size
    for limits, counts in (((1 << 30, 2), [2, 2, 1]), ((3 * size, 9), [3, 2]), ((0, 9), [1] * 5)):
        most_bytes, most_files = limits
        orders = plan_audit_orders("r", "t", files, clean=lambda _: 0, most_bytes=most_bytes, most_files=most_files)
        assert [len(order.files) for order in orders] == counts


@pytest.mark.parametrize("dense", [True, False])
def test_offsets_that_are_there_twice_or_beyond_the_end_are_named(dense: bool):
    (twice,) = chain(a_file(0, 5, name="a"), a_file(4, 6, name="b"), dense=dense)
    assert "b.parquet: it begins at 4" in twice
    assert chain(a_file(0, 11), dense=dense) == ["partition 0 has offsets up to 10, and ends at 10"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three files of four records."""
    made = tmp_path / "root"
    with Log.open(made, settings=Settings(upkeep=False)) as log:
        log.create_topic("t")
        for number in range(3):
            log.append("t", [Record(b"%d.%d" % (number, each)) for each in range(4)])
            log.flush("t")
    let_time_pass(made)
    return made


def second(root: Path) -> Path:
    return sorted(root.glob("topics/t/partition=0/*.parquet"))[1]


def run(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    return run_whole(root, capsys, *options)[:2]


def run_whole(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str], dict[str, Any]]:
    """Exit code, what was said, and the summary."""
    capsys.readouterr()
    code = audit.main(["--data", str(root), "--all", "--engine", "local", *options])
    *said, summary = capsys.readouterr().out.splitlines()
    return code, said, json.loads(summary)


def rewrite(path: Path, change) -> None:
    """A file of other rows, sound in itself, and of the very same size."""
    store = LocalStore(path.parent)
    table = change(read_file(store, path.name, FILE_SCHEMA))
    data = encode_parquet(table, ParquetCodec(), ordered_by=("offset", "timestamp"))
    path.write_bytes(data)


def shifted(column: str, by: int):
    def change(table: pa.Table) -> pa.Table:
        place, field = FILE_SCHEMA.get_field_index(column), FILE_SCHEMA.field(column)
        moved = pc.add(table.column(column).cast(pa.int64()), pa.scalar(by)).cast(field.type)
        return table.set_column(place, field, moved)

    return change


def test_a_sound_topic_passes(root: Path, capsys):
    assert run(root, capsys) == (0, [])


def test_a_dry_run_names_the_files_with_their_sizes_and_opens_none_of_them(root: Path, capsys):
    """So it does not see that one is damaged."""
    damaged, files = second(root), sorted(root.glob("topics/t/partition=0/*.parquet"))
    damaged.write_bytes(bytes(damaged.stat().st_size))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    code, (topic, *planned), summary = run_whole(root, capsys, "--dry-run")
    assert (code, topic) == (0, "topic t")
    assert planned == [f"read partition=0/{path.name} ({path.stat().st_size} bytes)" for path in files]
    counts = {"files": 3, "records": 12, "bytes": sum(path.stat().st_size for path in files)}
    assert summary["dry_run"] is True
    assert summary["topics"] == {"t": counts | {"findings": 0}}
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    code, found, summary = run_whole(root, capsys)
    assert code == 1, found
    assert {name: summary["topics"]["t"][name] for name in counts} == counts, "the run reads what was planned"


CHANGES = {
    "a flipped byte": (lambda path: flip(path, path.stat().st_size // 4), ""),
    "a damaged footer": (lambda path: flip(path, path.stat().st_size - 20), ""),
    "a file cut short": (lambda path: os.truncate(path, 100), ""),
    "no file": (Path.unlink, "missing"),
    "other offsets": (lambda path: rewrite(path, shifted("offset", 1)), "4 rows, 5 to 8; its table says 4, 4 to 7"),
    "too few rows": (lambda path: rewrite(path, lambda table: table.slice(0, 3)), "3 rows, 4 to 6"),
    "rows out of order": (
        lambda path: rewrite(path, lambda table: table.take(pa.array([0, 2, 1, 3]))),
        "do not rise",
    ),
    "other times": (lambda path: rewrite(path, shifted("timestamp", 86_400_000_000)), "timestamps from"),
}


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_behind_the_tables_back_is_found(root: Path, capsys, what: str):
    change, said = CHANGES[what]
    changed = second(root)
    change(changed)
    code, (topic, *findings) = run(root, capsys)
    assert (code, topic) == (1, "topic t")
    assert all(changed.name in each for each in findings)
    assert said in " ".join(findings)


def test_a_file_of_which_offsets_were_left_out_is_found_unless_the_topic_compacts(root: Path):
    topic = Maintenance.open(root).topic("t")
    (order,) = topic.plan_audit(1 << 30, 100)
    first = order.files[0]
    rewrite(root / "topics" / "t" / first.path, lambda table: table.take(pa.array([0, 3])))
    size = (root / "topics" / "t" / first.path).stat().st_size
    thin = DataFile(*(getattr(first, name) for name in first.__slots__[:4]), 2, size, 0, now_ms(), 0)
    for dense, findings in ((True, 1), (False, 0)):
        asked = type(order)(order.root, order.directory, (thin,), dense)
        assert len(audit_files(asked).findings) == findings


def test_a_file_that_nobody_names_is_found_once_it_is_old(root: Path, capsys):
    stray = second(root).with_name(f"{0:020d}-job-{'a' * 32}.parquet")
    stray.write_bytes(second(root).read_bytes())
    assert run(root, capsys) == (0, [])
    long_ago = (now_ms() - ORPHAN_AFTER_MS) / 1000 - 1
    os.utime(stray, (long_ago, long_ago))
    code, (_, finding) = run(root, capsys)
    assert code == 1
    assert stray.name in finding


def test_files_whose_log_is_gone_are_found_and_a_topic_that_was_never_made_is_none(root: Path, capsys):
    """Without its log nothing says that there is a topic: only who looks at the files sees that one is missing."""
    (root / "topics" / "unmade" / "_delta_log").mkdir(parents=True)
    assert run(root, capsys)[0] == 0
    shutil.rmtree(root / "topics" / "t" / "_delta_log")
    code, _, summary = run_whole(root, capsys)
    why = "t is damaged: no log says of which table its files are; `lakelog check` looks further"
    assert (code, summary["outcome"], summary["errors"]) == (1, "incomplete", {"t": why})
    assert run(root, capsys, "--dry-run")[0] == 0, "that says what would be read"


def test_retention_sweeps_what_a_job_left_and_nothing_else(root: Path):
    folder = second(root).parent
    long_ago = (now_ms() - ORPHAN_AFTER_MS) / 1000 - 1
    for name in (f"{0:020d}-job-{'a' * 32}", f"{0:020d}-1-0-77"):
        (folder / f"{name}.parquet").write_bytes(b"x")
        os.utime(folder / f"{name}.parquet", (long_ago, long_ago))
    for file in folder.glob("*"):
        os.utime(file, (long_ago, long_ago))
    topic = Maintenance.open(root).topic("t")
    stale = topic.plan_sweep(now_ms())
    assert [file.path for file in stale] == [f"partition=0/{0:020d}-job-{'a' * 32}.parquet"]
    topic.sweep(stale)
    assert len(list(folder.glob("*"))) == 4
    assert len(topic.orphans(now_ms())) == 1


def test_a_file_that_left_while_it_was_to_be_read_is_no_finding(root: Path):
    topic = Maintenance.open(root).topic("t")
    (order,) = topic.plan_audit(1 << 30, 100)
    with Log.open(root, settings=Settings(upkeep=False)) as log:
        log.delete_records("t", 0, -1)
    for file in order.files:
        (root / "topics" / "t" / file.path).unlink()
    answer = audit_files(order)
    assert len(answer.missing) == 3
    assert topic.still_missing(answer) == []


def test_no_flipped_byte_changes_a_record_unnoticed(root: Path):
    """What is not noticed is what no reader uses: the magic at the front, statistics in the headers of pages."""
    topic = Maintenance.open(root).topic("t")
    (order,) = topic.plan_audit(1 << 30, 100)
    path = root / "topics" / "t" / order.files[0].path
    store, data = LocalStore(path.parent), path.read_bytes()
    right = read_file(store, path.name, FILE_SCHEMA)
    unnoticed = 0
    for at in range(0, len(data), 3):
        flip(path, at)
        if not audit_files(order).findings:
            unnoticed += 1
            assert read_file(store, path.name, FILE_SCHEMA).equals(right), at
        path.write_bytes(data)
    assert unnoticed < len(data) // 3 // 8
