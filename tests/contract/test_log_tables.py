"""How the tables follow: when they hold what, and what flush and folds do."""

from concurrent.futures import CancelledError

import pytest
from deltalake import DeltaTable

from delta_log import Log, ProducerStamp, Record
from delta_log.delta.table import Table
from delta_log.model.errors import (
    Closed,
    LakelogError,
    NotOwner,
    RootInUse,
    UnknownTopic,
)
from tests.support.logs import (
    FROM_FILES,
    QUIET,
    Place,
    damage_next_commit,
    eventually,
    everything,
    hold_tables,
    values_of,
)


def versions(place: Place, topic: str) -> Table:
    table = Table(place.root().store, f"topics/{topic}")
    table.load()
    return table


def test_what_is_appended_is_in_the_table_soon(place: Place):
    log = place.open()
    log.create_topic("t", 2)
    appended = log.append("t", [Record(b"v")] * 4)
    version = log.when_tabled("t", appended).result(20)
    table = versions(place, "t")
    assert table.snapshot.version >= version
    assert [table.snapshot.end(p) for p in range(2)] == [2, 2]


def test_without_anybody_who_waits_the_table_follows_too(place: Place):
    log = place.open()
    log.create_topic("t")
    log.append("t", [Record(b"v")])
    eventually(lambda: versions(place, "t").snapshot.end(0) == 1)


def test_what_is_in_the_table_already_is_answered_at_once(log: Log):
    log.create_topic("t")
    appended = log.append("t", [Record(b"v")])
    log.flush("t")
    done = log.when_tabled("t", appended)
    assert done.done()
    assert done.result() == log._running.catalog.live("t").table.snapshot.version


def test_an_old_repeat_whose_offsets_are_forgotten_waits_for_all_that_is_there(log: Log):
    log.create_topic("t", 2)
    hold_tables(log)
    for sequence in range(7):
        log.append("t", [Record(b"v")], producer=ProducerStamp("p", 0, sequence))
    old = log.append("t", [Record(b"v")], producer=ProducerStamp("p", 0, 0))
    assert old.ranges == ()
    waiting = log.when_tabled("t", old)
    assert not waiting.done()
    log.flush("t")
    assert waiting.result(20) >= 1


def test_who_waits_for_the_table_of_a_topic_that_is_deleted_is_told(log: Log):
    log.create_topic("t")
    hold_tables(log)
    waiting = log.when_tabled("t", log.append("t", [Record(b"v")]))
    cancelled = log.when_tabled("t", log.append("t", [Record(b"v")]))
    cancelled.cancel()
    log.delete_topic("t")
    assert isinstance(waiting.exception(20), UnknownTopic)
    with pytest.raises(CancelledError):
        cancelled.result(20)


def test_who_waits_for_a_table_that_is_damaged_is_told(place: Place):
    log = place.open()
    log.create_topic("t")
    log.append("t", [Record(b"v")])
    log.flush()
    damage_next_commit(place, log, "t")
    waiting = log.when_tabled("t", log.append("t", [Record(b"v")]))
    assert isinstance(waiting.exception(20), LakelogError)


def test_who_waits_when_the_log_closes_is_told(place: Place):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    in_time = log.when_tabled("t", log.append("t", [Record(b"v")]))
    log.create_topic("stuck")
    in_vain = log.when_tabled("stuck", log.append("stuck", [Record(b"v")]))
    place.fail("put", "topics/stuck", "refused", times=10**9)
    log.close()
    assert in_time.result(20) >= 1
    assert isinstance(in_vain.exception(20), Closed)
    place.log = None
    place.faults.clear()
    assert values_of(place.open(), "stuck") == [b"v"]


def test_flush_brings_every_table_up(place: Place):
    log = place.open()
    for topic in ("t", "u"):
        log.create_topic(topic, 2)
    hold_tables(log)
    for topic in ("t", "u"):
        log.append(topic, [Record(b"v")] * 3)
    assert [versions(place, topic).snapshot.end(0) for topic in ("t", "u")] == [0, 0]
    log.flush("t")
    assert [versions(place, topic).snapshot.end(0) for topic in ("t", "u")] == [2, 0]
    log.flush()
    assert [versions(place, topic).snapshot.end(0) for topic in ("t", "u")] == [2, 2]
    before = versions(place, "t").snapshot.version
    log.flush()
    assert versions(place, "t").snapshot.version == before


def test_flush_ends_even_while_others_go_on_appending(place: Place):
    appended: list[int] = []

    def append_during_every_commit(step: str) -> None:
        if step == "table.files_written" and len(appended) < 30:
            appended.extend(log.append("t", [Record(b"v")]).offsets())

    log = place.log = Log.open(place.root(), settings=QUIET, clock_ms=place.clock, probe=append_during_every_commit)
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"v")])
    log.flush("t")
    assert appended == [1]
    log.flush("t")
    assert appended == [1, 2]


def test_other_readers_of_delta_tables_see_the_same_rows(tmp_path):
    place = Place(tmp_path / "root")
    log = place.open()
    log.create_topic("t", 2)
    log.append("t", [Record(b"%d" % i, key=b"k", headers=(("h", b"x"),)) for i in range(10)])
    log.append("t", [Record(None, partition=1)], producer=ProducerStamp("p", 1, 0))
    log.flush()
    rows = (
        DeltaTable(log.table_location("t"))
        .to_pyarrow_table()
        .sort_by([("partition", "ascending"), ("offset", "ascending")])
    )
    expected = [record for p in range(2) for record in everything(log, "t", p)]
    assert rows.column("value").to_pylist() == [record.value for record in expected]
    assert rows.column("offset").to_pylist() == [record.offset for record in expected]
    assert rows.column("producer_id").to_pylist().count("p") == 1
    place.close()


def test_folds_keep_rows_order_and_offsets(place: Place):
    log = place.open(FROM_FILES)
    log.create_topic("t", 2, {"lakelog.fold.files": 3})
    for i in range(12):
        log.append("t", [Record(b"%d-%d" % (i, j), key=b"%d" % j, headers=(("h", None),)) for j in range(5)])
        log.flush()
        place.clock.turn(7)
    before = [everything(log, "t", p) for p in range(2)]
    files = [len(log._running.catalog.live("t").table.snapshot.files(p)) for p in range(2)]
    assert log.fold("t") > 0
    assert log.fold("t") == 0
    after = [len(log._running.catalog.live("t").table.snapshot.files(p)) for p in range(2)]
    assert all(fewer < more for fewer, more in zip(after, files, strict=True))
    assert [everything(log, "t", p) for p in range(2)] == before
    place.crash()
    log = place.open(FROM_FILES)
    assert [everything(log, "t", p) for p in range(2)] == before


def test_a_second_owner_is_told_at_once_or_takes_over(place: Place):
    """In a bucket nobody can tell whether the first still lives; but he stores nothing any more."""
    log = place.open()
    epoch, cluster = log.epoch, log.cluster_id
    log.create_topic("t")
    log.append("t", [Record(b"stored")])
    if place.objects is None:
        with pytest.raises(RootInUse):
            Log.open(place.root(), settings=QUIET, clock_ms=place.clock)
        place.close()
        log = place.open()
    else:
        first, log = log, place.open()
        for _ in range(2):
            with pytest.raises(NotOwner):
                first.append("t", [Record(b"too late")])
        assert not first.close()
    assert values_of(log, "t") == [b"stored"]
    assert log.epoch == epoch + 1
    assert log.topics() == ["t"]
    assert log.cluster_id == cluster
