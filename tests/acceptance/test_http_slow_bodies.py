"""What slow bodies may take from others: nothing but the memory of the bytes that came, and not for long."""

from __future__ import annotations

import contextlib
import json
import select
import time
from collections.abc import Generator

import httpx
import pytest

from tests.support.bystander import LINES, create
from tests.support.figures import MIB, metric
from tests.support.http_producers import frame
from tests.support.raw_http import RawClient
from tests.support.serving import Server, serving, wait_for

KIB = 1024
#: A body of JSON lines that is counted, as it is above 64 KiB.
COUNTED = b"\n".join([b'"' + b"x" * 1021 + b'"'] * 128)
#: One line of half a mebibyte.
HALF = b'"' + b"x" * (512 * KIB - 3) + b'"\n'
#: Longer than the strictest of the deadlines here by far, and shorter than those of the defaults.
MOST_S = 15.0


def head(size: int | None, *more: str, path: str = "/topics/t") -> bytes:
    framing = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    fields = ("Host: localhost", "Content-Type: application/x-ndjson", framing, *more)
    return "\r\n".join((f"POST {path} HTTP/1.1", *fields, "", "")).encode()


def produce(server: Server, body: bytes = COUNTED) -> int:
    """In two pieces, so that it does not arrive whole."""
    with RawClient(server.port) as client:
        request = frame("POST", "/topics/t", LINES, body)
        client.send(request[:1000])
        time.sleep(0.01)
        client.send(request[1000:])
        return client.read_answer().status


def stored(server: Server) -> int:
    return httpx.get(f"{server.url}/topics/t/partitions/0/offsets").json()["end_offset"]


@contextlib.contextmanager
def clients(server: Server, *sources: str) -> Generator[list[RawClient]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RawClient(server.port, source=source)) for source in sources]


def drip_until_answered(client: RawClient, piece: bytes, gap_s: float) -> float | None:
    """Send `piece` again and again; after how many seconds something came back, None if nothing did."""
    began = time.monotonic()
    while time.monotonic() - began < MOST_S:
        if select.select([client.socket], [], [], gap_s)[0]:
            return time.monotonic() - began
        with contextlib.suppress(ConnectionError):
            client.send(piece)
    return None


def test_bodies_that_are_announced_and_do_not_come_keep_no_other_out():
    with serving(None) as server:
        create(server, "t")
        with clients(server, "127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3") as slow:
            for client in slow:
                client.send(head(64 * MIB) + b'"')
            wait_for(lambda: metric(server, "lakelog_http_connections") >= 4, "all of them")
            assert [produce(server) for _ in range(3)] == [200] * 3
        assert stored(server) == 3 * 128


@pytest.fixture(scope="module")
def strict() -> Generator[Server]:
    with serving(None, body_timeout_ms=1000) as server:
        create(server, "t")
        yield server


@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (head(64 * MIB), b"1"),
        (head(None), b"1\r\n1\r\n"),
        (head(64 * MIB, "Content-Encoding: gzip"), b"\x1f"),
        (frame("GET", "/healthz") + head(64 * MIB), b"1"),
    ],
    ids=["a length", "chunks", "compressed", "behind another request"],
)
def test_a_body_that_drips_is_refused_however_steadily(strict: Server, begin: bytes, drip: bytes):
    with RawClient(strict.port) as client:
        client.send(begin)
        if begin.startswith(b"GET"):
            assert client.read_answer().status == 200
        assert drip_until_answered(client, drip, 0.05) is not None, "it dripped on and on"
        answer = client.read_answer()
        assert (answer.status, json.loads(answer.body)["error_code"]) == (408, 408)
        assert answer.headers["connection"] == "close"
        assert client.is_ended()
    assert stored(strict) == 0


def test_a_body_that_waits_to_be_asked_for_has_its_time_from_then(strict: Server):
    with RawClient(strict.port) as client:
        client.send(head(64 * MIB, "Expect: 100-continue"))
        assert client.read_answer().status == 100
        assert drip_until_answered(client, b"1", 0.05) is not None, "it dripped on and on"
        assert client.read_answer().status == 408


def test_a_body_that_comes_fast_enough_and_never_ends_is_refused():
    with serving(None, body_deadline_ms=1000, min_body_bytes_per_second=1) as server:
        create(server, "t")
        with RawClient(server.port) as client:
            client.send(head(64 * MIB))
            assert drip_until_answered(client, b"1" * 100, 0.05) is not None, "it went on and on"
            answer = client.read_answer()
            assert answer.status == 408
            assert "body_deadline_ms" in json.loads(answer.body)["message"]
            assert client.is_ended()
        assert stored(server) == 0
        assert httpx.get(f"{server.url}/metrics").text.count('reason="body_too_late"} 1') == 1


def test_one_address_does_not_keep_the_memory_from_others():
    with serving(None, max_body_bytes=MIB, max_bodies_bytes=2 * MIB) as server:
        create(server, "t")
        with clients(server, *["127.0.0.2"] * 4) as greedy:
            for number, client in enumerate(greedy, 1):
                client.send(head(MIB) + HALF)
                held = number * 512 * KIB
                wait_for(lambda held=held: metric(server, "lakelog_http_bodies_bytes") == held, "that it is there")
            assert produce(server) == 200
            told = select.select([client.socket for client in greedy], [], [], MOST_S)[0]
            assert [client.socket for client in greedy[3:]] == told
            answer = greedy[3].read_answer()
            assert answer.status == 503
            assert json.loads(answer.body).items() >= {"error_code": 50306, "outcome": "not_attempted"}.items()
            assert answer.headers["connection"] == "close"
            for client in greedy[:3]:
                client.send(HALF)
                assert client.read_answer().status == 200
        assert stored(server) == 128 + 2 * 3


def test_memory_that_is_held_for_long_goes_to_others_whoever_holds_it():
    with serving(None, max_body_bytes=MIB, max_bodies_bytes=2 * MIB, body_timeout_ms=1500) as server:
        create(server, "t")
        with clients(server, "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5") as slow:
            for client in slow:
                client.send(head(MIB) + HALF)
            wait_for(lambda: metric(server, "lakelog_http_bodies_bytes") == 2 * MIB, "that the memory is full")
            began = time.monotonic()
            statuses = [produce(server)]
            while statuses[-1] != 200 and time.monotonic() - began < MOST_S:
                for client in slow:  # as fast as has to be
                    with contextlib.suppress(ConnectionError):
                        client.send(b"x" * KIB)
                time.sleep(0.1)
                statuses.append(produce(server))
            assert statuses[-1] == 200
            assert set(statuses[:-1]) <= {503}


def test_an_endless_stream_may_take_its_time_between_records_and_none_within_a_large_one(strict: Server):
    cluster = httpx.get(f"{strict.url}/v3/clusters").json()["data"][0]["cluster_id"]
    create(strict, "streamed")
    record = b'{"value":{"type":"JSON","data":1}}'
    with RawClient(strict.port) as client:
        client.send(head(None, path=f"/v3/clusters/{cluster}/topics/streamed/records").replace(b"x-ndjson", b"json"))
        for number in range(6):
            client.send(b"%x\r\n%b\r\n" % (len(record), record))
            if number == 0:
                assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 200")
            assert b'"offset":%d' % number in client.read_until(b"}\n\r\n")
            time.sleep(0.5)  # three times as long in all as a body may stop
        large = b'{"value":{"type":"STRING","data":"' + b"x" * 100 * KIB
        client.send(b"%x\r\n%b\r\n" % (len(large), large))
        wait_for(lambda: metric(strict, "lakelog_http_bodies_bytes") == len(large), "that it is counted")
        assert drip_until_answered(client, b"1\r\nx\r\n", 0.05) is not None, "it dripped on and on"
        assert client.is_ended()
    wait_for(lambda: metric(strict, "lakelog_http_bodies_bytes") == 0, "that nothing is held")
