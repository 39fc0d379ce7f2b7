"""What it costs to number requests: the same load with numbers and without, in turn, on one server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

from benchmarks.http_bodies import make_orders, make_requests
from benchmarks.http_generator import Caller, drive_callers
from benchmarks.http_load import HttpLoad, Requests
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.processes import run_fresh
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size

_FORM: Final = "binary"
_VALUE_BYTES: Final = 100
_RECORDS: Final = (1, 100, 1_000)
#: batch.size of a client: the default, and Kafka's; 1 has each record go alone, one after the other.
_BATCHES: Final = (1 << 20, 16_384, 1)
PLAIN: Final = "without numbers"
AT_MOST_A_TENTH: Final = Target("ratio", ">=", 0.9)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Records of 100 bytes without keys, 4 partitions; ratios are of records acknowledged a second.

    `idempotence.http`: requests of v2's JSON with base64, of 1, 100 and 1,000 records, by the generator in Python; each
    connection is a producer of its own with one request under way. `idempotence.client`: a Producer with
    `enable.idempotence` beside one without, otherwise alike; `batch` is batch.size, and 1 is `send(…).result()`, one
    after the other. What is stored is counted each time.
    """
    with ServerProcess(lakelog_command(place / "root"), place / "server.log") as server:
        for records in _RECORDS:
            requests = make_requests(_FORM, records, _VALUE_BYTES, keyed=False, most=size.pool)
            for connections in size.connections:
                yield _row_of_http(server.url, requests, connections, size)
        for batch in _BATCHES:
            yield _row_of_clients(server.url, batch, size)


class _Numbered(Caller):
    """A producer, or one that is as busy and says no number."""

    def __init__(self, url: str, requests: Requests, producer: str | None) -> None:
        super().__init__((), 0)
        at = urlsplit(url)
        fields = "".join(f"{name}: {value}\r\n" for name, value in requests.headers.items())
        start = f"POST {at.path} HTTP/1.1\r\nHost: {at.netloc}\r\n{fields}"
        if producer is not None:
            start += f"Producer-Id: {producer}\r\nProducer-Epoch: 0\r\nProducer-Seq: "
        self._start, self._numbered, self._records = start.encode(), producer is not None, requests.records
        self._ends = [b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in requests.bodies]

    def take(self, place: int) -> bytes:
        number = b"%d\r\n" % ((place - 1) * self._records) if self._numbered else b""
        return b"".join((self._start, number, self._ends[place % len(self._ends)]))


def _row_of_http(url: str, requests: Requests, connections: int, size: Size) -> Row:
    params: dict[str, Param] = {"form": _FORM, "records": requests.records, "connections": connections}
    numbered, plain = [], []
    for turn in range(_turns(size)):
        for into, named in _in_turn(turn, numbered, plain):
            into.append(_drive(url, requests, connections, size.seconds, named=named) * requests.records)
    row = over_turns(numbered, "records/s", name="idempotence.http", params=params)
    return judge(beside(row, PLAIN, numbered, plain), AT_MOST_A_TENTH)


def _turns(size: Size) -> int:
    """More and shorter ones than elsewhere: what else a machine does comes and goes."""
    return 2 * size.turns - 1


def _in_turn(turn: int, numbered: list[float], plain: list[float]) -> list[tuple[list[float], bool]]:
    """Either begins as often as the other."""
    both = [(numbered, True), (plain, False)]
    return both if turn % 2 else both[::-1]


def _drive(url: str, requests: Requests, connections: int, seconds: float, *, named: bool) -> float:
    """Requests acknowledged a second, on a topic of its own."""
    topic = f"{'numbered' if named else 'plain'}-{requests.records}-{connections}"
    path = f"{url}/topics/{topic}"
    with Asker(url) as asker:
        asker.create_topic(topic)

        def make(place: int) -> Caller:
            return _Numbered(path, requests, f"{topic}-{place}" if named else None)

        load = drive_callers(path, make, connections=connections, seconds=seconds)
        _check_stored(load, requests.records, asker.settled_count(topic))
        asker.wait_tabled(topic)
        asker.delete_topic(topic)
    return load.per_second


def _check_stored(load: HttpLoad, records: int, stored: int) -> None:
    if load.refused or stored != load.answered * records:
        raise RuntimeError(f"{load.answered} requests, {load.refused} of them refused, and {stored} records are stored")


def _row_of_clients(url: str, batch: int, size: Size) -> Row:
    values = [record.value or b"" for record in make_orders(min(size.pool, 10_000), _VALUE_BYTES, keyed=False)]
    count = size.singles if batch == 1 else max(len(values), size.stored // 4)
    numbered, plain = [], []
    for turn in range(_turns(size)):
        runs = _in_turn(turn, numbered, plain)
        topics = [f"client-{batch}-{named}" for _, named in runs]
        with Asker(url) as asker:
            for topic in topics:
                asker.create_topic(topic)
            rates = run_fresh(_send_all, url, topics, [named for _, named in runs], values, count, batch)
            for topic in topics:
                _check_sent(count + 1, sum(asker.end_offsets(topic)))
                asker.wait_tabled(topic)
                asker.delete_topic(topic)
        for (into, _), rate in zip(runs, rates, strict=True):
            into.append(rate)
    params: dict[str, Param] = {"batch": batch, "records": count}
    row = over_turns(numbered, "records/s", name="idempotence.client", params=params)
    return judge(beside(row, PLAIN, numbered, plain), AT_MOST_A_TENTH)


def _check_sent(sent: int, stored: int) -> None:
    if stored != sent:
        raise RuntimeError(f"{sent} records were sent, and {stored} are stored")


def _send_all(
    url: str, topics: list[str], named: list[bool], values: list[bytes], count: int, batch: int
) -> list[float]:
    from lakelog import Producer  # noqa: PLC0415 - in the process that needs it

    rates: list[float] = []
    for topic, numbered in zip(topics, named, strict=True):
        with Producer({"bootstrap.servers": url, "batch.size": batch, "enable.idempotence": numbered}) as producer:
            producer.send(topic, b"first").result()
            began = perf_counter()
            for number in range(count):
                sent = producer.send(topic, values[number % len(values)])
                if batch == 1:
                    sent.result()
            producer.flush()
            rates.append(count / (perf_counter() - began))
    return rates
