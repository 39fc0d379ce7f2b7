"""v2's consumer instances: creation, deletion, subscription, assignment and heartbeat."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from consumer_groups.coordinator.coordinator import Answer
from consumer_groups.decisions.membership import Heartbeat, Join, Leave
from consumer_groups.decisions.subscription import Assign, Subscribe, Unsubscribe
from consumer_groups.model.assignment import TopicPartition, in_order
from consumer_groups.model.options import OPTIONS, SPELLINGS, Options, parse_options
from ingest_api.routes.groups.instance import (
    DONE,
    INSTANCE,
    SAYS_GENERATION,
    InTime,
    done_by,
    generation_header,
    of_instance,
    who_asks,
)
from ingest_api.routes.groups.instance_shapes import (
    BODY_TYPES,
    AssignmentsView,
    HeartbeatRequest,
    HeartbeatView,
    InstanceView,
    PartitionRefs,
    SubscriptionRequest,
    SubscriptionView,
    show_partitions,
    takes,
)
from ingest_api.routes.topics.shapes import answers
from ingest_api.web.context import ServerContext
from ingest_api.web.forwarded import address_of
from ingest_api.web.json_bodies import read_json, read_json_or
from ingest_api.web.negotiation import plain_media_type
from ingest_api.web.parameters import Flag, Parameter
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation, ResponseSpec

FOR_GOOD: Final = Parameter(
    "for_good", Flag(), "Of a static member: it does not come back, so others have its partitions at once.",
    default=False,
)  # fmt: skip
FAILED: Final = Parameter(
    "failed", Flag(), "What it was given and did not come back from was tried in vain, and is not committed.",
    default=False,
)  # fmt: skip
#: Options in JSON: their values may be strings.
_OPTIONS: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        name: {"description": f"{option.doc[:1].upper()}{option.doc[1:]}: {option.rule}."}
        for name, option in (*OPTIONS.items(), *((other, OPTIONS[name]) for other, name in SPELLINGS.items()))
    },
}
_MOST_CLIENT_ID: Final = 255
_OUR_CLIENT: Final = re.compile(r" lakelog/[0-9A-Za-z.+]+$")


class Instances:
    """Every method is one route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._in_time = InTime(tier)

    async def create(self, call: Call) -> Reply:
        call.query(())
        media = plain_media_type(call.list_header(b"accept"))
        given = await read_json_or(call, dict[str, object], {}, types=BODY_TYPES)
        name, options = await self._parse(given)
        group, groups = call.path["group"], self._tier.groups
        command = Join(name or groups.new_member_id(), options, _client_id(call))
        answer = await self._in_time(groups.join(group, command))
        member_id = answer.reply.member_id
        path = INSTANCE.format(group=quote(group, safe=""), instance=quote(member_id, safe=""))
        view = InstanceView(member_id, address_of(call.scope, self._tier.settings.trusted_proxies).base + path)
        return json_reply(view, content_type=media, headers=[generation_header(answer.generation)])

    async def delete(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        query = call.query((FOR_GOOD, FAILED))
        command = Leave(who.member_id, query["for_good"], who.generation, who.received, query["failed"], done_by(call))
        return done(await self._in_time(self._tier.groups.leave(who.group, command)))

    async def subscribe(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        call.query(())
        given = await read_json(call, SubscriptionRequest, types=BODY_TYPES)
        command = Subscribe(who.member_id, tuple(given.topics or ()), given.topic_pattern, who.generation, who.received)
        return done(await self._in_time(self._tier.groups.subscribe(who.group, command)))

    async def subscription(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        media = _prepare(call)
        await self._in_time(self._tier.groups.check(who.group, who.member_id, who.generation))
        answer = await self._in_time(self._tier.groups.subscription(who.group, who.member_id))
        return told(SubscriptionView(list(answer.reply)), answer.generation, media)

    async def unsubscribe(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        call.query(())
        return done(await self._in_time(self._tier.groups.unsubscribe(who.group, Unsubscribe(*who[1:]))))

    async def assign(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        call.query(())
        given = await read_json(call, PartitionRefs, types=BODY_TYPES)
        partitions = tuple(each.named for each in given.partitions)
        command = Assign(who.member_id, partitions, *who[2:])
        return done(await self._in_time(self._tier.groups.assign(who.group, command)))

    async def assignments(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        media = _prepare(call)
        await self._in_time(self._tier.groups.check(who.group, who.member_id, who.generation))
        answer = await self._in_time(self._tier.groups.assignment(who.group, who.member_id))
        partitions = answer.reply
        return await self._tier.show(
            len(partitions), lambda: told(AssignmentsView(show_partitions(partitions)), answer.generation, media)
        )

    async def heartbeat(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        media = _prepare(call)
        given = (await read_json_or(call, HeartbeatRequest, HeartbeatRequest(), types=BODY_TYPES)).owned
        owned = frozenset(each.named for each in given) if isinstance(given, list) else None
        command = Heartbeat(who.member_id, who.generation, owned)
        answer = await self._in_time(self._tier.groups.heartbeat(who.group, command))
        beaten = answer.reply

        def show() -> Reply:
            since: dict[str, dict[str, int]] = {}
            for topic, partition in in_order(beaten.since):
                since.setdefault(topic, {})[str(partition)] = beaten.since[TopicPartition(topic, partition)]
            assigned, revoking = show_partitions(beaten.assigned), show_partitions(beaten.revoking)
            return told(HeartbeatView(answer.generation, assigned, revoking, since), answer.generation, media)

        return await self._tier.show(len(beaten.assigned) + len(beaten.revoking), show)

    async def _parse(self, given: dict[str, object]) -> tuple[str | None, Options]:
        """Parse options; in a thread if assignor functions are configured, as a named one may be imported."""
        custom = self._tier.settings.assignors
        if custom:
            return await self._tier.in_thread(parse_options, given, custom=custom)
        return parse_options(given)

    def operations(self) -> list[Operation]:
        return [self._creation(), *map(of_instance, (*self._life(), *self._readings()))]

    def _creation(self) -> Operation:
        created = answers(InstanceView, "The instance, and where it is.")
        return Operation(
            "POST", "/consumers/{group}", "create_consumer", "Create a consumer instance", self.create, "consumers",
            (ResponseSpec(200, created.doc, created.content, SAYS_GENERATION),),
            body=takes(_OPTIONS, required=False, doc="Options, under Kafka's names."), error_statuses=(409,),
        )  # fmt: skip

    def _life(self) -> tuple[Operation, ...]:
        return (
            Operation(
                "DELETE", "", "delete_consumer", "Delete a consumer instance", self.delete, "consumers",
                (ResponseSpec(204, "It is gone, and others have its partitions; a static member may come back."),),
                (FOR_GOOD, FAILED, DONE),
            ),
            Operation(
                "POST", "/heartbeat", "heartbeat", "Say that a consumer instance lives", self.heartbeat, "consumers",
                (answers(HeartbeatView, "What it may read, and what it has to give up."),),
                body=takes(HeartbeatRequest, required=False),
                doc="Any request on an instance says that it lives. What it has to give up moves, but for what `owned`"
                " says that it still holds.",
            ),
        )  # fmt: skip

    def _readings(self) -> tuple[Operation, ...]:
        subscription, assignments = "/subscription", "/assignments"
        return (
            Operation(
                "POST", subscription, "subscribe", "Subscribe with the group", self.subscribe, "consumers",
                (ResponseSpec(204, "It is subscribed to these, and to nothing else."),),
                body=takes(SubscriptionRequest),
            ),
            Operation(
                "GET", subscription, "get_subscription", "What an instance is subscribed to", self.subscription,
                "consumers", (answers(SubscriptionView, "The topics; of a pattern those that match it now."),),
            ),
            Operation(
                "DELETE", subscription, "unsubscribe", "Unsubscribe", self.unsubscribe, "consumers",
                (ResponseSpec(204, "It reads nothing: no topics, no pattern, no assignment."),),
            ),
            Operation(
                "POST", assignments, "assign", "Read partitions of one's own choice", self.assign, "consumers",
                (ResponseSpec(204, "It reads these, whoever else does, and nothing else."),), body=takes(PartitionRefs),
            ),
            Operation(
                "GET", assignments, "get_assignments", "What an instance may read", self.assignments, "consumers",
                (answers(AssignmentsView, "Its partitions, whoever assigned them."),),
            ),
        )  # fmt: skip


def done(answer: Answer[object]) -> Reply:
    return Reply(204, headers=[generation_header(answer.generation)])


def told(view: object, generation: int, media: bytes) -> Reply:
    return json_reply(view, content_type=media, headers=[generation_header(generation)])


def _prepare(call: Call) -> bytes:
    """Refuse query parameters; returns the content type of the answer."""
    call.query(())
    return plain_media_type(call.list_header(b"accept"))


def _client_id(call: Call) -> str:
    """Client id shown to operators: its `User-Agent`; for lakelog's clients the part that is `client.id`."""
    given = (call.list_header(b"user-agent") or b"").decode("latin-1")
    return "".join(each for each in _OUR_CLIENT.sub("", given)[:_MOST_CLIENT_ID] if each.isprintable())
