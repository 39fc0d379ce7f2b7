"""From producing a record to its arrival at a reader who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.driving import run_loop
from benchmarks.http_bodies import EVENTS, NDJSON, make_requests
from benchmarks.http_conversation import Conversation
from benchmarks.http_generator import wrap_requests
from benchmarks.http_reader import field_of
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.rows import Row, Target, beside, judge, over_turns, percentile
from benchmarks.sizes import Size

KINDS: Final = ("long-poll", "events")
_EVERY_S: Final = 0.005
#: Records that go before those that count.
_WARM: Final = 10
_TIMEOUT_S: Final = 60
_VALUE_BYTES: Final = 100
DELIVERY: Final = (Target("p50", "<=", 3.0), Target("p99", "<=", 20.0))


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Milliseconds from sending each request: to its answer, and to the record at the reader."""

    acknowledged: list[float]
    delivered: list[float]


def run(place: Path, size: Size) -> Iterator[Row]:
    """One producer sends 200 records a second, one a request, to a topic of one partition; one reader waits for them.

    `http-delivery`: from sending a request to the arrival of its record, beside the arrival of the answer to the
    producer. By `long-poll` the reader asks again when it was answered; by `events` it follows a stream.
    """
    seen: dict[str, list[Deliveries]] = {kind: [] for kind in KINDS}
    with ServerProcess(lakelog_command(place / "root"), place / "server.log") as server:
        for _ in range(size.turns):
            for kind, turns in seen.items():
                turns.append(watch(server.url, kind, size.deliveries))
    for kind, turns in seen.items():
        p50s = [percentile(turn.delivered, 0.5) for turn in turns]
        row = over_turns(p50s, "ms", name="http-delivery", params={"by": kind, "records": size.deliveries})
        row.p50, row.p99 = row.value, median(percentile(turn.delivered, 0.99) for turn in turns)
        row.also["p99.9 ms"] = median(percentile(turn.delivered, 0.999) for turn in turns)
        acknowledged = [percentile(turn.acknowledged, 0.5) for turn in turns]
        yield judge(beside(row, "its acknowledgement", p50s, acknowledged), *DELIVERY)


def watch(url: str, kind: str, count: int) -> Deliveries:
    """On a topic of its own."""
    topic = f"delivered-{kind}"
    with Asker(url) as asker:
        asker.create_topic(topic, 1)
        try:
            return run_loop(lambda: asyncio.wait_for(_watch(url, topic, kind, count + _WARM), _TIMEOUT_S))
        finally:
            asker.delete_topic(topic)


async def _watch(url: str, topic: str, kind: str, count: int) -> Deliveries:
    sent, acknowledged, delivered = ([0.0] * count for _ in range(3))
    path = f"/topics/{topic}/partitions/0/records"
    read = {"long-poll": _poll, "events": _follow}[kind]
    async with Conversation(url) as reader, Conversation(url) as producer:
        reading = asyncio.create_task(read(reader, path, delivered))
        await _produce(producer, f"{url}/topics/{topic}", sent, acknowledged)
        await reading
    return Deliveries(_milliseconds(sent, acknowledged), _milliseconds(sent, delivered))


def _milliseconds(sent: list[float], came: list[float]) -> list[float]:
    return [(end - start) * 1000 for start, end in zip(sent, came, strict=True)][_WARM:]


async def _produce(producer: Conversation, url: str, sent: list[float], acknowledged: list[float]) -> None:
    """One at a time, so that the n-th record has offset n."""
    requests = wrap_requests(url, make_requests("binary", 1, _VALUE_BYTES, keyed=False, most=len(sent)))
    began = perf_counter()
    for place in range(len(sent)):
        await asyncio.sleep(max(0.0, began + place * _EVERY_S - perf_counter()))
        sent[place] = perf_counter()
        await producer.answer(requests[place % len(requests)])
        acknowledged[place] = perf_counter()


async def _poll(reader: Conversation, path: str, delivered: list[float]) -> None:
    offset = 0
    while offset < len(delivered):
        asked = f"GET {path}?offset={offset}&timeout=30000 HTTP/1.1\r\nHost: localhost\r\nAccept: {NDJSON}\r\n\r\n"
        head, _ = await reader.answer(asked.encode())
        now, following = perf_counter(), int(field_of(head, b"lakelog-next-offset"))
        delivered[offset:following] = [now] * (following - offset)
        offset = following


async def _follow(reader: Conversation, path: str, delivered: list[float]) -> None:
    await reader.ask(f"GET {path}?offset=0 HTTP/1.1\r\nHost: localhost\r\nAccept: {EVENTS}\r\n\r\n".encode())
    offset, got = 0, b""
    async for chunk in reader.chunks():
        now = perf_counter()
        *events, got = (got + chunk).split(b"\n\n")
        for event in events:
            if b"\ndata:" in event:
                if not event.startswith(b"id: 0:%d\n" % (offset + 1)):
                    raise RuntimeError(f"offset {offset} was expected, and {event!r} came")
                delivered[offset] = now
                offset += 1
        if offset == len(delivered):
            return
    raise ConnectionError("the server ended a stream of events")
