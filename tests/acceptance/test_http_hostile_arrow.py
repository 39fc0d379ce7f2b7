"""Arrow that ends a process which believes it: every way in to a server, and out of one that is not to be trusted."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Generator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from jobs.source.errors import NotReadable
from jobs.source.server import Server as Source
from lakelog import Consumer
from lakelog.foundation.errors import OutcomeUnknown
from tests.support.arrow_corpus import fetched, polled
from tests.support.arrow_messages import BATCH, messages_of, patched
from tests.support.hostile_bodies import ARROW, arrow_stream, unread_view
from tests.support.http_producers import frame
from tests.support.raw_http import RawClient
from tests.support.serving import Server, serving

VIEW = arrow_stream(pa.table({"value": unread_view(-1)}))
RECORDS = [b"a", b"b", b"c"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("arrow") / "root", auto_create_topics=True) as server:
        yield server
        assert server.terminate() == 0
        assert "Traceback" not in server.stderr


def ask(server: Server, method: str, path: str, body: bytes = b"", **headers: str):
    kind = {"Content-Type": ARROW if method == "POST" and body[:1] == b"\xff" else "application/json"}
    with RawClient(server.port) as client:
        answer = client.ask(
            frame(method, path, kind | {name.replace("_", "-"): it for name, it in headers.items()}, body)
        )
    return answer.status, json.loads(answer.body) if answer.body else None


def test_no_way_in_to_a_server_takes_a_view_that_nothing_looks_at(server: Server):
    assert len(VIEW) <= 416
    assert ask(server, "PUT", "/topics/in", b'{"partitions":1}')[0] == 201
    begun = ask(server, "POST", "/transactions", b'{"transactional_id":"t"}')[1]
    numbered = {"Producer_Id": "p", "Producer_Epoch": "0", "Producer_Seq": "0"}
    staged = {
        "Producer_Id": "t",
        "Producer_Epoch": str(begun["epoch"]),
        "Producer_Seq": "0",
        "Transaction_Id": begun["id"],
    }
    ways = [
        ("/topics/in", {}),
        ("/topics/in/partitions/0", {}),
        ("/topics/in?acks=0", {}),
        ("/topics/in?wait=table", {}),
        ("/topics/in", numbered),
        ("/topics/in", staged),
        ("/topics/in", staged | {"Transaction_Stage": "s"}),
        ("/topics/made-by-this", {}),
    ]
    for path, headers in ways:
        status, said = ask(server, "POST", path, VIEW, **headers)
        assert status == 422, (path, said)
        assert "the Arrow stream has a view of what is not there" in said["message"]
    assert ask(server, "POST", f"/transactions/{begun['id']}/commit", b"{}")[0] == 200
    assert ask(server, "GET", "/topics/in/partitions/0/offsets")[1]["end_offset"] == 0
    assert "made-by-this" not in ask(server, "GET", "/topics")[1]
    assert server.running


class Between(ThreadingHTTPServer):
    """A server that is not to be trusted: the real one's answers in Arrow arrive as something else, while it lies."""

    daemon_threads = True

    def __init__(self, server: Server) -> None:
        self.port_behind = server.port
        self.lie: bytes | None = None
        self.lies_told = 0
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Between

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline()
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        behind = http.client.HTTPConnection("127.0.0.1", self.server.port_behind)
        behind.request(self.command, self.path, body, dict(self.headers.items()))
        answer = behind.getresponse()
        content = answer.read()
        behind.close()
        if self.server.lie is not None and answer.headers.get("Content-Type") == ARROW:
            content = self.server.lie
            self.server.lies_told += 1
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def between(server: Server) -> Generator[Between]:
    with Between(server) as between:
        thread = threading.Thread(target=between.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield between
        between.shutdown()
        thread.join()


def lies(sound: bytes) -> list[bytes]:
    """A type that nobody asked for, an array that is too long, a buffer before its message, and half of an answer."""
    last = [each for each in messages_of(sound) if each.kind == BATCH][-1]
    return [VIEW, patched(sound, last.nodes[2], 2**60), patched(sound, last.buffers[2], -(2**40)), sound[:-40]]


def test_a_consumer_goes_on_whatever_a_server_answers_in_arrow(server: Server, between: Between):
    produced(server, "polled")
    settings = {"bootstrap.servers": between.url, "group.id": "polled", "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe("polled")
        for lie in lies(polled()[0]):
            between.lie, told = lie, between.lies_told
            while between.lies_told == told:
                with suppress(OutcomeUnknown):
                    assert consumer.poll_arrow(0.1).num_rows == 0
        between.lie = None
        assert drained(consumer).column("value").to_pylist() == RECORDS


def drained(consumer: Consumer) -> pa.Table:
    while True:
        with suppress(OutcomeUnknown):
            found = consumer.poll_arrow(1.0)
            if found.num_rows:
                return found


def test_the_source_of_spark_goes_on_whatever_a_server_answers_in_arrow(server: Server, between: Between):
    produced(server, "fetched")
    source = Source(between.url, 100)
    for lie in lies(fetched()[0]):
        between.lie = lie
        with pytest.raises(NotReadable, match=r"has a|has other columns|is cut off"):
            list(source.read("fetched", 0, 0, 3, ["offset", "value"]))
    between.lie = None
    found = pa.Table.from_batches(source.read("fetched", 0, 0, 3, ["offset", "value"]))
    source.close()
    assert found.to_pydict() == {"offset": [0, 1, 2], "value": RECORDS}


def produced(server: Server, topic: str) -> None:
    assert ask(server, "PUT", f"/topics/{topic}", b'{"partitions":1}')[0] == 201
    stored = ask(server, "POST", f"/topics/{topic}", arrow_stream(pa.table({"value": RECORDS})))
    assert stored[0] == 200, stored
