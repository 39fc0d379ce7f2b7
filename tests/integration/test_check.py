"""What `check` says of sound roots, whatever they are doing, and of every damage that can be done to one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from delta_log import Log, Record, Settings
from delta_log.delta.actions import CommitInfo, Txn
from delta_log.delta.conflicts import Kind
from delta_log.delta.file_commits import remove_files
from delta_log.delta.parquet import encode_parquet
from delta_log.delta.snapshot import clean_txn
from delta_log.model.errors import NotARoot
from delta_log.model.topic_config import ParquetCodec
from delta_log.operations import check
from delta_log.operations.check.findings import CheckReport, Severity
from delta_log.root.root import RootInfo, encode_info
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import KINDS, QUIET, TOPIC
from tests.support.job_stage import let_time_pass
from tests.support.keyed_rows import READERS
from tests.support.logs import eventually


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return roots.make_dead_root(tmp_path / "root")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return roots.make_dead_root(tmp_path / "root", journal=False)


def damage_of(report: CheckReport) -> list[str]:
    return [str(found) for found in report.findings if found.severity is Severity.DAMAGE]


def test_a_root_whose_owner_died_is_sound_and_a_check_changes_nothing(dead: Path):
    before = roots.content_of(dead)
    report = check(dead)
    assert (report.findings, report.exit_code) == ((), 0)
    assert roots.content_of(dead) == before
    assert str(report).endswith(f"{dead}: sound; 3 tables, 9 files, {report.records} records, {report.size} bytes")


def test_a_dry_run_of_a_check_says_what_would_be_read_and_reads_nothing_of_it(dead: Path):
    roots.flip(roots.topic_files(dead)[1])
    before = roots.content_of(dead)
    looked: list[str] = []
    plan = check(dead, dry_run=True, progress=looked.append)
    assert (plan.location, plan.tables, plan.exit_code) == (str(dead), ("__producers", "__readers", TOPIC), 0)
    assert str(plan).endswith("all of 3 tables (__producers, __readers, orders); change nothing")
    assert (looked, roots.content_of(dead)) == ([], before)
    assert check(dead).exit_code == 1
    with pytest.raises(NotARoot):
        check(dead / "topics", dry_run=True)


def test_a_root_after_a_clean_stop_is_sound(stopped: Path):
    assert check(stopped).findings == ()


def test_what_a_running_owner_changes_meanwhile_is_no_finding(tmp_path: Path):
    config = {"lakelog.commit.interval.ms": 100, "lakelog.fold.files": 2}
    settings = Settings(segment_bytes=16 * 1024)
    stop = threading.Event()
    with Log.open(tmp_path / "root", settings=settings) as log:
        log.create_topic(TOPIC, config=config)

        number = 0

        def go_on() -> None:
            nonlocal number
            while not stop.is_set():
                roots.write(log, range(number, number + 1))
                number += 1

        writer = threading.Thread(target=go_on)
        writer.start()
        try:
            eventually(lambda: number, "a record")
            for _ in range(5):
                assert damage_of(check(tmp_path / "root")) == []
        finally:
            stop.set()
            writer.join()
    report = check(tmp_path / "root")
    assert report.findings == ()
    assert report.records > 0


def test_holes_are_none_where_topics_are_compacted_by_key(tmp_path: Path):
    with Log.open(tmp_path / "root", settings=QUIET) as log:
        log.create_topic("keyed", config={"cleanup.policy": "compact"})
        for number in range(3):
            log.append("keyed", [Record(b"%d" % number, key=b"k")])
            log.flush()
        live = log._running.catalog.live("keyed")
        remove_files(live.table, live.id, [live.table.snapshot.files(0)[1]], lambda: 1)
        live.table.commit(Kind.CONFIG, lambda _: [CommitInfo("c", 1, "COMPACT"), Txn(clean_txn(0), 3)])
    assert check(tmp_path / "root").findings == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [TOPIC, "__producers", READERS.name])
def test_a_damaged_data_file_is_named(dead: Path, kind: str, table: str):
    file = (roots.topic_files(dead) if table == TOPIC else roots.table_files(dead, table))[1]
    KINDS[kind](file)
    (found,) = damage_of(check(dead))
    assert found.startswith(f"damage: {file.relative_to(dead)}: ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_damaged_log_entry_is_named(dead: Path, kind: str, place: int):
    entry = roots.entries(dead)[place]
    KINDS[kind](entry)
    found = damage_of(check(dead))
    if (kind, place) == ("missing", -1):
        assert found == [], "the journal has all of it, so that a start writes it once more"
    elif kind == "flipped" and not found:
        pytest.fail("a flipped byte was not noticed")
    else:
        assert found[0].startswith(f"damage: {entry.relative_to(dead)}")


def test_a_newest_entry_that_is_gone_is_told_by_the_files_that_were_written_for_it(stopped: Path):
    roots.entries(stopped)[-1].unlink()
    (found,) = damage_of(check(stopped))
    assert "a commit is lost" in found
    assert roots.topic_files(stopped)[-1].name in found


def with_checkpoints(root: Path) -> Path:
    """As after a hundred commits, and some more."""
    from delta_log.delta.write_checkpoint import write_checkpoint

    with Log.open(root, settings=QUIET) as log:
        live = log._running.catalog.live(TOPIC)
        write_checkpoint(live.table)
        log.append(TOPIC, [Record(b"behind the checkpoint")])
    return next((root / "topics" / TOPIC / "_delta_log").glob("*.checkpoint.parquet"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_checkpoint_is_named(stopped: Path, kind: str):
    checkpoint = with_checkpoints(stopped)
    assert damage_of(check(stopped)) == []
    KINDS[kind](checkpoint)
    found = damage_of(check(stopped))
    named = "_last_checkpoint" if kind == "missing" else checkpoint.name
    assert any(named in each for each in found)


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty"])
def test_a_damaged_hint_at_the_checkpoint_is_named(stopped: Path, kind: str):
    with_checkpoints(stopped)
    hint = stopped / f"topics/{TOPIC}/_delta_log/_last_checkpoint"
    roots.flip(hint, 0) if kind == "flipped" else KINDS[kind](hint)
    (found,) = damage_of(check(stopped))
    assert found.startswith(f"damage: {hint.relative_to(stopped)}: ")


@pytest.mark.parametrize("told", [b'{"version":3,"size":999}', b'{"version":3,"sizg":5}'])
def test_a_hint_that_tells_another_story_than_its_checkpoint_is_named(stopped: Path, told: bytes):
    checkpoint = with_checkpoints(stopped)
    hint = checkpoint.with_name("_last_checkpoint")
    hint.write_bytes(told.replace(b"3", b"%d" % int(checkpoint.name[:20])))
    (found,) = damage_of(check(stopped))
    assert found.startswith(f"damage: {hint.relative_to(stopped)}: ")


def test_a_checkpoint_that_tells_another_story_than_the_entries_is_named(stopped: Path):
    checkpoint = with_checkpoints(stopped)
    from delta_log.delta.checkpoint import decode_checkpoint, encode_checkpoint
    from delta_log.delta.snapshot import Snapshot

    state = Snapshot(version=int(checkpoint.name[:20]))
    state.fold(decode_checkpoint(checkpoint.read_bytes(), ""))
    state.txns["lakelog/end/0"] -= 1
    checkpoint.write_bytes(encode_checkpoint(state)[0])
    assert any("disagrees with the entries" in each for each in damage_of(check(stopped)))


@pytest.mark.parametrize("at", ["header", "directory", "payload"])
def test_damage_in_the_journal_is_named(dead: Path, at: str):
    segment = roots.segment_of(dead)
    group = roots.groups_of(segment)[2]
    place = {"header": group.position + 40, "directory": group.position + 90, "payload": group.end - 1}[at]
    roots.flip(segment, place)
    found = damage_of(check(dead))
    assert any(segment.name in each for each in found)
    assert any("are lost" in each for each in found)


def test_a_journal_that_does_not_say_what_it_lost_is_said_to_be_one(dead: Path):
    segment = roots.segment_of(dead)
    for group in roots.groups_of(segment)[2:4]:
        roots.flip(segment, group.position + 40)
    assert any("a start skips all that may be" in each for each in damage_of(check(dead)))


def test_rows_that_the_journal_has_otherwise_than_the_table_are_named(dead: Path):
    """As when a table, or a journal, was put back from another time or another root."""
    file = roots.topic_files(dead)[1]
    rows = pq.read_table(file)
    changed = rows.set_column(rows.schema.get_field_index("value"), "value", [[b"another"] * rows.num_rows])
    from delta_log.model.schema import FILE_SCHEMA

    data = encode_parquet(changed.select(FILE_SCHEMA.names).cast(FILE_SCHEMA), ParquetCodec(), ordered_by=("offset",))
    file.write_bytes(data)
    found = damage_of(check(dead))
    assert any("the journal has another row at offset 8" in each for each in found)


def test_a_journal_of_another_time_than_the_tables_does_not_go_on_where_they_end(dead: Path):
    for entry in roots.entries(dead)[-2:]:
        entry.unlink()
    log = Log.open(dead, settings=QUIET)
    log.close()
    assert damage_of(check(dead)) == []


@pytest.mark.parametrize("name", ["lakelog.json", "writers/0000000001.json"])
def test_a_damaged_identity_is_named(dead: Path, name: str):
    (dead / name).write_bytes(b"{")
    assert any(f"damage: {name}: " in each for each in damage_of(check(dead)))


def test_a_table_that_a_later_owner_wrote_to_than_anybody_knows_is_named(dead: Path):
    for name in ("writers/0000000001.json",):
        (dead / name).rename(dead / "writers" / "0000000000.json")
    assert any("epoch 1 wrote to it" in each for each in damage_of(check(dead)))


def test_files_that_nobody_needs_are_waste_and_no_damage(stopped: Path):
    (stopped / f"topics/{TOPIC}/partition=0/{3:020d}-job-{'0' * 32}.parquet").write_bytes(b"x")
    let_time_pass(stopped)
    import os

    left = stopped / f"topics/{TOPIC}/partition=0/{3:020d}-job-{'0' * 32}.parquet"
    os.utime(left, (0, 0))
    report = check(stopped)
    assert [found.severity for found in report.findings] == [Severity.WASTE]
    assert report.exit_code == 0


def test_a_directory_that_is_no_root_is_refused(tmp_path: Path):
    with pytest.raises(NotARoot):
        check(tmp_path)


def test_a_root_of_a_newer_format_is_refused(dead: Path):
    told = msgspec.json.decode((dead / "lakelog.json").read_bytes())
    (dead / "lakelog.json").write_bytes(encode_info(RootInfo(told["cluster_id"], 99)))
    with pytest.raises(NotARoot, match="newer"):
        check(dead)


def test_progress_names_each_table(dead: Path):
    said: list[str] = []
    watch: Callable[[str], None] = said.append
    check(dead, progress=watch)
    assert said[0] == "the journal"
    assert {f"the table {name}" for name in (TOPIC, "__producers", READERS.name)} <= set(said)
