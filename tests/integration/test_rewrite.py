"""Changes that append nothing: what they leave in the table, and what they leave behind when they give way."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from delta_log.delta.actions import Txn
from delta_log.delta.file_commits import cut_file, merge_files, move_log_start, remove_files, rewritten_name
from delta_log.delta.parquet import encode_parquet, read_file
from delta_log.delta.snapshot import EPOCH_TXN
from delta_log.delta.table import Table
from delta_log.model.errors import Corruption, LakelogError, NotOwner, OutcomeUnknown, PlanOutdated, StorageRefused
from delta_log.model.file_bin import Bin
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.stores import LocalStore, MemoryStore, Store
from tests.support.tables import NOW, append, commit, info, make_table, open_table, removal

TOPIC = "topic"


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()


@pytest.fixture
def table(store: Store) -> Table:
    """Three files: offsets 0 to 9, 10 to 12, 15 to 19."""
    made = make_table(store)
    for number, offsets in enumerate((range(10), range(10, 13), range(15, 20))):
        write(made, offsets, at=NOW + number)
    return made


def clock() -> int:
    return NOW + 1000


def write(table: Table, offsets: Sequence[int], at: int) -> DataFile:
    rows = [
        {"offset": n, "timestamp": (NOW + n) * 1000, "key": b"%d" % n, "value": None, "headers": []} for n in offsets
    ]
    data = encode_parquet(pa.Table.from_pylist(rows, FILE_SCHEMA), ParquetCodec(), ordered_by=("offset",))
    path = f"partition=0/{offsets[0]:020d}-1-0-{offsets[0]}.parquet"
    table.store.put(table.path(path), data)
    last = offsets[-1]
    file = DataFile(path, 0, offsets[0], last, len(offsets), len(data), NOW + offsets[0], NOW + last, at)
    commit(table, append(file))
    return file


def rows(table: Table) -> list[dict[str, object]]:
    """What the table holds, by its log and its files."""
    files = open_table(table.store).snapshot.files(0)
    return [row for file in files for row in read_file(table.store, table.path(file.path), FILE_SCHEMA).to_pylist()]


def stored(table: Table) -> set[str]:
    return {f"partition=0/{entry.name}" for entry in table.store.list(table.path("partition=0"))}


def merge(table: Table, files: Sequence[DataFile] | None = None) -> int:
    return merge_files(table, TOPIC, Bin(tuple(files or table.snapshot.files(0))), FILE_SCHEMA, ParquetCodec(), clock)


def test_a_merge_holds_the_same_rows_in_the_same_order(table: Table):
    before, old = rows(table), list(table.snapshot.files(0))
    version = merge(table)
    (merged,) = open_table(table.store).snapshot.files(0)
    assert version == table.snapshot.version
    assert rows(table) == before
    assert (merged.base_offset, merged.last_offset, merged.count) == (0, 19, 18)
    assert (merged.min_timestamp_ms, merged.max_timestamp_ms) == (NOW, NOW + 19)
    assert merged.modified_ms == NOW, "its oldest content decides how old a file is"
    assert set(table.snapshot.removed) == {file.path for file in old}
    assert stored(table) == {merged.path, *(file.path for file in old)}


def test_a_merge_changes_no_data_and_says_so(table: Table):
    version = merge(table)
    actions = table._read_entry(version)
    assert {action.data_change for action in actions if hasattr(action, "data_change")} == {False}


def test_names_tell_who_rewrote(table: Table):
    assert rewritten_name(7).startswith("7-fold-")
    assert rewritten_name(None).startswith("job-")
    assert rewritten_name(None) != rewritten_name(None)


@pytest.mark.parametrize(("before", "left"), [(12, [12]), (10, [10, 11, 12]), (13, [])])
def test_a_cut_leaves_the_rows_from_an_offset_on(before: int, left: list[int], table: Table):
    file = table.snapshot.files(0)[1]
    cut_file(table, TOPIC, file, before, FILE_SCHEMA, ParquetCodec(), clock)
    assert [row["offset"] for row in rows(table)] == [*range(10), *left, *range(15, 20)]
    fresh = [f for f in table.snapshot.files(0) if f.base_offset in left]
    assert [(f.base_offset, f.count, f.min_timestamp_ms) for f in fresh] == [(n, len(left), NOW + n) for n in left[:1]]


def give_way(table: Table) -> None:
    """A job removes what is being rewritten."""
    commit(open_table(table.store), removal(table.snapshot.files(0)[1]))


def be_replaced(table: Table) -> None:
    commit(open_table(table.store), [info(), Txn(EPOCH_TXN, 2)])


def meet_a_full_disk(table: Table) -> None:
    def create(path: str, data: object) -> bool:
        raise StorageRefused(path, "full")

    table.store.create = create


@pytest.mark.parametrize(
    ("act", "error"), [(give_way, PlanOutdated), (be_replaced, NotOwner), (meet_a_full_disk, StorageRefused)]
)
@pytest.mark.parametrize("what", ["merge", "cut"])
def test_a_rewrite_that_gives_way_takes_its_file_with_it(act, error: type[LakelogError], what: str, table: Table):
    """What surely was not committed is nobody's, and would lie there for ever."""
    before = stored(table)
    file = table.snapshot.files(0)[1]
    act(table)
    with pytest.raises(error):
        merge(table) if what == "merge" else cut_file(table, TOPIC, file, 11, FILE_SCHEMA, ParquetCodec(), clock)
    assert stored(table) == before


def test_a_rewrite_whose_answer_was_lost_leaves_its_file_where_it_is(table: Table):
    """It may be part of the table."""
    inner = table.store.create

    def create(path: str, data: bytes) -> bool:
        inner(path, data)
        raise OutcomeUnknown(path, "lost")

    before = rows(table)
    table.store.create = create
    with pytest.raises(OutcomeUnknown):
        merge(table)
    assert rows(table) == before
    assert open_table(table.store).snapshot.file_count == 1


def test_a_file_that_left_meanwhile_outdates_the_plan_and_a_lost_one_is_corruption(table: Table):
    """Either is an error of the tree, so that the other topics' upkeep goes on."""
    first, second, third = table.snapshot.files(0)
    table.store.delete(table.path(third.path))
    with pytest.raises(Corruption, match=third.path):
        merge(table)
    give_way(table)
    table.store.delete(table.path(second.path))
    with pytest.raises(PlanOutdated, match="has left the table"):
        merge(table, [first, second])


def test_files_whose_rows_are_not_those_of_the_log_are_not_merged(table: Table):
    """A count or an order that is wrong must not become the only copy."""
    first, second, _ = table.snapshot.files(0)
    before = stored(table)
    table.store.put(table.path(second.path), table.store.read(table.path(first.path)))
    with pytest.raises(Corruption, match="not those"):
        merge(table, [first, second])
    assert stored(table) == before
    assert table.snapshot.file_count == 3


def test_a_damaged_input_is_named_and_nothing_is_committed(table: Table):
    second = table.snapshot.files(0)[1]
    data = bytearray(table.store.read(table.path(second.path)))
    data[20] ^= 0xFF
    table.store.put(table.path(second.path), bytes(data))
    version = table.snapshot.version
    with pytest.raises(Corruption, match=second.path):
        merge(table)
    assert table.snapshot.version == version


def test_removed_files_leave_the_table_and_stay_in_the_store(table: Table):
    first, *others = table.snapshot.files(0)
    remove_files(table, TOPIC, [first], clock)
    assert list(open_table(table.store).snapshot.files(0)) == others
    assert first.path in stored(table)
    version = table.snapshot.version
    assert remove_files(table, TOPIC, [first], clock) == version


def test_a_log_start_only_moves_forward(table: Table):
    for offset, expected in ((5, 5), (3, 5), (5, 5), (9, 9)):
        move_log_start(table, TOPIC, 0, offset, clock)
        assert open_table(table.store).snapshot.start(0) == expected
    assert table.snapshot.version == 3 + 2
