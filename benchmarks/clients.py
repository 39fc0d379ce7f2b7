"""The Producer and the Consumer as a program uses them, against a server beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.http_bodies import make_orders
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.processes import run_fresh
from benchmarks.rows import Param, Row, Target, judge, over_turns, percentile
from benchmarks.sizes import Size
from benchmarks.topics import fill_topic
from delta_log.log import Log

_TOPIC: Final = "orders"
_VALUE_BYTES: Final = 100
_SINGLY: Final = 200
_BATCH: Final = 1 << 20
_KAFKAS_BATCH: Final = 16_384
PRODUCER: Final = Target("value", ">=", 150_000)
CONSUMER: Final = Target("value", ">=", 250_000)
BATCHES: Final = Target("value", ">=", 1_500_000)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Records of 100 bytes without keys; a fresh process each time.

    `client-producer`: `send` for each, then `flush`; `batch` is batch.size: the default, and Kafka's.
    `client-producer.alone`: `send(…).result()`, one after the other. `client-consumer`: a new group reads all that is
    in the table, by `poll` and auto-commit, as records or as Arrow (`poll_arrow`); from the first poll to the last
    record, joining included.
    """
    values = [record.value or b"" for record in make_orders(min(size.pool, 10_000), _VALUE_BYTES, keyed=False)]
    root = place / "root"
    with Log.open(root) as log:
        fill_topic(log, _TOPIC, make_orders(min(size.pool, size.stored), _VALUE_BYTES, keyed=False), size.stored)
    with ServerProcess(lakelog_command(root), place / "server.log") as server:
        with Asker(server.url) as asker:
            stored = sum(asker.end_offsets(_TOPIC))
        count = max(len(values), size.stored // 2)
        yield judge(_produce(server.url, values, count, _BATCH, size), PRODUCER)
        yield _produce(server.url, values, count, _KAFKAS_BATCH, size)
        taken = run_fresh(_send_singly, server.url, values[: min(_SINGLY, size.singles)])
        row = over_turns(taken, "ms", name="client-producer.alone", params={"records": len(taken)})
        row.p50, row.p99 = row.value, percentile(taken, 0.99)
        yield row
        yield _consume(server.url, "records", _poll_all, stored, size, CONSUMER)
        yield _consume(server.url, "arrow", _poll_batches, stored, size, BATCHES)


def _produce(url: str, values: list[bytes], count: int, batch: int, size: Size) -> Row:
    rates: list[float] = []
    for turn in range(size.turns):
        with Asker(url) as asker:
            asker.create_topic(f"produced-{batch}-{turn}")
            rates.append(run_fresh(_send_all, url, f"produced-{batch}-{turn}", values, count, batch))
            stored = sum(asker.end_offsets(f"produced-{batch}-{turn}"))
            asker.delete_topic(f"produced-{batch}-{turn}")
        if stored != count:
            raise RuntimeError(f"{count} records were sent, and {stored} are stored")
    params: dict[str, Param] = {"batch": batch, "records": count}
    return over_turns(rates, "records/s", name="client-producer", params=params)


def _send_all(url: str, topic: str, values: list[bytes], count: int, batch: int) -> float:
    from lakelog import Producer  # noqa: PLC0415 - in the process that needs it

    with Producer({"bootstrap.servers": url, "batch.size": batch}) as producer:
        began = perf_counter()
        for number in range(count):
            producer.send(topic, values[number % len(values)])
        producer.flush()
        return count / (perf_counter() - began)


def _send_singly(url: str, values: list[bytes]) -> list[float]:
    from lakelog import Producer  # noqa: PLC0415

    taken: list[float] = []
    with Producer({"bootstrap.servers": url}) as producer:
        producer.send(_TOPIC, b"first").result()
        for value in values:
            began = perf_counter()
            producer.send(_TOPIC, value).result()
            taken.append((perf_counter() - began) * 1000)
    return taken


def _consume(url: str, by: str, read: Callable[[str, str, int], float], count: int, size: Size, target: Target) -> Row:
    rates = [run_fresh(read, url, f"{by}-{turn}", count) for turn in range(size.turns)]
    return judge(over_turns(rates, "records/s", name="client-consumer", params={"by": by, "records": count}), target)


def _settings(url: str, group: str) -> dict[str, object]:
    return {"bootstrap.servers": url, "group.id": group, "auto.offset.reset": "earliest"}


def _poll_all(url: str, group: str, count: int) -> float:
    from lakelog import Consumer  # noqa: PLC0415

    with Consumer(_settings(url, group) | {"max.poll.records": 10_000}) as consumer:
        consumer.subscribe([_TOPIC])
        began, seen = perf_counter(), 0
        while seen < count:
            seen += len(consumer.poll(1))
        return seen / (perf_counter() - began)


def _poll_batches(url: str, group: str, count: int) -> float:
    from lakelog import Consumer  # noqa: PLC0415

    with Consumer(_settings(url, group)) as consumer:
        consumer.subscribe([_TOPIC])
        began, seen = perf_counter(), 0
        while seen < count:
            seen += consumer.poll_arrow(1).num_rows
        return seen / (perf_counter() - began)
