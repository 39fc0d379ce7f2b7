"""A client that follows a topic by server-sent events, and what it was sent."""

from __future__ import annotations

import json
from typing import Self

from delta_log import Record
from tests.support.asgi_call import AsgiCall, events_of
from tests.support.http_app import HttpApp

ALL = "/topics/orders/records"
EVENTS = {"accept": "text/event-stream"}


class Stream:
    """A client that follows: what it was sent, and the id that it would come back with."""

    def __init__(self, app: HttpApp, path: str, last_id: str | None = None) -> None:
        resume = {} if last_id is None else {"last-event-id": last_id}
        self.call = AsgiCall(app.asgi, "GET", path, headers=EVENTS | resume)
        self.text = b""

    async def __aenter__(self) -> Self:
        await self.call.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.call.__aexit__(None, None, None)

    @property
    def events(self) -> list[dict[str, str]]:
        return events_of(self.text)

    @property
    def last_id(self) -> str:
        ids = [line[4:] for line in self.text.decode().split("\n") if line.startswith("id: ")]
        return ids[-1]

    @property
    def places(self) -> list[tuple[int, int]]:
        records = [json.loads(event["data"]) for event in self.events]
        return [(record["partition"], record["offset"]) for record in records]

    async def until(self, count: int) -> None:
        """Read until there are so many events."""
        while len(self.events) < count:
            piece = await self.call.piece()
            assert piece is not None, f"it ended after {self.text.decode()}"
            self.text += piece

    async def begun(self) -> None:
        while b"id: " not in self.text:
            self.text += await self.call.piece() or b""

    async def to_the_end(self) -> None:
        self.text += await self.call.body()


async def append(app: HttpApp, partition: int, *given: bytes, topic: str = "orders") -> None:
    await app.log.append_async(topic, [Record(each, partition=partition) for each in given])
