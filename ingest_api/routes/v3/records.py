"""Produce by v3: a sequence of JSON objects, with a receipt for each as it becomes durable.

A request with Content-Length is read whole before it is answered, as its client reads only after it has sent all; for
a single object the HTTP status is the result. A request without it is answered while it arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Final

import msgspec

from ingest_api.formats.decode.record_errors import Fault
from ingest_api.routes.v3.context import BAD_REQUEST, CLUSTER, answers, route, takes
from ingest_api.routes.v3.json_objects import JsonObjects
from ingest_api.routes.v3.record_shapes import GivenRecord, Sent, StreamReceipt, read_record
from ingest_api.routes.v3.shapes import View
from ingest_api.routes.v3.storing import Stored, Storing, explain
from ingest_api.web.body_reader import SMALL, ClientGone
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal, try_again
from ingest_api.web.json_bodies import V3_TYPES, check_content_type
from ingest_api.web.producer_headers import refuse_stamp
from ingest_api.web.request import Call, Message, Reply, json_reply
from ingest_api.web.route_spec import Operation

#: Largest object of a request without Content-Length, in bytes.
MOST_STREAMED: Final = 8 * 1024 * 1024
#: Small, so that other tasks run between two pieces.
_PIECE: Final = 32 * 1024
#: Most records that are stored by one append.
_TOGETHER: Final = 500
_NOTHING: Final = "a request has at least one record, as a JSON object"

_decoder: Final = msgspec.json.Decoder(GivenRecord)


class ErrorReceipt(msgspec.Struct, omit_defaults=True):
    """A record is not stored, or nobody knows: `outcome` says which."""

    error_code: int
    message: str
    retriable: bool | None = None
    outcome: str | None = None


class _Records:
    """Handler of the route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._storing = Storing(tier)

    async def produce(self, call: Call, _: View) -> Reply:
        refuse_stamp(call.headers, code=BAD_REQUEST)
        check_content_type(call, V3_TYPES)
        topic = call.path["topic"]
        await self._storing.find(topic)
        if call.header(b"content-length") is None and call.list_header(b"content-encoding") is None:
            objects = JsonObjects(MOST_STREAMED)
            return Reply(200, self._answer(topic, objects, [], self._receive(call, objects)))
        body = await call.body()
        objects, pieces = JsonObjects(len(body)), _pieces(body)
        found = _first(objects, pieces)
        if not found:
            raise Refusal(422, objects.fault or _NOTHING)
        if len(found) == 1 and objects.fault is None:
            return await self._produce_one(topic, found[0])
        return Reply(200, self._answer(topic, objects, found, _one_by_one(pieces)))

    async def _produce_one(self, topic: str, text: bytes) -> Reply:
        (outcome,) = await self._storing.store(topic, [_read(text)])
        if isinstance(outcome, Exception):
            raise outcome
        return json_reply(self._receipt(topic, outcome))

    async def _answer(
        self, topic: str, objects: JsonObjects, found: list[bytes], pieces: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes]:
        any_found = bool(found)
        try:
            async for receipts in self._store(topic, found):
                yield receipts
            async for piece in pieces:
                found = objects.feed(piece)
                any_found = any_found or bool(found)
                async for receipts in self._store(topic, found):
                    yield receipts
                if objects.fault is not None:
                    break
            else:
                objects.end()
        except ClientGone:
            return
        except Refusal as refusal:
            yield _line(explain(refusal))
            return
        if objects.fault is not None or not any_found:
            yield _line(explain(Refusal(422, objects.fault or _NOTHING)))

    async def _store(self, topic: str, found: list[bytes]) -> AsyncGenerator[bytes]:
        for start in range(0, len(found), _TOGETHER):
            outcomes = await self._storing.store(topic, [_read(text) for text in found[start : start + _TOGETHER]])
            yield b"".join(
                _line(explain(each) if isinstance(each, Exception) else self._receipt(topic, each)) for each in outcomes
            )

    def _receipt(self, topic: str, outcome: tuple[Sent, Stored]) -> StreamReceipt:
        sent, (partition, offset, timestamp) = outcome
        cluster = self._tier.log.cluster_id
        return StreamReceipt(cluster, topic, partition, offset, timestamp, sent.key, sent.value, error_code=200)

    async def _receive(self, call: Call, objects: JsonObjects) -> AsyncGenerator[bytes]:
        """Yield pieces as they arrive; a stop of the server ends it, as an endless request would delay the stop."""
        stop = asyncio.create_task(self._tier.closing.wait())
        try:
            more = True
            while more:
                await self._keep(call, objects)
                message = await self._tier.bodies.receive(call, _receive_or_stop(call, stop))
                if message["type"] != "http.request":
                    raise ClientGone
                more = message.get("more_body", False)
                yield message["body"]
        finally:
            stop.cancel()

    async def _keep(self, call: Call, objects: JsonObjects) -> None:
        """Treat a large object as a body, with its memory and deadlines; between objects a stream has no deadline."""
        is_large = objects.held >= SMALL
        if call.at_once is not None:
            call.at_once.part = objects.found if is_large else -1
        if call.room is not None and objects.held < call.room.held:
            self._tier.bodies.release(call)
        if is_large:
            await self._tier.bodies.hold(call, objects.held)


async def _receive_or_stop(call: Call, stop: asyncio.Task[Any]) -> Message:
    receiving = asyncio.ensure_future(call.receive())
    try:
        await asyncio.wait({receiving, stop}, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            return receiving.result()
    finally:
        receiving.cancel()  # no effect on a finished task
    raise try_again("the server is stopping: what follows is not stored", code=50307)


def operations(tier: ServerContext) -> list[Operation]:
    """List the route of this module."""
    receipts = answers({"oneOf": [StreamReceipt, ErrorReceipt]}, "A receipt for each record, one behind the other.")
    records = "One record, or several one behind the other, with or without white space between them."
    return [
        route(
            tier, "POST", CLUSTER + "/topics/{topic}/records", "produce", "Produce records", _Records(tier).produce,
            receipts, takes(GivenRecord, records),
        )
    ]  # fmt: skip


def _read(text: bytes) -> GivenRecord | Exception:
    try:
        return read_record(text, _decoder)
    except Fault as fault:
        return Refusal(422, f"the record: {fault}")


def _first(objects: JsonObjects, pieces: Iterator[bytes]) -> list[bytes]:
    """Find the first objects, more than one if there are: a single object is answered without a stream."""
    found: list[bytes] = []
    for piece in pieces:
        found += objects.feed(piece)
        if len(found) > 1 or objects.fault is not None:
            return found
    objects.end()
    return found


def _pieces(body: bytes) -> Iterator[bytes]:
    return (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))


async def _one_by_one(pieces: Iterator[bytes]) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


def _line(receipt: Any) -> bytes:
    return msgspec.json.encode(receipt) + b"\n"
