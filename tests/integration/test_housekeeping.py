"""A table stays quick to open, and loses nothing that anybody can still reach."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pytest

from delta_log import Log, Record, Settings
from delta_log.delta.actions import Txn
from delta_log.delta.conflicts import Kind
from delta_log.delta.snapshot import EPOCH_TXN, Snapshot
from delta_log.delta.table import Table, entry_path
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance import background as upkeep
from delta_log.maintenance.history import (
    CHECKPOINT_EVERY,
    clean_history,
    delete_orphans,
    is_checkpoint_due,
    removed_beyond,
)
from delta_log.model.errors import StorageRefused
from delta_log.model.topic_config import TopicConfig
from delta_log.records.validation import Rules
from delta_log.stores import LocalStore
from delta_log.topics.topic_state import TopicRows, TopicState
from tests.support.logs import Place, values_of
from tests.support.tables import (
    NAME,
    a_file,
    append,
    append_rows,
    commit,
    content,
    first_commit,
    info,
    make_table,
    open_table,
    removal,
)

HOUR = 3_600_000
NOW = time.time_ns() // 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.fixture
def table(store: LocalStore) -> Table:
    return make_table(store)


def live_of(table: Table, *, owned: bool = True, **config: int) -> TopicState:
    settings = TopicConfig.of({name.replace("_", "."): value for name, value in config.items()})
    return TopicState("t", "topic", table, TopicRows(), [], settings, Rules.of("t", 1, settings), owned=owned)


def age(store: LocalStore, table: Table, versions: Iterable[int], hours: float) -> None:
    """Let log entries look as if they had been committed long ago."""
    for version in versions:
        os.utime(Path(store.location, table.path(entry_path(version))), (NOW / 1000 - hours * 3600,) * 2)


def names(table: Table, suffix: str) -> list[int]:
    return [int(e.name[:20]) for e in table.store.list(table.path("_delta_log")) if e.name.endswith(suffix)]


def write(table: Table, *paths: str) -> None:
    for path in paths:
        table.store.put(table.path(path), b"rows")


def exists(table: Table, path: str) -> bool:
    return table.store.stat(table.path(path)) is not None


def test_a_checkpoint_is_due_a_hundred_commits_after_the_last(table: Table):
    due: list[int] = []
    while table.snapshot.version < 250:
        append_rows(table)
        if is_checkpoint_due(table):
            assert write_checkpoint(table) == table.snapshot.version
            due.append(table.snapshot.version)
    assert due == [99, 199]
    assert max(b - a for a, b in zip([-1, *due], [*due, 250], strict=True)) <= CHECKPOINT_EVERY
    loaded = open_table(table.store)
    assert content(loaded.snapshot) == content(table.snapshot)
    assert loaded.checkpoint_version == 199


def test_however_fast_an_owner_commits_there_are_a_hundred_to_replay_at_most():
    with Log.open("memory://", settings=Settings(upkeep=False)) as log:
        log.create_topic("t")
        table = log._running.catalog.live("t").table
        for number in range(250):
            log.append("t", [Record(b"%d" % number)])
            log.flush("t")
            log.fold("t")
            assert table.snapshot.version - table.checkpoint_version < CHECKPOINT_EVERY
        assert table.snapshot.version > 250
        assert [run.succeeded for run in log.statistics().jobs if run.job == "checkpoint"] == [3]


@pytest.mark.parametrize("failing", [False, True])
def test_however_fast_an_owner_commits_files_wait_for_folds_and_nothing_waits_for_one_that_fails(
    monkeypatch: pytest.MonkeyPatch, failing: bool
):
    """The background's pass is far away."""
    monkeypatch.setattr(upkeep, "FOLLOW_EVERY_S", 3600.0)
    monkeypatch.setattr(upkeep, "MOST_UNFOLDED", 8)
    if failing:
        monkeypatch.setattr(upkeep, "merge_files", mock.Mock(side_effect=StorageRefused("a fold", "a test")))
    most = 0
    with Log.open("memory://") as log:
        log.create_topic("t", config={"lakelog.fold.files": 2})
        table = log._running.catalog.live("t").table
        for number in range(100):
            log.append("t", [Record(b"%d" % number)])
            log.flush("t")
            most = max(most, table.snapshot.file_count)
        assert values_of(log, "t") == [b"%d" % number for number in range(100)]
    assert (most > 90) if failing else (most <= 8 + 2 * 7)


def test_a_checkpoint_that_cannot_be_written_stops_no_commit_and_is_written_later():
    place = Place(None)
    log = place.open()
    log.create_topic("t")
    table = log._running.catalog.live("t").table
    place.fail("put", ".checkpoint.", "refused", times=20)
    for number in range(105):
        log.append("t", [Record(b"%d" % number)])
        log.flush("t")
    assert table.checkpoint_version == -1
    for _ in range(20):
        log.append("t", [Record(b"more")])
        log.flush("t")
    assert table.checkpoint_version > 100
    place.close()


def test_however_fast_an_owner_commits_its_log_holds_the_history_and_little_more():
    with Log.open("memory://", settings=Settings(upkeep=False)) as log:
        log.create_topic("t", config={"lakelog.history.commits": 100, "file.delete.delay.ms": 0})
        table = log._running.catalog.live("t").table
        for number in range(450):
            log.append("t", [Record(b"%d" % number)])
            log.flush("t")
            log.run_upkeep()
            assert len(names(table, ".json")) <= 100 + CHECKPOINT_EVERY + 10
        assert len(table.snapshot.removed) <= 100 + 10 + 10
        assert min(names(table, ".json")) > 100


def test_a_checkpoint_is_not_written_twice(table: Table):
    write_checkpoint(table)
    before = table.store.stat(table.path("_delta_log/_last_checkpoint"))
    assert write_checkpoint(table) == 0
    assert table.store.stat(table.path("_delta_log/_last_checkpoint")) == before


def test_commits_go_on_while_a_checkpoint_is_being_written(table: Table):
    """It is of one version, whatever comes meanwhile."""
    append_rows(table)
    write_checkpoint(table, lambda _step: append_rows(table) and None)
    assert table.checkpoint_version == 1
    assert table.snapshot.version == 2
    loaded = open_table(table.store)
    assert (loaded.checkpoint_version, content(loaded.snapshot)) == (1, content(table.snapshot))


def test_a_crash_between_a_checkpoint_and_its_hint_changes_nothing(table: Table):
    def crash(_step: str) -> None:
        raise KeyboardInterrupt

    append_rows(table)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(table, crash)
    assert table.checkpoint_version == -1
    assert content(open_table(table.store).snapshot) == content(table.snapshot)


@pytest.mark.parametrize("checkpoints", [(), (3,), (3, 7), (3, 7, 12)])
@pytest.mark.parametrize("old", [0, 2, 5, 9, 12, 15])
def test_every_version_within_the_history_can_be_loaded_after_the_clean_up(checkpoints, old: int, store, table: Table):
    """So far back time travel reaches."""
    wanted: dict[int, object] = {}
    while table.snapshot.version < 14:
        file = append_rows(table)
        if table.snapshot.version in checkpoints:
            write_checkpoint(table)
        wanted[table.snapshot.version] = table.snapshot.has_file(file.path) and table.snapshot.file_count
    age(store, table, range(old), hours=50)
    clean_history(live_of(table), NOW)
    entries, kept = names(table, ".json"), names(table, ".checkpoint.parquet")
    assert entries == list(range(entries[0], 15))
    assert entries[0] == max((c for c in checkpoints if c < old), default=0)
    for version in range(max(1, old - 1), 15):
        base = max((c for c in kept if c <= version), default=-1)
        snapshot = Table(store, NAME)._from_checkpoint(base) if base >= 0 else Snapshot()
        at = Table(store, NAME)
        for following in range(base + 1, version + 1):
            snapshot.replay(following, at._read_entry(following))
        assert snapshot.file_count == wanted[version]
    assert content(open_table(store).snapshot) == content(table.snapshot)


def test_the_history_ends_at_its_number_of_commits_too(store: LocalStore, table: Table):
    while table.snapshot.version < 130:
        append_rows(table)
        if table.snapshot.version in (10, 25, 40):
            write_checkpoint(table)
    clean_history(live_of(table, lakelog_history_commits=100), NOW)
    assert names(table, ".json") == list(range(25, 131))
    assert names(table, ".checkpoint.parquet") == [25, 40]


def test_a_log_is_not_shortened_up_to_a_checkpoint_that_nobody_is_told_of(store: LocalStore, table: Table):
    """Readers find a checkpoint by the hint; without it they need the whole log."""
    append_rows(table)
    write_checkpoint(table)
    table.checkpoint_version = -1
    append_rows(table)
    age(store, table, range(3), hours=50)
    assert clean_history(live_of(table), NOW) == 0


def test_clean_up_again_finds_nothing_to_do(store: LocalStore, table: Table):
    for _ in range(6):
        append_rows(table)
    write_checkpoint(table)
    append_rows(table)
    age(store, table, range(8), hours=50)
    assert clean_history(live_of(table), NOW) == 6
    assert clean_history(live_of(table), NOW) == 0


def test_replaced_files_stay_for_the_history_and_go_after_it(table: Table):
    early, late, stays = a_file(0), a_file(1), a_file(2)
    for file in (early, late, stays):
        commit(table, append(file), Kind.APPEND)
        write(table, file.path)
    commit(table, removal(early, at=NOW - 50 * HOUR))
    commit(table, removal(late, at=NOW - 47 * HOUR))
    assert clean_history(live_of(table), NOW) == 1
    assert [exists(table, file.path) for file in (early, late, stays)] == [False, True, True]
    assert list(table.snapshot.removed) == [late.path]
    assert clean_history(live_of(table), NOW + 2 * HOUR) == 1
    assert [exists(table, file.path) for file in (early, late, stays)] == [False, False, True]


def test_however_many_commits_pass_a_replaced_file_stays_for_its_delay(table: Table):
    """A reader that opened the table a moment ago has not read it yet."""
    file = a_file(0)
    commit(table, append(file), Kind.APPEND)
    write(table, file.path)
    commit(table, removal(file, at=NOW - 59_000))
    while table.snapshot.version < 110:
        commit(table, [info(), Txn("x", 1)])
    config = {"lakelog_history_commits": 100, "file_delete_delay_ms": 60_000}
    assert clean_history(live_of(table, **config), NOW) == 0
    assert exists(table, file.path)
    assert clean_history(live_of(table, **config), NOW + 1000) == 1
    assert not exists(table, file.path)


def test_files_that_are_gone_already_do_not_stop_the_clean_up(table: Table):
    file = a_file(0)
    commit(table, append(file), Kind.APPEND)
    commit(table, removal(file, at=NOW - 50 * HOUR))
    assert clean_history(live_of(table), NOW) == 1
    assert table.snapshot.removed == {}


def test_a_file_that_left_twice_is_kept_by_its_last_leaving(table: Table):
    file = a_file(0, name="same")
    snapshot = Snapshot()
    snapshot.replay(0, first_commit())
    snapshot.replay(1, removal(file, at=NOW - 50 * HOUR))
    snapshot.replay(2, append(file))
    assert removed_beyond(snapshot, NOW, 9, NOW) == []
    snapshot.replay(3, removal(file, at=NOW))
    assert removed_beyond(snapshot, NOW - HOUR, 0, NOW) == []


def test_a_surprise_in_one_topics_upkeep_does_not_end_that_of_the_others(monkeypatch, caplog):
    cared_for: list[str] = []

    def clean(live: TopicState, *_: object) -> int:
        cared_for.append(live.name)
        raise ZeroDivisionError

    monkeypatch.setattr("delta_log.maintenance.background.clean_history", clean)
    with Log.open("memory://", settings=Settings(upkeep=False)) as log:
        for topic in ("a", "b"):
            log.create_topic(topic)
            log.append(topic, [Record(b"x")])
        log.run_upkeep()
    assert cared_for == ["a", "b"]
    assert caplog.text.count("the other topics' goes on") == 2


EPOCH = 7
BASE = f"{0:020d}"


def test_files_of_earlier_owners_that_no_commit_names_are_deleted(store: LocalStore):
    """What a crash left between file and commit; of an append, of a copied frame, of a fold."""
    table = make_table(store, epoch=EPOCH)
    orphans = [f"partition=0/{BASE}-{name}.parquet" for name in ("6-0-128", "1-3-0", "6-fold-abc", "05-0-0")]
    write(table, *orphans)
    assert sorted(delete_orphans(live_of(table), EPOCH)) == sorted(orphans)
    assert not any(exists(table, path) for path in orphans)
    assert delete_orphans(live_of(table), EPOCH) == []


def test_files_that_may_be_somebodys_are_left_alone(store: LocalStore):
    """Live ones, replaced ones, our own, those of jobs, and whatever was not named by us."""
    table = make_table(store, epoch=EPOCH)
    live, replaced = a_file(0, name="6-0-0"), a_file(1, name="6-1-0")
    commit(table, append(live, epoch=EPOCH), Kind.APPEND)
    commit(table, append(replaced, epoch=EPOCH), Kind.APPEND)
    commit(table, removal(replaced))
    others = [f"{BASE}-7-0-0", f"{BASE}-8-0-0", f"{BASE}-7-fold-abc", f"{BASE}-job-123", f"{BASE}-job-7-0", "5-6-0-0"]
    others += ["part-00000-aaaa.snappy", "part-00001", f"{BASE}", f"{BASE}-6", "x", f"{BASE}--1-0-0"]
    paths = [live.path, replaced.path, *(f"partition=0/{name}.parquet" for name in others)]
    paths += [f"partition=0/{BASE}-6-0-0.crc", f"{BASE}-6-0-0.parquet", f"_change_data/{BASE}-6-0-0.parquet"]
    write(table, *paths)
    assert delete_orphans(live_of(table), EPOCH) == []
    assert all(exists(table, path) for path in paths)


def test_orphans_wait_until_the_table_is_ours(store: LocalStore):
    """Until then the earlier owner may still be committing them."""
    make_table(store, epoch=6)
    table = open_table(store, epoch=EPOCH)
    orphan = f"partition=0/{BASE}-6-0-0.parquet"
    write(table, orphan)
    assert delete_orphans(live_of(table, owned=False), EPOCH) == []
    commit(table, [info(), Txn(EPOCH_TXN, EPOCH)], Kind.APPEND)
    assert delete_orphans(live_of(table), EPOCH) == [orphan]
