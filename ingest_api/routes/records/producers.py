"""Assigns ids to idempotent producers that do not choose their own."""

from __future__ import annotations

import msgspec

from ingest_api.routes.topics.shapes import takes
from ingest_api.web.context import ServerContext
from ingest_api.web.json_bodies import check_accepts_json, read_json_or
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Content, Operation, ResponseSpec


class ProducerRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """With a `transactional_id` the same producer is met again: its epoch goes up, and the older holder is fenced."""

    transactional_id: str | None = None


class ProducerView(msgspec.Struct):
    """What the request headers Producer-Id and Producer-Epoch say from now on; Producer-Seq begins at 0."""

    producer_id: str
    epoch: int


def operations(tier: ServerContext) -> list[Operation]:
    """List the route of this module."""

    async def init_producer(call: Call) -> Reply:
        call.query(())
        check_accepts_json(call)
        wanted = await read_json_or(call, ProducerRequest, ProducerRequest())
        identity = await tier.in_thread(tier.log.init_producer, wanted.transactional_id)
        return json_reply(ProducerView(identity.producer_id, identity.epoch))

    return [
        Operation(
            "POST",
            "/producers",
            "init_producer",
            "Hand out an id for an idempotent producer",
            init_producer,
            "produce",
            (ResponseSpec(200, "The id, and its epoch.", Content({"application/json": ProducerView})),),
            body=takes(ProducerRequest, required=False),
        )
    ]
