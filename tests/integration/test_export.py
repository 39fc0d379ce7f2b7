"""A topic whose table is handed over: everybody may write to it, and it is no topic any more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from delta_log import Log, LogReader, Record
from delta_log.maintenance.jobs_api import Maintenance
from delta_log.model.errors import Corruption, InvalidName, RootInUse, TopicClosed, UnknownTopic
from delta_log.operations import check, export_topic, repair
from tests.architecture.project_files import ROOT
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import KINDS, QUIET, TOPIC, expected
from tests.support.keyed_rows import READERS


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return roots.make_dead_root(tmp_path / "root")


def table_of(root: Path) -> DeltaTable:
    return DeltaTable(str(root / "topics" / TOPIC))


def values(root: Path) -> list[bytes | None]:
    return table_of(root).to_pyarrow_table().sort_by("offset").column("value").to_pylist()


def a_row(root: Path) -> pa.Table:
    """As somebody else would append it: with no thought of offsets."""
    schema = table_of(root).to_pyarrow_table().schema
    nothing = dict.fromkeys(schema.names)
    return pa.Table.from_pylist([nothing | {"partition": 0, "value": b"theirs"}], schema=schema)


def append(root: Path) -> None:
    write_deltalake(str(root / "topics" / TOPIC), a_row(root), mode="append")


def check_exported(root: Path) -> None:
    assert values(root) == expected(), "what only the journal had is in the table"
    append(root)
    assert len(values(root)) == len(expected()) + 1
    table_of(root).delete("value = 'theirs'")
    assert values(root) == expected()
    assert [found.severity.value for found in check(root).findings] == ["note"]


def test_an_exported_table_has_everything_and_takes_what_others_append(dead: Path):
    with pytest.raises(Exception, match="exclusive"):
        append(dead)
    said: list[str] = []
    before = roots.content_of(dead)
    planned = export_topic(dead, TOPIC, dry_run=True, say=said.append)
    assert roots.content_of(dead) == before
    assert "8 records" in said[0]
    assert "no topic any more" in str(planned)
    report = export_topic(dead, TOPIC)
    assert report.version == table_of(dead).version()
    check_exported(dead)
    assert export_topic(dead, TOPIC).already


@pytest.mark.parametrize("appended", [False, True])
def test_it_is_no_topic_for_anybody_of_ours_and_the_others_go_on(dead: Path, appended: bool):
    with Log.open(dead, settings=QUIET) as log:
        log.create_topic("other")
        log.append("other", [Record(b"1")])
    export_topic(dead, TOPIC)
    if appended:
        append(dead)
    with Log.open(dead, settings=QUIET) as log:
        assert log.topics() == ["other"]
        for ask in (
            lambda: log.append(TOPIC, [Record(b"no")]),
            lambda: log.read(TOPIC, 0, 0),
            lambda: log.create_topic(TOPIC),
            lambda: log.delete_topic(TOPIC),
        ):
            with pytest.raises(TopicClosed, match="it was exported"):
                ask()
        assert log.append("other", [Record(b"2")]).offsets() == [1]
        log.run_upkeep()
        assert log._running.catalog.unusable() == {}
    with LogReader.open(dead) as reader:
        assert reader.topics() == ["other"]
        with pytest.raises(TopicClosed, match="it was exported"):
            reader.read(TOPIC, 0, 0)
    assert Maintenance.open(dead).topics() == ["other"]
    assert repair(dead).done == ()
    with pytest.raises(Exception, match="given up"):
        repair(dead, give_up=[(TOPIC, 0, 0, 1)])


def test_who_reads_it_while_it_is_exported_is_told(dead: Path):
    with LogReader.open(dead) as reader:
        assert len(roots.read_values(reader)) == 24
        export_topic(dead, TOPIC)
        reader._catalog.live(TOPIC).last_follow = float("-inf")
        with pytest.raises(TopicClosed):
            reader._catalog.follow(reader._catalog.live(TOPIC))


def test_what_is_no_topic_is_not_exported(dead: Path):
    before = roots.content_of(dead)
    for name, error in (("nobody", UnknownTopic), ("__producers", InvalidName), ("__readers", InvalidName)):
        with pytest.raises(error):
            export_topic(dead, name)
    roots.empty(roots.entries(dead)[1])
    with pytest.raises(TopicClosed):
        export_topic(dead, TOPIC)
    roots.entries(dead)[1].unlink()
    assert {name for name in before if name not in roots.content_of(dead)} == {
        f"topics/{TOPIC}/_delta_log/{1:020d}.json"
    }


def check_not_exported(root: Path, named: str) -> None:
    """Neither by a dry run nor in earnest, and what is wrong is told."""
    before = roots.content_of(root)
    said: list[str] = []
    for dry_run in (True, False):
        with pytest.raises(Corruption, match=rf"{re.escape(named)}.*repair --dry-run"):
            export_topic(root, TOPIC, dry_run=dry_run, say=said.append)
    assert (roots.content_of(root), said) == (before, [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [TOPIC, READERS.name])
def test_while_the_journal_can_cure_a_file_it_is_not_emptied_by_an_export(dead: Path, kind: str, table: str):
    """Nor is that of another table: an export brings all of the journal to where it belongs, and nothing is left."""
    file = (roots.topic_files(dead) if table == TOPIC else roots.table_files(dead, table))[1]
    KINDS[kind](file)
    check_not_exported(dead, file.name)
    assert repair(dead).exit_code == 0
    export_topic(dead, TOPIC)
    check_exported(dead)
    assert [row[3] for row in roots.readers_of(dead)] == [28, 29, 30, 31]


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_with_a_damaged_file_is_not_handed_over_when_the_journal_has_nothing(tmp_path: Path, kind: str):
    root = roots.make_dead_root(tmp_path / "root", journal=False)
    file = roots.topic_files(root)[1]
    KINDS[kind](file)
    check_not_exported(root, file.name)
    assert repair(root, give_up=[(TOPIC, 0, 8, 15)]).exit_code == 0
    export_topic(root, TOPIC)
    assert values(root) == expected()[:8] + expected()[16:]


@pytest.mark.parametrize("damage", ["a payload", "a header", "some headers"])
def test_a_topic_is_not_handed_over_before_somebody_settled_what_its_journal_lost(dead: Path, damage: str):
    segment = roots.segment_of(dead)
    groups = [g for g in roots.groups_of(segment) if any(f.frame.topic == TOPIC for f in g.frames)]
    at = {
        "a payload": [groups[-2].frames[0].place.position],
        "a header": [groups[-2].position + 40],
        "some headers": [group.position + 40 for group in roots.groups_of(segment)[-8:-4]],
    }
    for position in at[damage]:
        roots.flip(segment, position)
    check_not_exported(dead, segment.name)
    with Log.open(dead, settings=QUIET):
        pass
    named = re.findall(rf"{TOPIC}:0:(\d+)-(\d+)", str(repair(dead, dry_run=True)))
    ranges = [(int(first), int(last)) for first, last in named]
    repair(dead, give_up=[(TOPIC, 0, *each) for each in ranges])
    export_topic(dead, TOPIC)
    gone = {offset for first, last in ranges for offset in range(first, last + 1)}
    assert gone
    assert values(dead) == [value for offset, value in enumerate(expected()) if offset not in gone]


def test_a_root_that_somebody_owns_keeps_its_topics(dead: Path):
    with Log.open(dead, settings=QUIET) as log:
        with pytest.raises(RootInUse):
            export_topic(dead, TOPIC)
        log.append(TOPIC, [Record(b"still ours")])


KILLED = """
import sys
from pathlib import Path
from delta_log.operations import export_topic
from tests.support.kill_probe import Probe
export_topic(Path(sys.argv[1]), "orders", probe=Probe(sys.argv[2], 1))
"""


@pytest.mark.parametrize("step", ["table.files_written", "export.brought_up", "export.committed", "store.linked"])
def test_an_export_that_was_killed_is_run_again(dead: Path, step: str):
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(dead), step], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert ended.returncode == -9, ended.stderr
    export_topic(dead, TOPIC)
    check_exported(dead)
