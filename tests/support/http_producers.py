"""Clients of a real server that do the same again and again until it is gone, and tell a ledger what they were told.

Each value is a JSON string, so that every format stores the very same bytes.
"""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from tests.support.http_ledger import HttpLedger, Place, Sent
from tests.support.raw_http import Answer, Cut, RawClient

Body = tuple[dict[str, str], bytes]
#: So many of a producer's requests a server remembers.
REMEMBERED = 5


def lines(values: list[bytes]) -> Body:
    return {"Content-Type": "application/x-ndjson"}, b"\n".join(values)


def zipped_lines(values: list[bytes]) -> Body:
    headers, body = lines(values)
    return headers | {"Content-Encoding": "gzip"}, gzip.compress(body, 1)


def json_envelope(values: list[bytes]) -> Body:
    records = b",".join(b'{"key":%b,"value":%b}' % (value, value) for value in values)
    return {"Content-Type": "application/vnd.kafka.json.v2+json"}, b'{"records":[%b]}' % records


def binary_envelope(values: list[bytes]) -> Body:
    records = [{"value": base64.b64encode(value).decode()} for value in values]
    return {"Content-Type": "application/vnd.kafka.binary.v2+json"}, json.dumps({"records": records}).encode()


def octets(values: list[bytes]) -> Body:
    (value,) = values
    return {"Content-Type": "application/octet-stream", "Lakelog-Key": "k"}, value


def arrow(values: list[bytes]) -> Body:
    """Of one partition, as the answer has ranges alone."""
    table = pa.table(
        {"value": pa.array(values, pa.binary()), "partition": pa.repeat(pa.scalar(1, pa.int32()), len(values))}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return {"Content-Type": "application/vnd.apache.arrow.stream"}, sink.getvalue().to_pybytes()


def v3_record(values: list[bytes]) -> Body:
    (value,) = values
    return {"Content-Type": "application/json"}, b'{"value":{"type":"JSON","data":%b}}' % value


@dataclass(frozen=True)
class Form:
    """A way to produce: what the body is, how many values a request has in turn, and where it goes."""

    encode: Callable[[list[bytes]], Body]
    sizes: tuple[int, ...]
    query: str = ""
    path: str = "/topics/{topic}"


#: Every format, to topics of three partitions.
FORMS = {
    "lines": Form(lines, (1, 3, 40)),
    "zipped": Form(zipped_lines, (20, 100)),
    "json": Form(json_envelope, (1, 1, 5), "?acks=1"),
    "binary": Form(binary_envelope, (2, 7)),
    "octets": Form(octets, (1,)),
    "octets to a partition": Form(octets, (1,), path="/topics/{topic}/partitions/2"),
    "arrow": Form(arrow, (5, 500)),
    "tabled": Form(lines, (1, 2), "?wait=table"),
    "at once": Form(lines, (1, 4), "?acks=0"),
    "v3": Form(v3_record, (1,), path="/v3/clusters/{cluster}/topics/{topic}/records"),
}


class Producer:
    """One client with one connection at a time, which outlives its servers. A `stamped` one is idempotent."""

    def __init__(self, ledger: HttpLedger, form: str, topic: str, *, stamped: bool = False) -> None:
        self.name = f"{form}{' with a stamp' if stamped else ''}"
        self._ledger = ledger
        self._form = FORMS[form]
        self._topic = topic
        self._stamped = stamped
        self._requests = 0
        self._values = 0
        self._recent: deque[tuple[Sent, bytes]] = deque(maxlen=REMEMBERED)

    def produce(self, address: tuple[str, int], cluster: str, stopped: threading.Event, *, half: bool = True) -> None:
        """Until the server is gone or `stopped` is set. Unless `half`, an answer that ends in its middle is a fault."""
        try:
            with RawClient(address[1]) as client:
                for sent, request in list(self._recent):
                    self._settle(sent, client.ask(request))
                while not stopped.is_set():
                    self._send_next(client, cluster)
        except Cut as cut:
            if cut.args[0] and not half:
                self._ledger.fault(f"an answer to {self.name} ended in its middle: {cut.args[0][:200]!r}")
        except TimeoutError:
            self._ledger.fault(f"{self.name} had no answer in time")
        except OSError:
            return

    def _send_next(self, client: RawClient, cluster: str) -> None:
        sizes = self._form.sizes
        count = sizes[self._requests % len(sizes)]
        values = [b'"%b.%d"' % (self.name.encode(), self._values + each) for each in range(count)]
        headers, body = self._form.encode(values)
        if self._stamped:
            headers |= {"Producer-Id": self.name, "Producer-Epoch": "0", "Producer-Seq": str(self._values)}
        path = self._form.path.format(topic=self._topic, cluster=cluster) + self._form.query
        request = frame("POST", path, headers, body)
        self._requests += 1
        self._values += count
        sent = self._ledger.sending(self.name, self._topic, values)
        if self._stamped:
            self._recent.append((sent, request))
        self._settle(sent, client.ask(request))

    def _settle(self, sent: Sent, answer: Answer) -> None:
        if answer.status == 200:
            self._ledger.answered(sent, places_of(answer.body))
            if "wait=table" in self._form.query and "lakelog-table-version" not in answer.headers:
                self._ledger.fault(f"{self.name} was told no version: {answer.headers}")
        elif answer.status in (429, 503) and b'"not_attempted"' in answer.body:
            self._ledger.refused(sent)
        elif answer.status == 202:
            self._ledger.accepted(sent)
        else:
            self._ledger.fault(f"{self.name} was answered {answer.status} {answer.body[:500]!r}")


def places_of(body: bytes) -> list[Place]:
    """Where the records of a request are, as any of the formats answers it."""
    said = json.loads(body)
    if "offsets" in said:
        return [Place(each["partition"], each["offset"]) for each in said["offsets"]]
    if "ranges" in said:
        return [
            Place(each["partition"], each["base_offset"] + index)
            for each in said["ranges"]
            for index in range(each["count"])
        ]
    return [Place(said["partition_id"], said["offset"])]


def poll(ledger: HttpLedger, address: tuple[str, int], topic: str, partition: int, stopped: threading.Event) -> None:
    """A reader that is always at the end, and tells what it was given there."""
    offset = "latest"
    try:
        with RawClient(address[1]) as client:
            while not stopped.is_set():
                path = f"/topics/{topic}/partitions/{partition}/records?offset={offset}&timeout=500&decode=string"
                answer = client.ask(frame("GET", path))
                if answer.status != 200:
                    ledger.fault(f"a reader was answered {answer.status} {answer.body[:500]!r}")
                    return
                for line in answer.body.splitlines():
                    record = json.loads(line)
                    ledger.saw(topic, partition, record["offset"], record["value"].encode())
                offset = answer.headers["lakelog-next-offset"]
    except (Cut, OSError):
        return


def frame(method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    """A request as bytes."""
    fields = {"Host": "localhost"} | (headers or {})
    if body or method in ("POST", "PUT"):
        fields["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def run_all(tasks: Iterable[Callable[[], None]]) -> list[threading.Thread]:
    """Each in a thread of its own."""
    threads = [threading.Thread(target=task, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    return threads


def join_all(threads: Iterable[threading.Thread], seconds: float = 60.0) -> None:
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), "a client did not end"
