"""What a table is at one version: the fold of its commits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log.delta.actions import Add, Remove, Txn
from delta_log.delta.snapshot import Snapshot, end_txn, files_below, files_from, start_txn
from delta_log.model.types import DataFile
from tests.support.tables import a_file, append, content, first_commit, histories, info, metadata, removal


def folded(*commits) -> Snapshot:
    snapshot = Snapshot()
    for version, actions in enumerate(commits):
        snapshot.replay(version, actions)
    return snapshot


def test_a_table_begins_with_nothing():
    snapshot = Snapshot()
    assert (snapshot.version, snapshot.epoch, snapshot.end(0), snapshot.start(0)) == (-1, 0, 0, 0)
    assert snapshot.configuration == {}
    assert list(snapshot.files(0)) == list(snapshot.all_files()) == []


@pytest.mark.parametrize("version", [-1, 0, 2, 10])
def test_commits_are_replayed_in_order_and_none_is_left_out(version: int):
    snapshot = folded(first_commit())
    with pytest.raises(ValueError, match=f"commit {version} does not follow 0"):
        snapshot.replay(version, [Txn("a", 1)])
    assert snapshot.version == 0
    assert snapshot.txns.get("a") is None


def test_files_of_a_partition_are_in_offset_order_however_they_came():
    late, early, other = a_file(10), a_file(0, 10), a_file(3, partition=1)
    snapshot = folded(first_commit(), [info(), Add(late), Add(other), Add(early)])
    assert list(snapshot.files(0)) == [early, late]
    assert list(snapshot.files(1)) == [other]
    assert snapshot.file_count == 3


def test_a_list_of_files_that_was_handed_out_stays_true():
    """A reader goes through the files while commits go on."""
    first, second = a_file(0), a_file(1)
    snapshot = folded(first_commit(), append(first))
    before = snapshot.files(0)
    snapshot.replay(2, append(second))
    snapshot.replay(3, removal(first))
    assert list(before) == [first]
    assert list(snapshot.files(0)) == [second]


def test_a_merge_replaces_its_inputs_at_once_and_they_leave_tombstones():
    old = [a_file(0), a_file(1)]
    merged = a_file(0, 2)
    snapshot = folded(first_commit(), append(old[0]), append(old[1]), [Add(merged, data_change=False), *removal(*old)])
    assert list(snapshot.files(0)) == [merged]
    assert {path: version for path, (_, version) in snapshot.removed.items()} == {file.path: 3 for file in old}


def test_a_file_added_and_removed_in_one_commit_is_there():
    """Delta reads a commit as a set: the add of a path counts."""
    file = a_file(0)
    snapshot = folded(first_commit(), append(file), [info(), Add(file), Remove(file.path, 0, 1, 1)])
    assert list(snapshot.files(0)) == [file]
    assert snapshot.removed == {}


def test_a_file_added_again_stands_once_with_its_newest_description():
    file, described = a_file(0, name="same", size=1), a_file(0, name="same", size=2)
    snapshot = folded(first_commit(), append(file), append(described))
    assert list(snapshot.files(0)) == list(snapshot.all_files()) == [described]


def test_a_tombstone_of_a_file_that_was_never_there_changes_no_partition():
    snapshot = folded(first_commit(), append(a_file(0)), removal(a_file(5)))
    assert snapshot.file_count == len(snapshot.files(0)) == 1


class Watched(DataFile):
    """It counts who looks at what it is."""

    __slots__ = ()
    looks = 0

    def __getattribute__(self, name: str) -> object:
        Watched.looks += 1
        return super().__getattribute__(name)


def test_however_many_files_there_are_an_append_does_not_look_through_them():
    many = [a_file(base, at=base) for base in range(1000)]
    there = [Watched(*(getattr(file, name) for name in DataFile.__slots__)) for file in many]
    snapshot = folded(first_commit(), [info(), *(Add(file) for file in there)])
    before = snapshot.files(0)
    Watched.looks = 0
    snapshot.replay(2, append(a_file(1000)))
    assert Watched.looks <= 2
    assert len(before) == 1000
    assert [file.base_offset for file in snapshot.files(0)] == list(range(1001))


def test_tombstones_whose_files_are_gone_are_forgotten():
    file = a_file(0)
    snapshot = folded(first_commit(), append(file), removal(file))
    snapshot.forget_removed([file.path, "never there"])
    assert snapshot.removed == {}


def test_ends_starts_epoch_and_settings_are_those_said_last():
    last = [Txn(end_txn(0), 7), Txn(start_txn(0), 3), Txn("lakelog/epoch", 9), metadata(lakelog_retention_ms="5")]
    snapshot = folded(first_commit(), [Txn(end_txn(0), 5), metadata()], last)
    assert (snapshot.end(0), snapshot.start(0), snapshot.epoch) == (7, 3, 9)
    assert snapshot.configuration["lakelog.retention.ms"] == "5"


@given(history=histories())
def test_a_copy_says_the_same_and_goes_its_own_way(history):
    snapshot = folded(*history)
    copy = snapshot.copy()
    assert {file.path for file in copy.all_files()} == {file.path for file in snapshot.all_files()}
    before = content(snapshot)
    copy.replay(copy.version + 1, [Add(a_file(10**9)), Txn("x", 1), *removal(*copy.all_files())])
    assert content(snapshot) == before


@given(history=histories())
def test_what_is_live_is_what_was_added_and_not_removed_since(history):
    """The fold against its definition, by sets of paths."""
    live: dict[str, DataFile] = {}
    for actions in history:
        for action in actions:
            if isinstance(action, Remove):
                live.pop(action.path, None)
        live |= {action.file.path: action.file for action in actions if isinstance(action, Add)}
    snapshot = folded(*history)
    assert {file.path: file for file in snapshot.all_files()} == live
    for index in (0, 1):
        expected = sorted((f for f in live.values() if f.partition == index), key=lambda f: f.base_offset)
        assert list(snapshot.files(index)) == expected
    assert not set(snapshot.removed) & set(live)


@st.composite
def offset_ordered(draw: st.DrawFn) -> list[DataFile]:
    """Files in order, with and without holes between them."""
    files: list[DataFile] = []
    offset = 0
    for _ in range(draw(st.integers(0, 8))):
        file = a_file(offset + draw(st.integers(0, 3)), draw(st.integers(1, 4)))
        files.append(file)
        offset = file.next_offset
    return files


@given(files=offset_ordered(), offset=st.integers(0, 40))
def test_reading_on_from_an_offset_needs_the_files_that_reach_it(files, offset: int):
    assert list(files_from(files, offset)) == [file for file in files if file.last_offset >= offset]


@given(files=offset_ordered(), offset=st.integers(0, 40))
def test_files_below_an_offset_begin_below_it(files, offset: int):
    assert list(files_below(files, offset)) == [file for file in files if file.base_offset < offset]
