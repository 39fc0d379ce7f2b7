"""What a start makes of a journal: every frame gets its due, and one damaged thing never stops the others."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.journal.group_format import Frame, Place
from delta_log.journal.segment_scan import FoundFrame, scan_segment
from delta_log.model.errors import Corruption, TopicClosed, UnknownTopic
from delta_log.records.payload_kinds import DECISION
from tests.support.logs import crash, values_of

SETTINGS = Settings(upkeep=False, segment_bytes=16 * 1024)
BIG = [Record(b"x" * 9000)]


@pytest.fixture(autouse=True)
def _tables_wait_for_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommitScheduler, "notice", lambda _tabler, _live: None)


def held(path: Path) -> Log:
    return Log.open(path, settings=SETTINGS)


def segments(path: Path) -> list[Path]:
    return sorted((path / "journal").glob("*.seg"))


def frames_in(segment: Path) -> list[FoundFrame]:
    epoch, number, life = segment.stem.split("-")
    scan = scan_segment(segment.read_bytes(), life=int(life, 16), epoch=int(epoch), segment=int(number))
    return [found for group in scan.groups for found in group.frames]


def damage(path: Path, wanted: Callable[[Frame], bool], *, group: bool = False) -> None:
    """Flip a byte of the last such frame's payload, or of its group's directory."""
    segment, found = [(s, f) for s in segments(path) for f in frames_in(s) if wanted(f.frame)][-1]
    data = bytearray(segment.read_bytes())
    data[found.place.position - group] ^= 0xFF
    segment.write_bytes(data)


def test_frames_of_a_deleted_topic_stay_dead_though_the_decision_has_left_the_journal(tmp_path: Path):
    log = held(tmp_path)
    for topic in ("pins", "gone", "busy"):
        log.create_topic(topic)
    log.append("pins", [Record(b"pins")])
    log.append("gone", [Record(b"ghost")])
    log.append("busy", BIG)
    log.append("busy", BIG)
    log.delete_topic("gone")
    log.append("busy", BIG)
    log.flush("busy")
    crash(log)
    kept = [found.frame for segment in segments(tmp_path) for found in frames_in(segment)]
    assert "gone" in {frame.topic for frame in kept}
    assert DECISION not in {frame.kind for frame in kept}

    with held(tmp_path) as again:
        assert "1 records of deleted topics dropped" in again.recovery
        again.create_topic("gone")
        again.append("gone", [Record(b"new life")])
        assert values_of(again, "gone") == [b"new life"]
    rows = DeltaTable(str(tmp_path / "topics/gone")).to_pyarrow_table()
    assert rows.column("value").to_pylist() == [b"new life"]


def test_a_deletion_that_was_decided_before_a_crash_is_carried_out(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("gone")
    log.append("gone", [Record(b"ghost")])
    live = log._running.catalog.live("gone")
    log._running.writer.alone(lambda: log._running.writer.journal_decision(live, {"delete": True}, 1))
    crash(log)
    with held(tmp_path) as again:
        with pytest.raises(UnknownTopic):
            again.offsets("gone", 0)
        assert again._running.writer.untabled == 0, "what was dropped waits for no table"
        again.create_topic("gone")
        assert again.append("gone", [Record(b"new")]).ranges[0].base_offset == 0


def test_a_decision_that_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("kept")
    log.append("kept", [Record(b"value")])
    live = log._running.catalog.live("kept")
    log._running.writer.alone(lambda: log._running.writer.journal_decision(live, {"delete": True}, 1))
    log.append("kept", [Record(b"behind it")])
    crash(log)
    damage(tmp_path, lambda frame: frame.kind == DECISION)
    with held(tmp_path) as again:
        assert "DAMAGE" in again.recovery
        assert values_of(again, "kept") == [b"value", b"behind it"]


def test_a_decision_about_a_damaged_topic_waits_and_stops_no_other_topic(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("damaged")
    log.create_topic("sound")
    log.append("sound", [Record(b"here")])
    live = log._running.catalog.live("damaged")
    log._running.writer.alone(lambda: log._running.writer.journal_decision(live, {"delete": True}, 1))
    crash(log)
    entry = tmp_path / f"topics/damaged/_delta_log/{0:020d}.json"
    content = entry.read_bytes()
    entry.write_bytes(b"")
    with held(tmp_path) as again:
        assert values_of(again, "sound") == [b"here"]
        with pytest.raises(TopicClosed):
            again.offsets("damaged", 0)
    entry.write_bytes(content)
    with held(tmp_path) as mended, pytest.raises(UnknownTopic):
        mended.offsets("damaged", 0)


def test_lost_offsets_are_never_given_out_again_whatever_comes_before_the_table_knows_it(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("hurt")
    log.create_topic("other")
    log.append("other", [Record(b"1")])
    log.append("hurt", [Record(b"a"), Record(b"b")])
    log.append("other", [Record(b"2")])
    crash(log)
    damage(tmp_path, lambda frame: frame.topic == "hurt", group=True)
    for _ in range(2):
        log = held(tmp_path)
        assert "hurt-0 0 to 1" in log.recovery
        log.flush("other")
        log.append("other", BIG)
        log.append("other", BIG)
        log.flush("other")
        crash(log)
    with held(tmp_path) as log:
        assert log.append("hurt", [Record(b"c")]).ranges[0].base_offset == 2
        assert values_of(log, "hurt") == [b"c"]
    with held(tmp_path) as log:
        assert log.recovery.startswith("journal: 0 segments")
        assert log.offsets("hurt", 0).end_offset == 3


def test_a_damaged_payload_is_a_hole_that_is_named(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("hurt")
    for value in (b"a", b"b", b"c"):
        log.append("hurt", [Record(value)])
    crash(log)
    damage(tmp_path, lambda frame: frame.base_offset == 1)
    for _ in range(2):
        with held(tmp_path) as again:
            assert values_of(again, "hurt") == [b"a", b"c"]
            assert again.offsets("hurt", 0).end_offset == 3


def test_a_lost_request_of_an_idempotent_producer_does_not_close_its_table(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("orders")
    log.append("orders", [Record(b"a")], producer=ProducerStamp("p", 0, 0))
    log.append("orders", [Record(b"b")])
    crash(log)
    damage(tmp_path, lambda frame: frame.topic == "__producers")
    with held(tmp_path) as again:
        assert "__producers-0 0 to 0" in again.recovery
        again.flush()
        assert values_of(again, "orders") == [b"a", b"b"]
        again.append("orders", [Record(b"c")], producer=ProducerStamp("q", 0, 0))
    assert segments(tmp_path) == []


def test_a_damaged_table_of_producers_refuses_their_requests_alone(tmp_path: Path):
    with held(tmp_path) as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"a")], producer=ProducerStamp("p", 0, 0))
    (file,) = (tmp_path / "topics/__producers").glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(b"PAR1")
    with held(tmp_path) as log:
        with pytest.raises(TopicClosed):
            log.append("orders", [Record(b"a")], producer=ProducerStamp("p", 0, 0))
        log.append("orders", [Record(b"b")])
    file.write_bytes(content)
    with held(tmp_path) as log:
        again = log.append("orders", [Record(b"a")], producer=ProducerStamp("p", 0, 0))
        assert (again.duplicate, again.offsets()) == (True, [0])
        assert values_of(log, "orders") == [b"a", b"b"]


def test_what_rots_in_the_journal_after_the_start_is_never_taken_for_a_record(tmp_path: Path):
    log = held(tmp_path)
    log.create_topic("hurt")
    log.append("hurt", [Record(b"value")])
    crash(log)
    with held(tmp_path) as again:
        damage(tmp_path, lambda frame: frame.topic == "hurt")
        with pytest.raises(Corruption, match="checksum"):
            values_of(again, "hurt")
        with pytest.raises(Corruption, match="checksum"):
            again.flush()
    with held(tmp_path) as again:
        assert "hurt-0 0 to 0" in again.recovery


def by_offset(log: Log) -> list[object]:
    return [*values_of(log, "orders")]


def by_time(log: Log) -> list[object]:
    return [log.offset_at("orders", 0, 1)]


@pytest.mark.parametrize("read", [by_offset, by_time])
def test_a_reader_follows_rows_that_leave_the_journal_while_it_reads_them(
    tmp_path: Path, read: Callable[[Log], list[object]]
):
    log = held(tmp_path)
    log.create_topic("orders")
    log.append("orders", [Record(b"a", timestamp=5)])
    crash(log)
    with held(tmp_path) as again:
        journal = again._running.journal

        def gone_a_moment_ago(place: Place) -> bytes:
            del journal.read
            again.flush()
            raise FileNotFoundError(place)

        journal.read = gone_a_moment_ago
        assert read(again) in ([b"a"], [0])
