"""What a start makes of a ledger's journal and tables when something is wrong with them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from delta_log import Log, Record, Settings
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.commit.journal_trim import copy_forward
from delta_log.journal.group_format import Frame
from delta_log.journal.segment_scan import FoundFrame, scan_segment
from delta_log.model.errors import Corruption, TopicClosed
from delta_log.records.payload_kinds import LEDGER
from tests.support.keyed_rows import TABLES, compact, live_of, mark, no_mark, reader, state
from tests.support.logs import crash, values_of

SETTINGS = Settings(upkeep=False, segment_bytes=16 * 1024)


@pytest.fixture(autouse=True)
def _tables_wait_for_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommitScheduler, "notice", lambda _tabler, _live: None)


def held(path: Path) -> Log:
    return Log.open(path, settings=SETTINGS)


def frames_in(segment: Path) -> list[FoundFrame]:
    epoch, number, life = segment.stem.split("-")
    scan = scan_segment(segment.read_bytes(), life=int(life, 16), epoch=int(epoch), segment=int(number))
    return [found for group in scan.groups for found in group.frames]


def damage(path: Path, wanted: Callable[[Frame], bool]) -> None:
    """Flip a byte of such a frame's payload."""
    for segment in (path / "journal").glob("*.seg"):
        for found in frames_in(segment):
            if wanted(found.frame):
                data = bytearray(segment.read_bytes())
                data[found.place.position] ^= 0xFF
                segment.write_bytes(data)


def test_damaged_rows_are_named_and_cost_themselves_alone(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("t")
    ledger = log.open_ledger(TABLES)
    for page in range(4):
        ledger.append([mark("ann", page, page), reader("ann", page)])
    log.append("t", [Record(b"v")])
    crash(log)
    damage(tmp_path, lambda frame: (frame.kind, frame.topic, frame.base_offset) == (LEDGER, "__marks", 1))
    for _ in range(2):
        log = held(tmp_path)
        assert "__marks-0 1 to 1" in log.recovery
        assert state(log.open_ledger(TABLES)) == {
            "__marks": [("ann", page, page, "", 0) for page in (0, 2, 3)],
            "__readers": [("ann", b"", True, 3)],
        }
        crash(log)
    with held(tmp_path) as log:
        ledger = log.open_ledger(TABLES)
        ledger.append([mark("ann", 9, 9)])
        assert values_of(log, "t") == [b"v"]
    with held(tmp_path) as log:
        assert [row[1] for row in log.open_ledger(TABLES).load("__marks")] == [0, 2, 3, 9]
        assert live_of(log, "__marks").tails[0].high_watermark == 5, "places that were lost are not given out again"


def test_the_last_rows_of_all_are_never_overwritten_where_they_cannot_be_read(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("t")
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])
    ledger.append([mark("ann", 1, 1)])
    log.append("t", [Record(b"behind it")])
    crash(log)
    damage(tmp_path, lambda frame: (frame.topic, frame.base_offset) == ("__marks", 1))
    with held(tmp_path) as log:
        ledger = log.open_ledger(TABLES)
        ledger.append([mark("ann", 2, 2)])
        assert [row[1] for row in ledger.load("__marks")] == [0, 2]
        assert live_of(log, "__marks").tails[0].high_watermark == 3


def test_a_start_brings_rows_to_their_table_under_the_epoch_that_wrote_them_before_it_takes_the_table(tmp_path: Path):
    log = held(tmp_path)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0), reader("ann", 0)])
    crash(log)
    log = held(tmp_path)
    assert not live_of(log, "__marks").owned
    crash(log)
    log = held(tmp_path)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 1, 1)])
    assert live_of(log, "__marks").table.snapshot.epoch == log.epoch == 3
    assert live_of(log, "__readers").table.snapshot.epoch == 1
    crash(log)
    with held(tmp_path) as log:
        assert state(log.open_ledger(TABLES)) == {
            "__marks": [("ann", 0, 0, "", 0), ("ann", 1, 1, "", 0)],
            "__readers": [("ann", b"", True, 0)],
        }


def test_rows_of_a_table_that_is_gone_are_set_aside_and_named(tmp_path: Path):
    log = held(tmp_path)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0), reader("ann", 0)])
    crash(log)
    shutil.rmtree(tmp_path / "topics/__marks")
    with held(tmp_path) as log:
        assert "set aside: __marks-0 0 to 0 (there is no such table)" in log.recovery
        ledger = log.open_ledger(TABLES)
        ledger.append([mark("ann", 1, 1)])
        assert state(ledger) == {"__marks": [("ann", 1, 1, "", 0)], "__readers": [("ann", b"", True, 0)]}
    assert list((tmp_path / "journal").glob("aside-*"))


def test_a_table_that_somebody_else_made_under_such_a_name_is_closed_alone(tmp_path: Path):
    with held(tmp_path) as log:
        log.create_topic("t")
    (tmp_path / "topics/t").rename(tmp_path / "topics/__marks")
    with held(tmp_path) as log:
        ledger = log.open_ledger(TABLES)
        with pytest.raises(TopicClosed, match="not made by lakelog"):
            ledger.load("__marks")
        with pytest.raises(TopicClosed, match="not made by lakelog"):
            ledger.append([mark("ann", 1, 1), reader("ann", 1)])
        ledger.append([reader("ann", 2)])
        assert ledger.load("__readers") == [("ann", b"", True, 2)]


@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_damaged_data_file_is_named_and_touched_by_nobody(tmp_path: Path, how: str):
    with held(tmp_path) as log:
        ledger = log.open_ledger(TABLES)
        for page in range(3):
            ledger.append([mark("ann", page, page), reader("ann", page)])
            log.flush()
    file = sorted((tmp_path / "topics/__marks").glob("*.parquet"))[1]
    content = file.read_bytes()
    file.write_bytes(content[:-9]) if how == "cut" else file.unlink()
    with held(tmp_path) as log:
        ledger = log.open_ledger(TABLES)
        with pytest.raises(Corruption, match=file.name):
            ledger.load("__marks")
        with pytest.raises(Corruption, match=file.name):
            compact(log, "__marks")
        ledger.append([mark("ann", 7, 7), reader("ann", 3)])
        assert ledger.load("__readers") == [("ann", b"", True, 3)]
    file.write_bytes(content)
    with held(tmp_path) as log:
        assert [row[1] for row in log.open_ledger(TABLES).load("__marks")] == [0, 1, 2, 7]


def test_files_that_a_crash_left_between_file_and_commit_are_deleted(tmp_path: Path):
    log = held(tmp_path)
    log.open_ledger(TABLES).append([mark("ann", 0, 0)])
    crash(log)
    directory = tmp_path / "topics/__marks"
    left = [directory / f"{0:020d}-1-{rest}.parquet" for rest in ("0-128", "fold-" + "a" * 32)]
    other = [directory / f"{0:020d}-job-1.parquet", directory / "part-0.parquet"]
    for file in left + other:
        file.write_bytes(b"x")
    with Log.open(tmp_path) as log:
        ledger = log.open_ledger(TABLES)
        ledger.append([mark("ann", 1, 1)])
        log.flush()
        log.run_upkeep()
        assert [file.exists() for file in left + other] == [False, False, True, True]
        assert [row[1] for row in ledger.load("__marks")] == [0, 1]


def test_a_table_that_is_stuck_does_not_keep_the_journal_of_the_others(tmp_path: Path):
    """Its rows are copied forward; a start that finds both copies takes them once."""
    log = held(tmp_path)
    log.create_topic("t")
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])
    ledger.append([no_mark("ann", 0), mark("ann", 1, 1)])
    for _ in range(4):
        log.append("t", [Record(b"x" * 9000)])
        log.flush("t")
    running = log._running
    assert copy_forward(running.journal, running.writer, running.catalog.lives(), kept_segments=0) == 2
    ledger.append([mark("ann", 2, 2)])
    before = state(ledger)
    crash(log)
    with held(tmp_path) as log:
        assert state(log.open_ledger(TABLES)) == before
    with held(tmp_path) as log:
        assert state(log.open_ledger(TABLES)) == before
        assert [row[1] for row in before["__marks"]] == [1, 2]
