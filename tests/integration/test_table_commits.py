"""Committing to one table from two sides: who plans again, who gives way, who stops."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from delta_log.delta.actions import Add, MetaData, Protocol, Txn
from delta_log.delta.conflicts import Kind
from delta_log.delta.file_commits import move_log_start, remove_files, replace_files
from delta_log.delta.snapshot import EPOCH_TXN
from delta_log.delta.table import Table
from delta_log.model.errors import LakelogError, NotOwner, PlanOutdated, TopicClosed
from delta_log.stores import LocalStore, MemoryStore, Store
from tests.support.tables import (
    NOW,
    SCHEMA,
    a_file,
    append_rows,
    commit,
    content,
    info,
    make_table,
    metadata,
    open_table,
)

TOPIC = "topic"


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()


@pytest.fixture
def owner(store: Store) -> Table:
    """A table of epoch 1 with one file in it."""
    table = make_table(store)
    append_rows(table, 3)
    return table


@pytest.fixture
def job(store: Store, owner: Table) -> Table:
    """The same table, opened by a job beside its owner."""
    return open_table(store)


def clock() -> int:
    return NOW


def same(*tables: Table) -> None:
    """All of them, and whoever comes new, see one table."""
    for table in tables:
        table.refresh()
    expected = content(open_table(tables[0].store).snapshot)
    assert all(content(table.snapshot) == expected for table in tables)


def test_a_commit_has_the_version_that_follows_and_is_read_back_alike(store: Store, owner: Table, job: Table):
    assert owner.snapshot.version == 1
    file = append_rows(owner, commit_id="mine")
    owner.verify(2, "mine")
    assert owner.snapshot.version == 2
    assert job.follow()
    assert not job.follow()
    assert job.snapshot.has_file(file.path)
    same(owner, job)


def test_an_empty_plan_commits_nothing(owner: Table):
    assert owner.commit(Kind.CONFIG, lambda _: []) == 1
    assert owner.commit(Kind.CONFIG, lambda _: None) == 1
    assert open_table(owner.store).snapshot.version == 1


def test_a_plan_that_refuses_commits_nothing(owner: Table):
    def refuse(_):
        raise PlanOutdated("t", "no")

    with pytest.raises(PlanOutdated):
        owner.commit(Kind.REWRITE, refuse)
    append_rows(owner)
    assert owner.snapshot.version == 2


def test_who_comes_second_plans_again_on_what_the_first_made(owner: Table, job: Table):
    """A plan is never put on a table that it was not made for."""
    seen: list[int] = []
    append_rows(owner)

    def plan(snapshot):
        seen.append(snapshot.version)
        return [info(), Txn("lakelog/start/0", 1)]

    assert job.commit(Kind.LOG_START, plan) == 3
    assert seen == [1, 2]
    same(owner, job)


JOBS: dict[str, Callable[[Table], int]] = {
    "rewrite": lambda job: replace_files(
        job, TOPIC, list(job.snapshot.files(0)), [a_file(0, 3)], clock, data_change=False
    ),
    "removal": lambda job: remove_files(job, TOPIC, list(job.snapshot.files(0)), clock),
    "log start": lambda job: move_log_start(job, TOPIC, 0, 2, clock),
}


@pytest.mark.parametrize("what", JOBS)
def test_an_owner_appends_on_top_of_what_a_job_committed(what: str, owner: Table, job: Table):
    version = JOBS[what](job)
    append_rows(owner)
    assert owner.snapshot.version == version + 1
    same(owner, job)


@pytest.mark.parametrize("what", JOBS)
def test_a_job_commits_on_top_of_what_an_owner_appended(what: str, owner: Table, job: Table):
    append_rows(owner)
    append_rows(owner)
    assert JOBS[what](job) == 4
    assert open_table(owner.store).snapshot.end(0) == 5
    same(owner, job)


@pytest.mark.parametrize("what", JOBS)
def test_an_owner_changes_the_settings_on_top_of_what_a_job_committed(what: str, owner: Table, job: Table):
    JOBS[what](job)
    commit(owner, [info(), metadata(lakelog_retention_ms="1")], Kind.CONFIG)
    same(owner, job)


def test_of_two_rewrites_of_one_file_the_second_gives_way(store: Store, owner: Table, job: Table):
    other = open_table(store)
    JOBS["rewrite"](other)
    with pytest.raises(PlanOutdated, match="has left the table"):
        JOBS["rewrite"](job)
    same(owner, job, other)
    assert owner.snapshot.file_count == 1


def test_a_rewrite_gives_way_to_a_removal_of_its_input(store: Store, owner: Table, job: Table):
    JOBS["removal"](open_table(store))
    with pytest.raises(PlanOutdated, match="has left the table"):
        replace_files(job, TOPIC, list(job.snapshot.files(0)), [a_file(0, 3)], clock, data_change=True)
    same(owner, job)
    assert owner.snapshot.file_count == 0


def test_what_a_rewrite_replaced_meanwhile_need_not_be_removed(store: Store, owner: Table, job: Table):
    other = open_table(store)
    JOBS["rewrite"](job)
    assert JOBS["removal"](other) == job.snapshot.version
    same(owner, job, other)
    assert owner.snapshot.file_count == 1


def test_of_two_log_starts_the_larger_stays(store: Store, owner: Table, job: Table):
    move_log_start(job, TOPIC, 0, 2, clock)
    assert move_log_start(owner, TOPIC, 0, 1, clock) == 2
    assert owner.snapshot.start(0) == 2
    same(owner, job)


@pytest.mark.parametrize("what", JOBS)
def test_no_plan_of_an_earlier_life_of_a_topic_is_carried_out(what: str, owner: Table, job: Table):
    """Deleted and created anew it has a new id, and a job that slept meanwhile must find out."""
    again = metadata()
    again.configuration["lakelog.topic.id"] = "another"
    commit(owner, [info(), again], Kind.CONFIG)
    with pytest.raises(PlanOutdated, match="deleted or created anew"):
        JOBS[what](job)


def take_over(store: Store, epoch: int = 2) -> Table:
    table = open_table(store, epoch=epoch)
    commit(table, [info(), Txn(EPOCH_TXN, epoch)], Kind.APPEND)
    return table


@pytest.mark.parametrize("what", ["append", "rewrite", "config", "follow"])
def test_an_owner_who_was_replaced_finds_out_whatever_he_does_and_never_forgets(what: str, store: Store, owner: Table):
    take_over(store)
    acts: dict[str, Callable[[], object]] = {
        "append": lambda: append_rows(owner),
        "rewrite": lambda: JOBS["rewrite"](owner),
        "config": lambda: commit(owner, [info(), metadata()], Kind.CONFIG),
        "follow": owner.follow,
    }
    with pytest.raises(NotOwner, match="taken by epoch 2, ours is 1"):
        acts[what]()
    before = open_table(store).snapshot.version
    for again in acts.values():
        with pytest.raises(NotOwner):
            again()
    assert open_table(store).snapshot.version == before


def test_an_owner_who_appended_nothing_yet_is_replaced_by_an_append_of_his_own_epoch(store: Store, owner: Table):
    """Whoever it is that writes under our number: two who append are one too many."""
    append_rows(open_table(store, epoch=1))
    with pytest.raises(NotOwner, match="somebody else appended"):
        append_rows(owner)


def test_a_job_does_not_care_who_owns_the_table(store: Store, job: Table):
    append_rows(take_over(store))
    assert JOBS["log start"](job) == 4


@pytest.mark.parametrize(
    "change",
    [
        Protocol(1, 7, ("appendOnly", "invariants")),
        MetaData(metadata().id, SCHEMA.replace('"key"', '"kee"'), ("partition",), metadata().configuration, NOW),
        MetaData("00000000-0000-0000-0000-000000000002", SCHEMA, ("partition",), metadata().configuration, NOW),
    ],
    ids=["protocol", "schema", "table id"],
)
@pytest.mark.parametrize("by", ["follow", "append"])
def test_a_topic_that_others_turned_into_something_else_is_closed_and_stays_closed(
    by, change, store: Store, owner: Table
):
    """Having seen the change once must not make it acceptable."""
    commit(open_table(store), [info(), change], Kind.CONFIG)
    for _ in range(3):
        with pytest.raises(TopicClosed, match="changed by another writer"):
            owner.follow() if by == "follow" else append_rows(owner)
    with pytest.raises(TopicClosed):
        append_rows(owner)
    assert open_table(store).snapshot.version == 2


def test_settings_that_others_changed_are_taken_over(store: Store, owner: Table, job: Table):
    commit(open_table(store), [info(), metadata(lakelog_retention_ms="7")], Kind.CONFIG)
    assert owner.follow()
    assert owner.snapshot.configuration["lakelog.retention.ms"] == "7"
    append_rows(owner)
    same(owner, job)


def test_a_table_that_needs_more_than_we_know_is_not_opened(store: Store, owner: Table):
    commit(owner, [info(), Protocol(3, 7, ("lakelog.exclusive", "deletionVectors"), ("deletionVectors",))], Kind.CONFIG)
    for epoch in (None, 2):
        with pytest.raises(TopicClosed, match="deletionVectors"):
            open_table(store, epoch=epoch)


def test_many_who_commit_at_once_all_get_their_turn(store: Store, owner: Table):
    """However many race, each commit has a version of its own and none is lost."""
    jobs = [open_table(store) for _ in range(4)]

    def work(me: int) -> None:
        for number in range(10):
            commit(jobs[me], [info(), Txn(f"job/{me}", number), Add(a_file(100 + me, name=f"{me}-{number}"))])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    final = open_table(store).snapshot
    assert final.version == 1 + 40
    assert [final.txns[f"job/{me}"] for me in range(4)] == [9] * 4
    same(owner, *jobs)


def test_a_commit_that_is_always_overtaken_gives_up(store: Store, owner: Table, job: Table):
    def plan(_):
        append_rows(owner)
        return [info(), Txn("x", 1)]

    with pytest.raises(TopicClosed, match="overtaken"):
        job.commit(Kind.REMOVAL, plan)


def test_a_version_made_and_cleaned_up_by_others_is_not_taken_for_a_free_one(store: Store, owner: Table, job: Table):
    """Who slept for longer than the history finds the next name free, and must not believe it."""
    successor = take_over(store)
    for _ in range(5):
        append_rows(successor)
    for version in range(5):
        store.delete(owner.path(f"_delta_log/{version:020d}.json"))
    before = [entry.name for entry in store.list(owner.path("_delta_log"))]
    late: list[tuple[Table, type[LakelogError], Callable[[], object]]] = [
        (owner, NotOwner, lambda: append_rows(owner)),
        (job, PlanOutdated, lambda: JOBS["rewrite"](job)),
    ]
    for table, error, act in late:
        for _ in range(2):
            with pytest.raises(error, match="cleaned up long ago"):
                act()
        assert table.snapshot.version == 1
    assert [entry.name for entry in store.list(owner.path("_delta_log"))] == before
