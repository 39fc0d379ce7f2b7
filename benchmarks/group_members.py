"""Members of consumer groups as the benchmarks play them: raw requests over one connection each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.http_bodies import BINARY
from benchmarks.http_conversation import Conversation
from benchmarks.http_reader import field_of

V2: Final = "application/vnd.kafka.v2+json"


class Member(Conversation):
    """One instance of a group; it joins by itself when it is asked to."""

    def __init__(self, url: str, group: str, name: str) -> None:
        super().__init__(url)
        self.name = name
        self._group = f"/consumers/{group}"
        self.path = f"{self._group}/instances/{name}"

    async def join(self, topic: str, **options: object) -> None:
        """Be a member that reads the topic."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        await self.call("POST", self._group, {"name": self.name, "auto.commit.enable": "false", **given})
        await self.call("POST", f"{self.path}/subscription", {"topics": [topic]})

    async def read_all(self) -> None:
        """Be a member that reads every topic, from its beginning."""
        options = {"auto.commit.enable": "false", "auto.offset.reset": "earliest"}
        await self.call("POST", self._group, {"name": self.name, **options})
        await self.call("POST", f"{self.path}/subscription", {"topic_pattern": ".*"})

    async def leave(self) -> None:
        await self.call("DELETE", self.path)

    async def poll(self, timeout_ms: int) -> bytes:
        """The body of an answer."""
        return (await self.answer(self._asking(timeout_ms, BINARY, 1 << 20)))[1]

    async def next_number(self, accept: str, most: int) -> int:
        """Poll without waiting; the number of the answer is that of the one before where there was nothing more."""
        head, _ = await self.answer(self._asking(0, accept, most))
        return int(field_of(head, b"lakelog-answer"))

    def _asking(self, timeout_ms: int, accept: str, most: int) -> bytes:
        query = f"timeout={timeout_ms}&max_bytes={most}"
        return f"GET {self.path}/records?{query} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode()

    async def commit(self) -> None:
        """What was delivered."""
        await self.call("POST", f"{self.path}/offsets")

    async def owned(self) -> list[tuple[str, int]]:
        found = await self.call("GET", f"{self.path}/assignments")
        return [(each["topic"], each["partition"]) for each in found["partitions"]]

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {V2}\r\nContent-Type: {V2}\r\n"
        _, answer = await self.answer(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return json.loads(answer) if answer else None
