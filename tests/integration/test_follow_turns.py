"""What somebody who follows is given in one turn: little, of each partition in turn, and of one topic alone."""

from __future__ import annotations

from typing import Any

import pytest

from delta_log import Log, Record
from delta_log.model.errors import OffsetOutOfRange, UnknownTopic
from ingest_api.routes.records.follow_cursor import TURN_BYTES, Following
from tests.support.http_app import HttpApp


def following(log: Log, start: dict[int, int], *, grows: bool = True) -> Following:
    return Following.begin(log, "orders", start, {}, grows=grows)


def test_a_turn_holds_little_however_many_partitions_are_full(app: HttpApp):
    app.log.create_topic("orders", 100)
    app.log.append("orders", [Record(b"x" * 10_000, partition=n % 100) for n in range(300)])
    follower = following(app.log, dict.fromkeys(range(100), 0))
    turns = 0
    while follower.due:
        found = follower.read_turn()
        assert sum(each.size for each in found) <= TURN_BYTES + 10_100
        turns += 1
    assert turns > 30
    assert follower.positions == dict.fromkeys(range(100), 3)
    assert dict(follower.take_idle()) == follower.positions
    assert follower.take_idle() == []


def test_a_turn_is_counted_with_its_ids(app: HttpApp):
    """Each event names every partition, so small records of a wide topic are large events."""
    app.log.create_topic("orders", 1000)
    app.log.append("orders", [Record(b"x", partition=0) for _ in range(500)])
    follower = following(app.log, dict.fromkeys(range(1000), 0))
    assert sum(fetched.count for fetched in follower.read_turn()) <= TURN_BYTES // 24_000 + 1


def test_a_record_larger_than_a_turn_comes_all_the_same(app: HttpApp):
    app.log.create_topic("orders")
    app.log.append("orders", [Record(b"x" * 3 * TURN_BYTES), Record(b"y")])
    follower = following(app.log, {0: 0})
    assert [fetched.count for fetched in follower.read_turn()] == [1]
    assert [fetched.count for fetched in follower.read_turn()] == [1]


def test_what_is_read_of_a_topic_made_anew_meanwhile_is_not_given(app: HttpApp, monkeypatch: pytest.MonkeyPatch):
    app.log.create_topic("orders")
    app.log.append("orders", [Record(b"old")])
    follower = following(app.log, {0: 0})
    whole = Log.read

    def read(log: Log, *given: Any, **more: Any) -> Any:
        log.delete_topic("orders")
        log.create_topic("orders")
        log.append("orders", [Record(b"new")])
        return whole(log, *given, **more)

    monkeypatch.setattr(Log, "read", read)
    with pytest.raises(UnknownTopic):
        follower.read_turn()


def test_one_partition_of_a_topic_that_grows_stays_one(app: HttpApp):
    app.log.create_topic("orders")
    follower = following(app.log, {0: 0}, grows=False)
    app.log.add_partitions("orders", 3)
    follower.read_turn()
    assert follower.positions == {0: 0}


def test_a_position_outside_of_the_log_is_refused_but_one_in_front_of_it_is_moved_for_who_comes_back(app: HttpApp):
    app.log.create_topic("orders")
    app.log.append("orders", [Record(b"%d" % n) for n in range(5)])
    app.log.delete_records("orders", 0, 3)
    with pytest.raises(OffsetOutOfRange):
        following(app.log, {0: 1})
    with pytest.raises(OffsetOutOfRange):
        Following.begin(app.log, "orders", {0: 3}, {0: 6}, grows=True)
    assert Following.begin(app.log, "orders", {0: 5}, {0: 1}, grows=True).positions == {0: 3}
