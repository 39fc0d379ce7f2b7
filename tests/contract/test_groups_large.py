"""A large decision keeps no loop: it is made and applied in a thread, and nothing rests on what is half done."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from consumer_groups.coordinator import durable_state as durable
from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.coordinator.group_maintenance import GroupMaintenance
from consumer_groups.decisions.commits import Commit, Commitment
from consumer_groups.decisions.decision_weight import LARGE
from consumer_groups.decisions.membership import Heartbeat, Join, Leave
from consumer_groups.decisions.subscription import Assign, Subscribe
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.options import parse_options
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.invariants import check_invariants
from consumer_groups.state.state import Group, Groups
from delta_log import Log
from delta_log.model.errors import StorageRefused
from tests.support.coordinating import SOON_S, coordinating, join, poll, put
from tests.support.group_assignors import Gate, gate
from tests.support.loops import in_loop

WAITS = "tests.support.group_assignors:wait_at_the_gate"
ONE = TopicPartition("t", 0)


def group_of(groups: Coordinator, name: str) -> Group:
    return groups._durable.groups.get(name)


def everything(groups: Coordinator) -> set[str]:
    return {repr(record) for record in groups._durable.groups.records()}


async def let_others_go_on() -> None:
    """As often as whatever waits for nothing needs to end."""
    for _ in range(200):
        await asyncio.sleep(0)


async def join_slow(groups: Coordinator, member_id: str, group: str = "slow") -> None:
    options = parse_options({"partition.assignment.strategy": WAITS}, custom=[WAITS])[1]
    await groups.join(group, Join(member_id, options))


async def begin_to_subscribe(groups: Coordinator, held: Gate) -> asyncio.Task[Any]:
    """A member of a group whose assignor does not come to an end for now."""
    await join_slow(groups, "ann")
    subscribing = asyncio.ensure_future(groups.subscribe("slow", Subscribe("ann", ("t",))))
    assert await asyncio.to_thread(held.entered.wait, SOON_S)
    return subscribing


@contextmanager
def watching_work() -> Iterator[dict[str, int]]:
    """In which threads decisions are made, and applied."""
    loop_thread = threading.get_ident()
    found = {"on the loop": 0, "aside": 0}
    begin, apply = Draft.__init__, durable.apply

    def count() -> None:
        found["on the loop" if threading.get_ident() == loop_thread else "aside"] += 1

    def begin_counted(self: Draft, *given: Any) -> None:
        count()
        begin(self, *given)

    def apply_counted(known: Groups, decision: Decision[object]) -> Any:
        if decision.records:
            count()
        return apply(known, decision)

    with mock.patch.object(Draft, "__init__", begin_counted), mock.patch.object(durable, "apply", apply_counted):
        yield found


async def nothing_is_due(_: GroupMaintenance, held_up: bool = False) -> bool:
    return True


@mock.patch.object(GroupMaintenance, "tick", nothing_is_due)
@in_loop
async def test_what_looks_at_many_partitions_is_done_in_a_thread(log: Log):
    log.create_topic("t", LARGE)
    log.create_topic("few", LARGE - 1)
    async with coordinating(log) as groups:
        await join(groups, "ann")
        await join(groups, "bob")
        with watching_work() as done:
            await groups.subscribe("g", Subscribe("ann", ("t",)))
            assert await poll(groups, "ann") == {}
            await groups.heartbeat("g", Heartbeat("ann"))
            await groups.commit("g", Commit("ann"))
            await groups.subscribe("g", Subscribe("bob", pattern="t"))
            await groups.describe("g")
            await groups.list_groups()
            await groups.leave("g", Leave("bob"))
            log.create_topic("u", 1)
            await groups.topics_changed()
            assert done["on the loop"] == 0
            assert done["aside"] > 10
            await groups.leave("g", Leave("ann"))
            every = tuple(TopicPartition("t", each) for each in range(LARGE))
            await join(groups, "cid", group="h")
            at_once = done["on the loop"]
            await groups.assign("h", Assign("cid", every))
            assert done["on the loop"] == at_once
        check_invariants(group_of(groups, "g"))


@mock.patch.object(GroupMaintenance, "tick", nothing_is_due)
@in_loop
async def test_what_looks_at_few_is_done_at_once(log: Log):
    log.create_topic("t", LARGE)
    log.create_topic("few", LARGE - 1)
    async with coordinating(log) as groups:
        with watching_work() as done:
            await join(groups, "ann", "few")
            assert await poll(groups, "ann") == {}
            await groups.commit("g", Commit("ann"))
            assert done["aside"] == 0
            await join(groups, "bob", "t", group="h")
            at_once = done["on the loop"]
            await groups.commit("h", Commit("bob", {ONE: Commitment(0)}))
            assert done["on the loop"] == at_once + 2, "a single offset, of a group that is large"


@in_loop
async def test_while_an_assignor_computes_its_group_waits_and_all_others_go_on(log: Log):
    log.create_topic("t", 2)
    put(log, "t", 0, b"a")
    with gate() as held:
        async with coordinating(log, custom_assignors=[WAITS]) as groups:
            subscribing = await begin_to_subscribe(groups, held)
            assert held.thread != threading.get_ident()
            await join(groups, "bob", "t", group="fast", auto_offset_reset="earliest")
            assert await poll(groups, "bob", group="fast") == {ONE: [b"a"]}
            groups.heard("slow", "ann")
            beside = [
                asyncio.ensure_future(groups.heartbeat("slow", Heartbeat("ann"))),
                asyncio.ensure_future(poll(groups, "ann", group="slow")),
                asyncio.ensure_future(groups.leave("slow", Leave("ann"))),
                asyncio.ensure_future(groups.list_groups()),
            ]
            await let_others_go_on()
            assert not subscribing.done()
            assert not any(each.done() for each in beside)
            assert not group_of(groups, "slow").holdings
            held.go_on.set()
            await subscribing
            await asyncio.gather(*beside, return_exceptions=True)
            assert not group_of(groups, "slow").members
            check_invariants(group_of(groups, "slow"))


@in_loop
async def test_whoever_stops_waiting_for_a_large_decision_changes_nothing(log: Log):
    log.create_topic("t", 2)
    with gate() as held:
        async with coordinating(log, custom_assignors=[WAITS]) as groups:
            subscribing = await begin_to_subscribe(groups, held)
            subscribing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await subscribing
            held.go_on.set()
            assert len((await groups.assignment("slow", "ann")).reply) == 2
            check_invariants(group_of(groups, "slow"))


@in_loop
async def test_a_large_decision_that_cannot_be_written_is_taken_back(log: Log):
    log.create_topic("t", LARGE)
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        await join(groups, "bob")
        before, refusing = everything(groups), mock.patch.object(log._running.journal, "append", side_effect=refuse)
        with refusing, pytest.raises(StorageRefused):
            await groups.subscribe("g", Subscribe("bob", ("t",)))
        assert everything(groups) == before
        check_invariants(group_of(groups, "g"))
        await groups.subscribe("g", Subscribe("bob", ("t",)))
        check_invariants(group_of(groups, "g"))


@in_loop
async def test_what_was_decided_aside_upon_what_failed_is_decided_anew(log: Log):
    """The failure of another group comes while the assignor computes: that is not stored either, and tried again."""
    log.create_topic("t", 2)
    with gate() as held:
        async with coordinating(log, custom_assignors=[WAITS]) as groups:
            subscribing = await begin_to_subscribe(groups, held)
            with mock.patch.object(log._running.journal, "append", side_effect=refuse):
                failing = asyncio.ensure_future(groups.join("other", Join("cid", parse_options({})[1])))
                await asyncio.to_thread(eventually_failed, groups)
                assert not failing.done(), "nothing is taken back while something rests on it"
            held.go_on.set()
            with pytest.raises(StorageRefused):
                await failing
            await subscribing
            assert held.passed == 2
            assert "other" not in groups._durable.groups.by_name
            check_invariants(group_of(groups, "slow"))


def refuse(*_: object) -> Any:
    raise StorageRefused("the journal", "a test")


def eventually_failed(groups: Coordinator) -> None:
    deadline = threading.Event()
    for _ in range(int(SOON_S * 100)):
        if groups._durable._failed:
            return
        deadline.wait(0.01)
    raise AssertionError("nothing failed")
