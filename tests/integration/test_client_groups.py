"""The admin of groups, in threads and in tasks, against the real app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelog import Admin, AsyncAdmin, GroupListing, OffsetAndMetadata, OffsetReset, TopicPartition
from lakelog.foundation import errors
from lakelog.transport.exchange import Answer, Outcome, Request
from tests.support.client_wire import SETTINGS
from tests.support.group_calls import HOSTILE, commit, join, leave, orders
from tests.support.http_app import HttpApp

Ask = Callable[..., Any]
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class AppTransport:
    """To an app in this process."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app

    def send(self, request: Request) -> Outcome:
        given = self._app.request(request.method, request.path, content=request.body, headers=dict(request.headers))
        return Answer(given.status_code, given.headers, given.content)

    def close(self) -> None: ...


class AsyncAppTransport:
    def __init__(self, app: HttpApp) -> None:
        self._app = app

    async def send(self, request: Request) -> Outcome:
        given = await self._app.client.request(
            request.method, request.path, content=request.body, headers=dict(request.headers)
        )
        return Answer(given.status_code, given.headers, given.content)

    async def close(self) -> None: ...


@pytest.fixture(params=["threads", "tasks"])
def ask(request: pytest.FixtureRequest, app: HttpApp) -> Ask:
    """`ask("lag", "g")` calls that method of an admin."""

    def by_tasks(name: str, *args: Any, **more: Any) -> Any:
        async def within() -> Any:
            async with AsyncAdmin(SETTINGS, transport=AsyncAppTransport(app)) as admin:
                return await getattr(admin, name)(*args, **more)

        return app.run(within())

    def by_threads(name: str, *args: Any, **more: Any) -> Any:
        with Admin(SETTINGS, transport=AppTransport(app)) as admin:
            return getattr(admin, name)(*args, **more)

    return by_threads if request.param == "threads" else by_tasks


def test_groups_are_listed_and_described(app: HttpApp, ask: Ask):
    orders(app)
    join(app, "billing", "one", "orders", client_id="till 7", group_instance_id="static")
    commit(app, "billing", "one", "note", p0=4)
    assert ask("list_groups") == [GroupListing("billing", "Stable", 1, "range", 1)]
    described = ask("describe_group", "billing")
    assert described[:5] == ("billing", "Stable", 1, "range", 16)
    (member,) = described.members
    assert (member.instance_id, member.client_id, member.group_instance_id) == ("one", "till 7", "static")
    assert (member.topics, member.assigned, member.revoking) == (("orders",), (P0, P1), ())
    first = described.partitions[P0]
    assert (first.owner, first.next_offset, first.log_start_offset, first.end_offset) == ("one", 4, 0, 10)
    assert (first.lag, first.metadata) == (6, "note")
    assert described.partitions[P1].next_offset is None
    assert ask("lag", "billing") == {P0: 6, P1: 10}


def test_a_lag_that_is_not_known_is_none(app: HttpApp, ask: Ask):
    orders(app, partitions=1)
    join(app, "g", "one", "orders", auto_offset_reset="none")
    assert ask("lag", "g") == {P0: None}


def test_offsets_are_set_read_and_reset(app: HttpApp, ask: Ask):
    orders(app)
    ask("alter_group_offsets", "g", {P0: 3, ("orders", 1): OffsetAndMetadata(5, "note")})
    assert ask("group_offsets", "g") == {P0: OffsetAndMetadata(3), P1: OffsetAndMetadata(5, "note")}
    assert ask("reset_group_offsets", "g", shift=2, dry_run=True) == {P0: OffsetReset(3, 5), P1: OffsetReset(5, 7)}
    assert ask("reset_group_offsets", "g", to="latest", partitions=[P1]) == {P1: OffsetReset(5, 10)}
    assert ask("reset_group_offsets", "g", timestamp=1002, topics=["orders"]) == {
        P0: OffsetReset(3, 2),
        P1: OffsetReset(10, 2),
    }
    assert ask("lag", "g") == {P0: 8, P1: 8}
    ask("delete_group", "g")
    with pytest.raises(errors.UnknownGroup):
        ask("describe_group", "g")


def test_what_is_refused_is_an_error_of_its_kind(app: HttpApp, ask: Ask):
    orders(app)
    join(app, "g", "one", "orders")
    for call in (
        ("alter_group_offsets", "g", {P0: 3}),
        ("delete_group", "g"),
    ):
        with pytest.raises(errors.GroupNotEmpty, match="active members"):
            ask(*call)
    leave(app, "g", "one")
    with pytest.raises(errors.OffsetOutOfRange):
        ask("alter_group_offsets", "g", {P0: 11})
    with pytest.raises(errors.UnknownTopic):
        ask("alter_group_offsets", "g", {("none", 0): 1})
    with pytest.raises(errors.UnknownPartition):
        ask("alter_group_offsets", "g", {("orders", 2): 1})
    with pytest.raises(errors.UnknownGroup):
        ask("reset_group_offsets", "none", to="latest")
    for wrong in ({}, {"to": "latest", "offset": 1}, {"to": "beginning"}, {"offset": -1}, {"offset": 2**70}):
        with pytest.raises(errors.Refused) as refused:
            ask("reset_group_offsets", "g", **wrong)
        assert refused.value.said is not None
        assert refused.value.said.status == 422


@pytest.mark.parametrize("group", HOSTILE)
def test_a_group_with_any_name_can_be_administered(app: HttpApp, ask: Ask, group: str):
    orders(app, partitions=1)
    ask("alter_group_offsets", group, {P0: 3})
    assert [each.group for each in ask("list_groups")] == [group]
    assert ask("describe_group", group).group == group
    assert ask("lag", group) == {P0: 7}
    ask("delete_group", group)
    assert ask("list_groups") == []
