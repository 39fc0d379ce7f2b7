"""Neighbouring groups of the journal that cannot be read: nothing says whose records they held, and a start goes on.

Topics that say themselves where they were by then lose what was there and nothing else; others skip what they
may have been given; those of another owner are as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_log import Log, Record
from delta_log.journal.object_scan import decode_object, encode_object, object_name
from delta_log.journal.unreadable_groups import UNKNOWN_SIZE
from delta_log.model.errors import TopicClosed
from delta_log.operations import check, repair
from delta_log.stores import MemoryStore
from tests.support import damaged_roots as roots
from tests.support.logs import Place, eventually, hold_tables, values_of

TOPICS = ("older", "idle", "hurt", "busy")


class Damaged:
    """A root whose owner died when the journal alone had some of it, and two of whose groups are unreadable."""

    def __init__(self, place: Place, *, last: bool = False) -> None:
        self.place = place
        log = place.open()
        for topic in TOPICS:
            log.create_topic(topic)
            log.append(topic, [Record(b"first")])
        place.close()
        log = place.open()
        hold_tables(log)
        for topic in TOPICS[1:]:
            log.append(topic, [Record(b"second")])
        log.flush()
        for number in range(4):
            log.append("hurt", [Record(b"%d" % number)])
        log.append("busy", [Record(b"third")])
        place.crash()
        groups = self.groups_of("hurt")
        self.breaks(groups[-1:] if last else groups[-3:-1])

    def groups_of(self, topic: str) -> list[tuple[str, int, int]]:
        """Where they are: file, position, size."""
        store = self.place.root().store
        if self.place.path is not None:
            segments = sorted((self.place.path / "journal").glob("*.seg"))
            return [
                (f"journal/{segment.name}", group.position, group.header.size)
                for segment in segments
                for group in roots.groups_of(segment)
                if group.frames[0].frame.topic == topic
            ]
        names = sorted(entry.name for entry in store.list("journal"))
        found = [(name, store.read(f"journal/{name}")) for name in names]
        decoded = [(name, data, decode_object(int(name[:20]), data)) for name, data in found]
        return [
            (f"journal/{name}", 0, len(data))
            for name, data, each in decoded
            if each.frames and each.frames[0].frame.topic == topic
        ]

    def breaks(self, groups: list[tuple[str, int, int]]) -> None:
        store = self.place.root().store
        for path, position, _ in groups:
            data = bytearray(store.read(path))
            data[position + 40] ^= 0xFF
            store.put(path, bytes(data))
        if self.place.path is not None:
            self.most = sum(size for _, _, size in groups)
        else:
            self.most = len(groups) * UNKNOWN_SIZE


@pytest.fixture(params=["directory", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "root") if request.param == "directory" else Place(None, store=MemoryStore())
    yield made
    made.close()


def next_offset(log: Log, topic: str) -> int:
    return log.append(topic, [Record(b"new")]).offsets()[0]


def test_a_start_goes_on_and_only_who_may_have_been_given_offsets_there_skips_some(place: Place):
    damaged = Damaged(place)
    log = place.open()
    assert "DAMAGE" in log.recovery
    assert "LOST: hurt-0 3 to 4, idle-0 2 to " in log.recovery
    assert log.statistics().closed == {}
    assert values_of(log, "hurt") == [b"first", b"second", b"0", b"3"]
    assert values_of(log, "busy") == [b"first", b"second", b"third"]
    assert (next_offset(log, "hurt"), next_offset(log, "busy"), next_offset(log, "older")) == (6, 3, 1)
    assert next_offset(log, "idle") == 2 + damaged.most
    assert values_of(log, "idle") == [b"first", b"second", b"new"]
    log.flush()
    place.close()
    assert [entry.name for entry in place.root().store.list("journal") if entry.name.startswith("aside-")]
    again = place.open()
    assert "LOST" not in again.recovery
    assert next_offset(again, "idle") == 3 + damaged.most


def test_however_often_it_dies_before_a_table_says_so_no_more_is_skipped(place: Place):
    damaged = Damaged(place)
    for _ in range(2):
        hold_tables(place.open())
        place.crash()
    log = place.open()
    assert next_offset(log, "idle") == 2 + damaged.most
    place.crash()
    assert next_offset(place.open(), "idle") == 3 + damaged.most


def test_a_closed_topic_is_in_doubt_still_when_it_is_mended(place: Place):
    damaged = Damaged(place)
    entry = f"topics/idle/_delta_log/{0:020d}.json"
    content = place.root().store.read(entry)
    place.root().store.put(entry, b"")
    for _ in range(2):
        log = place.open()
        with pytest.raises(TopicClosed):
            log.offsets("idle", 0)
        assert next_offset(log, "busy") >= 3
        place.close()
    place.root().store.put(entry, content)
    assert next_offset(place.open(), "idle") == 2 + damaged.most


def test_a_repair_has_the_topics_say_themselves_what_they_lack(place: Place):
    Damaged(place)
    report = repair(place.root())
    assert [found for found in report.left if "idle" in found] == []
    assert check(place.root()).sound or report.left
    assert values_of(place.open(), "hurt") == [b"first", b"second", b"0", b"3"]


def test_behind_an_unreadable_last_object_a_start_goes_on_and_shuts_out_who_wrote_it(tmp_path: Path):
    """Nothing repeats what it gave out: the fence says that it does not know, and so says every later start."""
    place = Place(None, store=MemoryStore())
    log = place.open()
    log.create_topic("orders")
    hold_tables(log)
    log.append("orders", [Record(b"0")])
    log.append("orders", [Record(b"1")])
    place.crash()
    store = place.root().store
    newest = max(int(entry.name[:20]) for entry in store.list("journal"))
    store.put(f"journal/{object_name(newest)}", b"damaged")
    for _ in range(2):
        log = place.open()
        hold_tables(log)
        assert f"orders-0 1 to {UNKNOWN_SIZE}" in log.recovery
        late, _ = encode_object(newest + 1, 0, life=1, epoch=1, previous=[])
        assert not store.create(f"journal/{object_name(newest + 1)}", late)
        place.crash()
    log = place.open()
    assert next_offset(log, "orders") == 1 + UNKNOWN_SIZE
    assert values_of(log, "orders") == [b"0", b"new"]
    eventually(lambda: not log._running.catalog.live("orders").pending)
    place.close()
    assert "LOST" not in place.open().recovery
    place.close()
