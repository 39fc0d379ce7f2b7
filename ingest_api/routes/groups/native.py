"""lakelog's own routes of groups: list, describe, read, set and reset offsets, delete.

They act for no member, so changes are refused while members read.
"""

from __future__ import annotations

from consumer_groups.coordinator.topic_watch import LogOffsets
from consumer_groups.decisions.admin import GroupDescription
from consumer_groups.decisions.commits import Commitment
from consumer_groups.decisions.lag import measure_progress
from ingest_api.routes.groups.native_reset import check_reset, find_targets, partitions_of
from ingest_api.routes.groups.native_shapes import (
    CommittedList,
    GroupList,
    GroupView,
    PutOffsets,
    ResetRequest,
    ResetView,
    show_committed,
    show_group,
    show_reset,
    show_summary,
)
from ingest_api.routes.topics.shapes import answers, takes
from ingest_api.web.context import ServerContext
from ingest_api.web.json_bodies import read_json
from ingest_api.web.negotiation import plain_media_type
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation, ResponseSpec


class _Groups:
    """Every method is one route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._offsets = LogOffsets(tier.log)

    async def list(self, call: Call) -> Reply:
        media = _prepare(call)
        groups = [show_summary(each) for each in await self._tier.groups.list_groups()]
        return json_reply(GroupList(groups), content_type=media)

    async def describe(self, call: Call) -> Reply:
        media = _prepare(call)
        described = await self._describe(call)

        def measure_and_show() -> Reply:
            partitions = measure_progress(described.progress, self._offsets)
            return json_reply(show_group(described, partitions), content_type=media)

        return await self._tier.in_thread(measure_and_show)

    async def offsets(self, call: Call) -> Reply:
        media = _prepare(call)
        committed = (await self._describe(call)).committed
        return await self._tier.show(len(committed), lambda: json_reply(show_committed(committed), content_type=media))

    async def put_offsets(self, call: Call) -> Reply:
        _prepare(call)
        given = (await read_json(call, PutOffsets)).offsets
        committed = [Commitment(each.next_offset, each.metadata or "") for each in given]
        wanted = dict(zip(partitions_of(given), committed, strict=True))
        await self._tier.in_time(self._tier.groups.put_offsets(call.path["group"], wanted))
        return Reply(204)

    async def reset(self, call: Call) -> Reply:
        media = _prepare(call)
        asked = await read_json(call, ResetRequest)
        check_reset(asked)
        group, described = call.path["group"], await self._describe(call)
        targets = await self._tier.in_thread(find_targets, self._tier.log, asked, described)
        answer = await self._tier.in_time(self._tier.groups.reset(group, targets, dry_run=asked.dry_run))
        return json_reply(show_reset(group, answer.reply, dry_run=asked.dry_run), content_type=media)

    async def delete(self, call: Call) -> Reply:
        _prepare(call)
        await self._tier.in_time(self._tier.groups.delete(call.path["group"]))
        return Reply(204)

    async def _describe(self, call: Call) -> GroupDescription:
        return (await self._tier.in_time(self._tier.groups.describe(call.path["group"]))).reply


def operations(tier: ServerContext) -> list[Operation]:
    """The routes of this module."""
    of = _Groups(tier)
    group, offsets = "/groups/{group}", "/groups/{group}/offsets"
    return [
        Operation(
            "GET", "/groups", "list_groups", "List the groups", of.list, "groups",
            (answers(GroupList, "The groups by name."),), reads=True,
        ),
        Operation(
            "GET", group, "describe_group", "Describe a group", of.describe, "groups",
            (answers(GroupView, "Its members, and how far it is in each partition that it reads or has read."),),
            error_statuses=(404,), reads=True,
        ),
        Operation(
            "DELETE", group, "delete_group", "Delete a group", of.delete, "groups",
            (ResponseSpec(204, "The group and its offsets are gone."),), error_statuses=(404, 409),
            doc="Refused while it has members.",
        ),
        Operation(
            "GET", offsets, "get_group_offsets", "What a group has committed", of.offsets, "groups",
            (answers(CommittedList, "Every partition of which something is committed."),), error_statuses=(404,),
            reads=True,
        ),
        Operation(
            "PUT", offsets, "put_group_offsets", "Set offsets of a group", of.put_offsets, "groups",
            (ResponseSpec(204, "All of them are stored."),), body=takes(PutOffsets), error_statuses=(404, 409),
            doc="All or none, as they are given, and inside the log; other partitions stay as they are. A group that is"
            " not there comes to be. Refused while members read.",
        ),
        Operation(
            "POST", f"{offsets}:reset", "reset_group_offsets", "Reset offsets of a group", of.reset, "groups",
            (answers(ResetView, "Each partition, before and after; with `dry_run` nothing is stored."),),
            body=takes(ResetRequest), error_statuses=(404, 409),
            doc="All or none. What lies outside of the log is moved to its nearer end; a time behind the last record is"
            " the end. Refused while members read.",
        ),
    ]  # fmt: skip


def _prepare(call: Call) -> bytes:
    """First step of every route here: checks the request; returns the content type of the answer."""
    call.query(())
    return plain_media_type(call.list_header(b"accept"))
