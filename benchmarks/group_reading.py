"""What reading with a group costs beside reading by offset."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.driving import run_loop
from benchmarks.group_members import Member
from benchmarks.http_bodies import MEDIA, make_orders
from benchmarks.http_conversation import Conversation
from benchmarks.http_reader import field_of
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.rows import Param, Row, beside, over_turns
from benchmarks.sizes import Size
from benchmarks.topics import fill_topic
from delta_log.log import Log

FORMS: Final = ("binary", "arrow")
_ANSWERS: Final = (1 << 20, 16 << 20)
_VALUE_BYTES: Final = 100
_TOPIC: Final = "orders"
_TIMEOUT_S: Final = 120


def run(place: Path, size: Size) -> Iterator[Row]:
    """Records of 116 bytes with their keys, from files, over one connection.

    `group-reading`: records a second of one member that polls and commits each answer before it polls again, beside
    reading the same partitions by offset in answers of the same size (`max_bytes`).
    """
    orders = make_orders(min(size.pool, size.stored), _VALUE_BYTES, keyed=True)
    with Log.open(place / "root") as log:
        fill_topic(log, _TOPIC, orders, size.stored)
    kinds = [(form, most) for form in FORMS for most in _ANSWERS]
    rates: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    plain: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    with ServerProcess(lakelog_command(place / "root"), place / "server.log") as server:
        with Asker(server.url) as asker:
            ends = asker.end_offsets(_TOPIC)
        for turn in range(size.turns + 1):
            for kind in kinds:
                group = f"turn-{turn}-{kind[0]}-{kind[1]}"
                plain[kind].append(_within(_read(server.url, ends, *kind)))
                rates[kind].append(_within(_poll(server.url, group, sum(ends), *kind)))
    for kind in kinds:
        del rates[kind][:1], plain[kind][:1]  # the first time everything is new
        params: dict[str, Param] = {"form": kind[0], "max_bytes": kind[1], "records": sum(ends)}
        row = over_turns(rates[kind], "records/s", name="group-reading", params=params)
        yield beside(row, "by offset", rates[kind], plain[kind])


def _within(story: Coroutine[Any, Any, float]) -> float:
    return run_loop(lambda: asyncio.wait_for(story, _TIMEOUT_S))


async def _poll(url: str, group: str, count: int, form: str, most: int) -> float:
    """Records a second, until all that there are were delivered and committed."""
    async with Member(url, group, "one") as member:
        await member.join(_TOPIC, auto_offset_reset="earliest")
        began, last = perf_counter(), 0
        while (number := await member.next_number(MEDIA[form], most)) != last:
            last = number
            await member.commit()
        passed = perf_counter() - began
        await _check(member, count)
        await member.leave()
    return count / passed


async def _check(member: Member, count: int) -> None:
    partitions = [{"topic": topic, "partition": partition} for topic, partition in await member.owned()]
    found = await member.call("GET", f"{member.path}/offsets", {"partitions": partitions})
    committed = sum(each["offset"] for each in found["offsets"])
    if committed != count:
        raise RuntimeError(f"of {count} records {committed} were read and committed")


async def _read(url: str, ends: list[int], form: str, most: int) -> float:
    async with Conversation(url) as reader:
        began = perf_counter()
        for partition, end in enumerate(ends):
            offset = 0
            while offset < end:
                path = f"/topics/{_TOPIC}/partitions/{partition}/records?offset={offset}&max_bytes={most}"
                asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {MEDIA[form]}\r\n\r\n"
                head, _ = await reader.answer(asked.encode())
                offset = int(field_of(head, b"lakelog-next-offset"))
        return sum(ends) / (perf_counter() - began)
