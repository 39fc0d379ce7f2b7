"""Consumer groups: their members, the assignments of members, and the lag of the group."""

from __future__ import annotations

from consumer_groups.coordinator.topic_watch import LogOffsets
from consumer_groups.decisions.admin import GroupDescription, MemberDescription
from consumer_groups.decisions.lag import measure_progress
from consumer_groups.model.assignment import TopicPartition, in_order
from delta_log.model.quoting import quoted
from ingest_api.routes.v3.context import CLUSTER, answers, reading
from ingest_api.routes.v3.group_shapes import (
    Consumer,
    ConsumerAssignment,
    ConsumerGroup,
    ConsumerGroupLagSummary,
    ConsumerLag,
    GroupResources,
)
from ingest_api.routes.v3.shapes import Listed, View
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import PATH_KINDS, Operation


class _Groups:
    """Handlers: each public method is a route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._offsets = LogOffsets(tier.log)

    async def list(self, _: Call, view: View) -> Reply:
        summaries = await self._tier.groups.list_groups()
        data = [GroupResources(view, each.group).group(each) for each in summaries]
        return json_reply(view.listed("KafkaConsumerGroup", "/consumer-groups", data))

    async def describe(self, call: Call, view: View) -> Reply:
        described = await self._describe(call)
        return json_reply(GroupResources(view, described.summary.group).group(described.summary))

    async def consumers(self, call: Call, view: View) -> Reply:
        described = await self._describe(call)
        return json_reply(
            GroupResources(view, described.summary.group).consumers([each.member for each in described.members])
        )

    async def consumer(self, call: Call, view: View) -> Reply:
        described = await self._describe(call)
        return json_reply(GroupResources(view, described.summary.group).consumer(_member(call, described).member))

    async def assignments(self, call: Call, view: View) -> Reply:
        described = await self._describe(call)
        found, of = _member(call, described), GroupResources(view, described.summary.group)
        many = len(found.assigned) + len(found.revoking)
        return await self._tier.show(many, lambda: json_reply(of.assignments(found.member.member_id, _owned(found))))

    async def assignment(self, call: Call, view: View) -> Reply:
        described = await self._describe(call)
        found, partition = _member(call, described), _partition(call)
        if partition is None or partition not in _owned(found):
            raise Refusal(404, f"{_shown(call, 'topic')} partition {_shown(call, 'partition')} is not assigned to it")
        return json_reply(GroupResources(view, described.summary.group).assignment(found.member.member_id, partition))

    async def lags(self, call: Call, view: View) -> Reply:
        lags = await self._lags(call, view)
        return await self._tier.show(len(lags.data), lambda: json_reply(lags))

    async def lag(self, call: Call, view: View) -> Reply:
        partition = _partition(call)
        found = [lag for lag in (await self._lags(call, view)).data if (lag.topic_name, lag.partition_id) == partition]
        if not found:
            raise Refusal(404, f"nothing is committed of {_shown(call, 'topic')} partition {_shown(call, 'partition')}")
        return json_reply(found[0])

    async def lag_summary(self, call: Call, view: View) -> Reply:
        lags = (await self._lags(call, view)).data
        return json_reply(GroupResources(view, call.path["group"]).lag_summary(lags))

    async def _describe(self, call: Call) -> GroupDescription:
        return (await self._tier.in_time(self._tier.groups.describe(call.path["group"]))).reply

    async def _lags(self, call: Call, view: View) -> Listed[ConsumerLag]:
        """Measure the lags; 404 if there is none, as in Confluent's proxy."""
        described = await self._describe(call)
        members = {each.member.member_id: each.member for each in described.members}

        def measure() -> Listed[ConsumerLag]:
            partitions = measure_progress(described.progress, self._offsets)
            return GroupResources(view, described.summary.group).lags(partitions, members)

        listed = await self._tier.in_thread(measure)
        if not listed.data:
            raise Refusal(404, f"group {_shown(call, 'group')} has committed nothing")
        return listed


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""
    of = _Groups(tier)
    every = f"{CLUSTER}/consumer-groups"
    one = every + "/{group}"
    consumer = one + "/consumers/{consumer}"
    at = "/{topic}/partitions/{partition}"
    return [
        reading(
            tier, every, "list_consumer_groups", "List the consumer groups", of.list,
            answers(Listed[ConsumerGroup], "The groups by name."),
        ),
        reading(
            tier, one, "describe_consumer_group", "Describe a consumer group", of.describe,
            answers(ConsumerGroup, "The group."),
        ),
        reading(
            tier, f"{one}/consumers", "list_consumers", "List the members of a group", of.consumers,
            answers(Listed[Consumer], "The members by their ids."),
        ),
        reading(
            tier, consumer, "describe_consumer", "Describe a member of a group", of.consumer,
            answers(Consumer, "The member."),
        ),
        reading(
            tier, f"{consumer}/assignments", "list_assignments", "List what a member reads", of.assignments,
            answers(Listed[ConsumerAssignment], "Its partitions, those that it is to give up among them."),
        ),
        reading(
            tier, f"{consumer}/assignments{at}", "describe_assignment", "Describe one thing that a member reads",
            of.assignment, answers(ConsumerAssignment, "The partition is the member's."),
        ),
        reading(
            tier, f"{one}/lags", "list_lags", "List how far behind a group is", of.lags,
            answers(Listed[ConsumerLag], "Every partition of which something is committed, the largest lag first."),
        ),
        reading(
            tier, f"{one}/lags{at}", "describe_lag", "How far behind a group is in one partition", of.lag,
            answers(ConsumerLag, "The lag."),
        ),
        reading(
            tier, f"{one}/lag-summary", "summarize_lag", "How far behind a group is altogether", of.lag_summary,
            answers(ConsumerGroupLagSummary, "The sum of all lags, and the largest one."),
        ),
    ]  # fmt: skip


def _member(call: Call, described: GroupDescription) -> MemberDescription:
    wanted = call.path["consumer"]
    found = next((each for each in described.members if each.member.member_id == wanted), None)
    if found is None:
        raise Refusal(404, f"group {_shown(call, 'group')} has no member {_shown(call, 'consumer')}")
    return found


def _owned(found: MemberDescription) -> list[TopicPartition]:
    return in_order((*found.assigned, *found.revoking))


def _partition(call: Call) -> TopicPartition | None:
    """Return the partition of a path; None if its number is invalid, as then there is none."""
    number: int | None = PATH_KINDS["partition"][0].parse(call.path["partition"])
    return None if number is None else TopicPartition(call.path["topic"], number)


def _shown(call: Call, name: str) -> str:
    return quoted(call.path[name])
