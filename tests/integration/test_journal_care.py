"""A journal stays short, whatever one of its tables does."""

from pathlib import Path
from typing import Any
from unittest import mock

from delta_log import Log, Record, Settings
from delta_log.commit.journal_trim import _journal_again as journal_again
from delta_log.commit.journal_trim import copy_forward
from delta_log.model.errors import StorageRefused
from delta_log.root.root import LocalRoot, ObjectRoot, Root
from delta_log.stores import LocalStore, MemoryStore
from tests.support.logs import crash

SEGMENT = 16 * 1024
SETTINGS = Settings(upkeep=False, segment_bytes=SEGMENT)
SLOW = {"lakelog.commit.interval.ms": 3_600_000, "lakelog.commit.bytes": 2**31 - 1}


class RefusingStore(LocalStore):
    """Refuses whatever belongs to one topic, once told to."""

    refused = ""

    def put(self, path, data):
        if self.refused and path.startswith(f"topics/{self.refused}/"):
            raise StorageRefused(path, "the test says so")
        super().put(path, data)


class RefusingMemory(MemoryStore):
    refused = ""

    def put(self, path, data):
        if self.refused and path.startswith(f"topics/{self.refused}/"):
            raise StorageRefused(path, "the test says so")
        super().put(path, data)


class RefusingRoot(LocalRoot):
    def __init__(self, path: Path) -> None:
        super().__init__(path, segment_size=SEGMENT)
        self.refusing = RefusingStore(self.path)

    @property
    def store(self):
        return self.refusing


def begin(root: Root) -> Log:
    log = Log.open(root, settings=SETTINGS)
    for topic in ("stuck", "busy"):
        log.create_topic(topic, config=SLOW)
    return log


def values(log: Log, topic: str) -> list[bytes | None]:
    return [record.value for fetched in log.scan(topic, 0) for record in fetched.records()]


def test_a_stuck_table_does_not_hold_the_segments_of_the_others_back(tmp_path: Path):
    root = RefusingRoot(tmp_path / "root")
    log = begin(root)
    log.append("stuck", [Record(b"first")])
    root.refusing.refused = "stuck"
    parts = log._running
    for number in range(200):
        log.append("busy", [Record(b"%06d" % number * 100)])
        if number % 20 == 0:
            log.append("stuck", [Record(b"stuck %d" % number)])
            log.flush("busy")
            while copy_forward(parts.journal, parts.writer, parts.catalog.lives(), kept_segments=2):
                pass
            assert len(parts.journal.segments()) <= 3
    crash(log)

    expected = [b"first", *(b"stuck %d" % number for number in range(0, 200, 20))]
    with Log.open(tmp_path / "root", settings=SETTINGS) as again:
        assert "LOST" not in again.recovery
        assert values(again, "stuck") == expected
        assert values(again, "busy") == [b"%06d" % number * 100 for number in range(200)]
        again.flush()
        assert values(again, "stuck") == expected


def test_segments_released_from_the_middle_are_not_taken_for_lost(tmp_path: Path):
    root = RefusingRoot(tmp_path / "root")
    log = begin(root)
    root.refusing.refused = "stuck"
    log.append("stuck", [Record(b"kept")])
    for number in range(100):
        log.append("busy", [Record(b"%06d" % number * 100)])
    log.flush("busy")
    log.append("busy", [Record(b"last")])
    numbers = [number for _, number in log._running.journal.segments()]
    crash(log)
    assert numbers[0] == 0
    assert max(number for _, number in log._running.journal.segments()) < 3, "segments in between were released"

    with Log.open(tmp_path / "root", settings=SETTINGS) as again:
        assert "LOST" not in again.recovery
        assert values(again, "stuck") == [b"kept"]
        assert values(again, "busy")[-1] == b"last"


def test_in_a_bucket_many_small_groups_of_a_stuck_table_become_one():
    store = RefusingMemory()
    log = begin(ObjectRoot(store, linger_ms=0))
    store.refused = "stuck"
    for number in range(60):
        log.append("stuck", [Record(b"stuck %d" % number)])
        log.append("busy", [Record(b"busy %d" % number)])
    log.flush("busy")
    parts = log._running
    assert len(parts.journal.segments()) > 50
    assert copy_forward(parts.journal, parts.writer, parts.catalog.lives(), kept_segments=50) > 50
    assert len(parts.journal.segments()) < 5
    log.append("stuck", [Record(b"last")])
    crash(log)

    store.refused = ""
    with Log.open(ObjectRoot(store, linger_ms=0), settings=SETTINGS) as again:
        assert "LOST" not in again.recovery
        assert values(again, "stuck") == [*(b"stuck %d" % number for number in range(60)), b"last"]
        assert values(again, "busy") == [b"busy %d" % number for number in range(60)]


def test_who_is_replaced_amid_a_copy_takes_nothing_from_who_came():
    """He lets go of what he has copied, and the newcomer of the copies, if the others were enough for him."""
    store = RefusingMemory()
    log = begin(ObjectRoot(store, linger_ms=0))
    store.refused = "stuck"
    for number in range(3):
        log.append("stuck", [Record(b"stuck %d" % number)])
    log.append("busy", [Record(b"the last")])
    log.flush("busy")
    newcomers: list[Log] = []

    def replaced_behind_it(*what: Any) -> None:
        journal_again(*what)
        newcomers.append(Log.open(ObjectRoot(store, linger_ms=0), settings=SETTINGS))
        newcomers[0].append("busy", [Record(b"of the newcomer")])
        newcomers[0].flush("busy")
        newcomers[0].run_upkeep()

    parts = log._running
    with mock.patch("delta_log.commit.journal_trim._journal_again", replaced_behind_it):
        assert copy_forward(parts.journal, parts.writer, parts.catalog.lives(), kept_segments=0) == 3
    for each in (*newcomers, log):
        crash(each)

    store.refused = ""
    with Log.open(ObjectRoot(store, linger_ms=0), settings=SETTINGS) as again:
        assert "LOST" not in again.recovery
        again.flush()
        assert values(again, "stuck") == [b"stuck 0", b"stuck 1", b"stuck 2"]
        assert values(again, "busy") == [b"the last", b"of the newcomer"]
