"""Opening a table: from checkpoints and the log behind them, and never from half of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from delta_log.delta.checkpoint import checkpoint_path
from delta_log.delta.conflicts import Kind
from delta_log.delta.table import Table, entry_path
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.model.errors import Corruption, StorageRefused, TopicClosed
from delta_log.stores import LocalStore, MemoryStore, Store
from tests.support.logs import Fault, TestStore
from tests.support.tables import (
    NAME,
    append_rows,
    commit,
    content,
    first_commit,
    info,
    make_table,
    metadata,
    open_table,
)

HINT = f"{NAME}/_delta_log/_last_checkpoint"


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()


def entry(version: int) -> str:
    return f"{NAME}/{entry_path(version)}"


def checkpoint(version: int) -> str:
    return f"{NAME}/{checkpoint_path(version)}"


def grown(store: Store, *checkpoints: int, until: int = 9) -> Table:
    """A table of so many versions, with checkpoints at some of them."""
    table = make_table(store)
    while True:
        if table.snapshot.version in checkpoints:
            write_checkpoint(table)
        if table.snapshot.version == until:
            return table
        append_rows(table)


def test_what_is_not_there_is_no_table(store: Store):
    table = Table(store, NAME)
    assert not table.load()
    assert not table.exists


def test_of_two_who_make_a_table_one_does_and_the_other_finds_it(store: Store):
    tables = [Table(store, "topics/new", epoch=epoch) for epoch in (1, 1)]

    def plan(snapshot):
        return [] if snapshot.version >= 0 else first_commit()

    assert [table.commit(Kind.CONFIG, plan) for table in tables] == [0, 0]


@pytest.mark.parametrize("checkpoints", [(), (0,), (4,), (9,), (3, 6)])
def test_a_table_is_the_same_with_and_without_checkpoints(checkpoints: tuple[int, ...], store: Store):
    table = grown(store, *checkpoints)
    loaded = open_table(store)
    assert content(loaded.snapshot) == content(table.snapshot)
    assert loaded.checkpoint_version == max(checkpoints, default=-1)


def test_loading_again_finds_what_came_since(store: Store):
    table = grown(store, 4)
    loaded = open_table(store)
    append_rows(table)
    assert loaded.load()
    assert content(loaded.snapshot) == content(table.snapshot)


@pytest.mark.parametrize("data", [b"", b"\n", b'{"commitInfo":', b"\0" * 512, b"not json at all\n"])
@pytest.mark.parametrize("checkpoints", [(), (4,), (8,)])
def test_a_newest_entry_that_cannot_be_read_is_corruption_that_names_it(checkpoints, data: bytes, store: Store):
    """A writer that is not atomic died, or a disk lost what it had promised: nothing is guessed."""
    table = grown(store, *checkpoints)
    store.put(entry(9), data)
    with pytest.raises(Corruption, match=r"0009\.json") as found:
        open_table(store)
    assert found.value.file == entry(9)
    store.put(entry(10), data)
    for act in (table.follow, lambda: append_rows(table)):
        with pytest.raises(Corruption, match=r"0010\.json"):
            act()


@pytest.mark.parametrize(("missing", "checkpoints"), [(5, ()), (5, (3,)), (0, ()), (8, (6,))])
def test_an_entry_missing_in_the_middle_is_corruption_that_names_it(missing: int, checkpoints, store: Store):
    grown(store, *checkpoints)
    store.delete(entry(missing))
    with pytest.raises(Corruption, match=f"000{missing}\\.json is damaged: it is missing, while version 9 exists"):
        open_table(store)


def test_entries_missing_before_the_checkpoint_are_not_missed(store: Store):
    table = grown(store, 5)
    for version in (0, 1, 3):
        store.delete(entry(version))
    assert content(open_table(store).snapshot) == content(table.snapshot)


HINTS: dict[str, Callable[[Store], None]] = {
    "missing": lambda store: store.delete(HINT),
    "empty": lambda store: store.put(HINT, b""),
    "no json": lambda store: store.put(HINT, b"\xff{"),
    "no object": lambda store: store.put(HINT, b"[7]"),
    "without version": lambda store: store.put(HINT, b'{"size":5}'),
    "with a text for a version": lambda store: store.put(HINT, b'{"version":"6"}'),
    "with an endless version": lambda store: store.put(HINT, b'{"version":1e999}'),
    "of a version that has none": lambda store: store.put(HINT, b'{"version":8}'),
    "of a version to come": lambda store: store.put(HINT, b'{"version":800}'),
    "negative": lambda store: store.put(HINT, b'{"version":-1}'),
}


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("cleaned", [0, 3, 6])
def test_a_hint_that_is_broken_or_missing_is_only_a_hint(cleaned: int, hint: str, store: Store):
    """Also where the log was shortened, and where the first entry is the one that a crash left behind."""
    table = grown(store, 3, 6)
    for version in range(1, cleaned):
        store.delete(entry(version))
    HINTS[hint](store)
    assert content(open_table(store).snapshot) == content(table.snapshot)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, -1])
@pytest.mark.parametrize("shortened", [False, True])
def test_a_truncated_checkpoint_is_done_without(shortened, keep: float, store: Store, caplog):
    """The one before it serves, or the whole log: and it is said aloud."""
    table = grown(store, 3, 6)
    data = store.read(checkpoint(6))
    store.put(checkpoint(6), data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    if shortened:
        for version in range(3):
            store.delete(entry(version))
    loaded = open_table(store)
    assert content(loaded.snapshot) == content(table.snapshot)
    assert loaded.checkpoint_version == 3
    assert "checkpoint unusable" in caplog.text


def test_without_any_checkpoint_that_can_be_read_the_log_serves_while_it_is_whole(store: Store, caplog):
    table = grown(store, 3, 6)
    for version in (3, 6):
        store.put(checkpoint(version), b"damaged")
    assert content(open_table(store).snapshot) == content(table.snapshot)
    store.delete(entry(0))
    with pytest.raises(Corruption, match=r"0000\.json"):
        open_table(store)
    assert caplog.text.count("checkpoint unusable") == 4


def test_a_checkpoint_that_the_store_would_not_read_just_now_is_no_damage(store: Store):
    table = grown(store, 3)
    store.delete(entry(0))
    moody = TestStore(store, lambda: 0, [Fault("read", "checkpoint.parquet", "refused")])
    with pytest.raises(StorageRefused):
        open_table(moody)
    assert content(open_table(moody).snapshot) == content(table.snapshot)


def test_names_that_are_none_of_the_logs_are_ignored(store: Store):
    table = grown(store, 4)
    for name in ("x.checkpoint.parquet", "y.json", ".00000000000000000099.json.crc", "_commits/1.json", "9.json"):
        store.put(f"{NAME}/_delta_log/{name}", b"?")
    assert content(open_table(store).snapshot) == content(table.snapshot)


class Racing:
    """A store whose table is cleaned up while somebody reads it."""

    def __init__(self, inner: Store, at: str, act: Callable[[], object]) -> None:
        self.inner, self.at, self.act = inner, at, act

    def __getattr__(self, name: str) -> Callable[..., object]:
        return getattr(self.inner, name)

    def read(self, path: str) -> bytes:
        if path == self.at:
            self.at = ""
            self.act()
        return self.inner.read(path)


@pytest.mark.parametrize("at", [checkpoint(3), entry(4), entry(7)])
def test_a_clean_up_while_a_table_is_being_loaded_is_no_corruption(at: str, store: Store):
    """What is missing was replaced by a later checkpoint: begin anew from that."""
    table = grown(store, 3)

    def clean_up() -> None:
        for _ in range(5):
            append_rows(table)
        write_checkpoint(table)
        for version in range(14):
            store.delete(entry(version))
        store.delete(checkpoint(3))

    loaded = Table(Racing(store, at, clean_up), NAME)
    assert loaded.load()
    assert content(loaded.snapshot) == content(table.snapshot)


def test_a_reader_that_slept_through_the_clean_up_catches_up_from_the_checkpoint(store: Store):
    """Else it would wait for ever for an entry that is long gone, and show an old table."""
    table = grown(store, until=2)
    reader = open_table(store)
    for _ in range(5):
        append_rows(table)
    write_checkpoint(table)
    for version in range(7):
        store.delete(entry(version))
    assert reader.follow()
    assert content(reader.snapshot) == content(table.snapshot)
    assert not reader.follow()
    append_rows(table)
    assert reader.follow()


def test_a_reader_that_slept_while_the_table_became_another_is_told(store: Store):
    table = grown(store, until=2)
    reader = open_table(store)
    commit(table, [info(), metadata()], Kind.CONFIG)
    changed = metadata()
    commit(table, [info(), type(changed)("another id", changed.schema, changed.partition_columns, {}, 0)], Kind.CONFIG)
    write_checkpoint(table)
    for version in range(4):
        store.delete(entry(version))
    for _ in range(2):
        with pytest.raises(TopicClosed, match="identity"):
            reader.follow()


def test_a_reader_whose_table_is_gone_sees_that(store: Store):
    grown(store, until=2)
    reader = open_table(store)
    store.delete_directory(NAME)
    assert reader.follow()
    assert not reader.exists
