"""A commit whose answer was lost: made or not, it is never reported as what it is not, and never made twice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from delta_log.delta.actions import Txn
from delta_log.delta.conflicts import Kind
from delta_log.delta.file_commits import replace_files
from delta_log.delta.snapshot import EPOCH_TXN
from delta_log.delta.table import Table
from delta_log.model.errors import Corruption, NotOwner, OutcomeUnknown, StorageRefused
from delta_log.stores import LocalStore, MemoryStore, Store
from delta_log.stores.protocol import Blob
from tests.support.tables import a_file, append, append_rows, commit, info, make_table, open_table


class Forgetful:
    """A store that loses answers to `create`: before or behind what was asked, so many times."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.lost: list[str] = []
        self.tries = 0

    def __getattr__(self, name: str) -> Callable[..., object]:
        return getattr(self.inner, name)

    def create(self, path: str, data: Blob) -> bool:
        self.tries += 1
        if not self.lost:
            return self.inner.create(path, data)
        if self.lost.pop(0) == "answer":
            self.inner.create(path, data)
        raise OutcomeUnknown(path, "the test says so")


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Forgetful:
    return Forgetful(LocalStore(tmp_path) if request.param == "local" else MemoryStore())


@pytest.fixture
def owner(store: Forgetful) -> Table:
    return make_table(store)


def entries(table: Table) -> int:
    return len(table.store.list(table.path("_delta_log")))


@pytest.mark.parametrize("lost", [["answer"], ["request"]])
@pytest.mark.parametrize("kind", [Kind.APPEND, Kind.REWRITE])
def test_one_lost_answer_is_found_out_at_once(lost: list[str], kind: Kind, store: Forgetful, owner: Table):
    """Whether it was made or not: it is now, once."""
    store.lost = list(lost)
    file = a_file(0)
    assert owner.commit(kind, lambda _: append(file, commit_id="mine"), commit_id="mine") == 1
    owner.verify(1, "mine")
    assert entries(owner) == 2
    assert list(open_table(store).snapshot.files(0)) == [file]


@pytest.mark.parametrize("lost", [["answer"], ["request"]])
def test_when_the_answer_is_lost_and_another_has_the_version_the_commit_is_planned_again(lost, store, owner):
    other = open_table(store)
    commit(other, [info(), Txn("x", 1)])
    store.lost = list(lost)
    append_rows(owner)
    assert owner.snapshot.version == 2
    assert open_table(store).snapshot.txns["x"] == 1


@pytest.mark.parametrize("lost", [["answer", "answer"], ["request", "request"], ["request", "answer"]])
def test_what_stays_unknown_is_said_to_be_unknown_and_can_be_tried_again(lost, store: Forgetful, owner: Table):
    store.lost = list(lost)
    with pytest.raises(OutcomeUnknown) as found:
        append_rows(owner, commit_id="mine")
    assert found.value.outcome == "unknown"
    assert owner.snapshot.version == 0, "a snapshot holds what is known"
    file = a_file(0)
    assert owner.commit(Kind.APPEND, lambda _: append(file, commit_id="mine"), commit_id="mine") == 1
    owner.verify(1, "mine")
    assert entries(owner) == 2
    assert owner.snapshot.end(0) == open_table(store).snapshot.end(0) == 1


MEANWHILE: dict[str, Callable[[Table], object]] = {
    "the background follows": lambda owner: owner.follow(),
    "a fold commits": lambda owner: commit(owner, [info(), Txn("x", 1)]),
    "the settings are changed": lambda owner: commit(owner, [info(), Txn("x", 1)], Kind.CONFIG),
    "a job commits and the background follows": lambda owner: (
        commit(open_table(owner.store), [info(), Txn("x", 1)]),
        owner.follow(),
    ),
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("lost", [["answer", "answer"], ["request", "answer"], ["request", "request"]])
def test_an_append_in_doubt_does_not_look_like_somebody_elses(meanwhile, lost, store: Forgetful, owner: Table):
    """Else an owner would take himself for replaced, and stop for good."""
    store.lost = list(lost)
    planned = a_file(0)

    def plan(snapshot):
        if snapshot.end(0) != 0:
            raise NotOwner("the end is not where we left it")
        return append(planned, commit_id="mine")

    with pytest.raises(OutcomeUnknown):
        owner.commit(Kind.APPEND, plan, commit_id="mine")
    MEANWHILE[meanwhile](owner)
    version = owner.commit(Kind.APPEND, plan, commit_id="mine")
    owner.verify(version, "mine")
    final = open_table(store).snapshot
    assert list(final.files(0)) == [planned]
    assert final.version == owner.snapshot.version == entries(owner) - 1
    append_rows(owner)
    assert open_table(store).snapshot.end(0) == 2


def test_a_real_append_of_somebody_else_is_seen_also_while_one_of_ours_is_in_doubt(store: Forgetful, owner: Table):
    store.lost = ["request", "request"]
    with pytest.raises(OutcomeUnknown):
        append_rows(owner, commit_id="mine")
    append_rows(open_table(store, epoch=1), commit_id="not mine")
    with pytest.raises(NotOwner):
        owner.follow()


def test_a_refusal_behind_a_lost_answer_leaves_the_outcome_unknown(store: Forgetful, owner: Table, monkeypatch):
    """The first try may have been made; that the second was not says nothing of it."""
    answers = [OutcomeUnknown("x", "lost"), StorageRefused("x", "full")]

    def create(path: str, data: Blob) -> bool:
        raise answers.pop(0)

    monkeypatch.setattr(store, "create", create)
    with pytest.raises(OutcomeUnknown):
        append_rows(owner)
    monkeypatch.undo()
    append_rows(owner)
    assert owner.snapshot.version == 1


def test_a_refusal_is_a_refusal_and_nothing_was_made(store: Forgetful, owner: Table, monkeypatch):
    def create(path: str, data: Blob) -> bool:
        raise StorageRefused(path, "full")

    monkeypatch.setattr(store, "create", create)
    with pytest.raises(StorageRefused):
        append_rows(owner)
    assert entries(owner) == 1


def test_what_was_made_is_not_called_refused_because_a_look_at_it_failed(store: Forgetful, owner: Table, monkeypatch):
    append_rows(owner)

    def stat(path: str) -> None:
        raise StorageRefused(path, "the disk is gone")

    monkeypatch.setattr(store, "stat", stat, raising=False)
    with pytest.raises(OutcomeUnknown):
        append_rows(owner, commit_id="mine")
    monkeypatch.undo()
    assert owner.commit(Kind.APPEND, lambda _: append(a_file(1), commit_id="mine"), commit_id="mine") == 2


def test_a_commit_read_back_must_be_ours(store: Forgetful, owner: Table):
    append_rows(owner, commit_id="mine")
    for version, commit_id in ((1, "another"), (0, "mine"), (2, "mine")):
        with pytest.raises(Corruption, match=f"it is not our commit {commit_id}"):
            owner.verify(version, commit_id)


def test_an_append_that_was_made_can_be_tried_again_and_is_not_made_twice(store: Forgetful, owner: Table):
    """Who could not read his commit back does not know that it was made."""
    file = a_file(0)
    for _ in range(3):
        assert owner.commit(Kind.APPEND, lambda _: append(file, commit_id="mine"), commit_id="mine") == 1
    append_rows(owner, commit_id="another")
    assert entries(owner) == 3


def test_an_entry_that_is_there_and_then_is_not_is_corruption(store: Forgetful, owner: Table, monkeypatch):
    monkeypatch.setattr(store, "create", lambda *_: False)
    with pytest.raises(Corruption, match="it was there and is gone"):
        append_rows(owner)


def refuse_a_look_at(version: int, store: Forgetful, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the entry of a version, once."""
    read, left = store.inner.read, [True]

    def refuse(path: str) -> bytes:
        if path.endswith(f"{version:020d}.json") and left:
            left.clear()
            raise StorageRefused(path, "the test says so")
        return read(path)

    monkeypatch.setattr(store, "read", refuse, raising=False)


@pytest.mark.parametrize("behind", [False, True])
def test_who_cannot_look_who_was_faster_does_not_know_that_it_was_not_himself(behind, store, owner, monkeypatch):
    """Else the files of a commit that was made would be taken for nobody's, and go."""
    file = a_file(0)
    store.put(owner.path(file.path), b"rows")
    store.lost = ["answer"]
    refuse_a_look_at(2 if behind else 1, store, monkeypatch)
    with pytest.raises(OutcomeUnknown):
        replace_files(owner, "topic", [], [file], lambda: 0, data_change=True)
    assert open_table(store).snapshot.has_file(file.path)
    assert store.read(owner.path(file.path)) == b"rows"


@pytest.mark.parametrize("looked_at", [1, 2])
def test_an_append_whose_author_could_not_be_looked_at_is_made_once(looked_at, store, owner, monkeypatch):
    file = a_file(0)
    store.lost = ["answer"]
    refuse_a_look_at(looked_at, store, monkeypatch)
    with pytest.raises(OutcomeUnknown):
        owner.commit(Kind.APPEND, lambda _: append(file, commit_id="mine"), commit_id="mine")
    assert owner.commit(Kind.APPEND, lambda _: append(file, commit_id="mine"), commit_id="mine") == 1
    assert entries(owner) == 2


def test_what_was_made_is_not_called_refused_because_another_owner_came_behind_it(store, owner, monkeypatch):
    """The next call says that we must stop."""
    file = a_file(0)
    store.put(owner.path(file.path), b"rows")
    create = store.create

    def lose_and_be_replaced(path: str, data: Blob) -> bool:
        monkeypatch.setattr(store, "create", create)
        assert create(path, data)
        commit(open_table(store, epoch=2), [info("another"), Txn(EPOCH_TXN, 2)], Kind.CONFIG)
        raise OutcomeUnknown(path, "the test says so")

    monkeypatch.setattr(store, "create", lose_and_be_replaced)
    assert replace_files(owner, "topic", [], [file], lambda: 0, data_change=True) == 1
    assert store.read(owner.path(file.path)) == b"rows"
    with pytest.raises(NotOwner):
        owner.follow()
