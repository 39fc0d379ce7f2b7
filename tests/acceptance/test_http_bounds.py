"""What a crowd may cost: memory has a bound, those who behave are served, and those who do not are told or cut off."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import threading
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from tests.support.bystander import LINES, Bystander, create
from tests.support.figures import MIB, cpu_of, memory_of, metric, most_memory_of
from tests.support.http_producers import frame, join_all, run_all
from tests.support.raw_http import Answer, RawClient
from tests.support.serving import Server, serving, wait_for

#: Who read, wait or dawdle at once: a thousand, or what the system allows.
FIELDS = b"Host: localhost\r\nContent-Type: application/json\r\n"
CROWD = min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 300)
#: What the program takes of itself, and the newest records that it keeps.
PROGRAM = (128 + 128) * MIB
#: The default bound on what readers asked for, and the smallest answer, which everybody is given beyond it.
MOST_FOR_READERS = PROGRAM + 256 * MIB + CROWD * 64 * 1024
#: The default bound on bodies. Of each there are up to five copies for a moment: as it came, as records, as a frame of
#: the journal, as columns, as a file of the table.
MOST_FOR_BODIES = PROGRAM + 5 * 128 * MIB
MOST_UNTIL_AWAKE_S = 5.0
FORMATS = ("application/vnd.apache.arrow.stream", "application/x-ndjson", "application/vnd.kafka.binary.v2+json")


@pytest.fixture(autouse=True, scope="module")
def _many_files() -> Generator[None]:
    """A connection is an open file, here as there."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CROWD + 300
    if now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (now, most))


def fill(server: Server, topic: str, *, requests: int) -> int:
    """Records of 4 KiB, 4 MB a request; answers how many."""
    create(server, topic)
    headers, body = one_partition(1000, 4096)
    for _ in range(requests):
        answer = httpx.post(f"{server.url}/topics/{topic}/partitions/0", content=body, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
    return 1000 * requests


def one_partition(records: int, size: int) -> tuple[dict[str, str], bytes]:
    table = pa.table({"value": pa.array([b"%d" % number + b"x" * size for number in range(records)], pa.binary())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return {"Content-Type": FORMATS[0]}, sink.getvalue().to_pybytes()


@contextlib.contextmanager
def crowd(server: Server, size: int = CROWD, **options: int) -> Generator[list[RawClient]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RawClient(server.port, **options)) for _ in range(size)]


def test_a_thousand_slow_readers_of_large_answers_take_bounded_memory(tmp_path: Path):
    with serving(tmp_path, write_timeout_ms=60_000) as server:
        fill(server, "large", requests=16)
        with Bystander(server) as bystander:
            with crowd(server, receive_buffer=4096) as readers:
                for number, reader in enumerate(readers):
                    path = f"/topics/large/partitions/0/records?offset={number}&max_bytes={64 * MIB}"
                    reader.send(frame("GET", path, {"Accept": FORMATS[number % len(FORMATS)]}))
                for reader in readers:
                    assert reader.socket.recv(1) == b"H"
                most = most_memory_of(server)
                assert metric(server, "lakelog_http_connections") >= CROWD
            wait_for(lambda: metric(server, "lakelog_http_reads_bytes") == 0, "that nothing is held for readers")
        report("slow readers", most, bystander)
        assert most < MOST_FOR_READERS
        bystander.check()


def test_readers_who_take_nothing_are_cut_off(tmp_path: Path):
    """So few that their answers are large: a small one is out of our hands at once."""
    with serving(tmp_path, write_timeout_ms=500) as server:
        fill(server, "large", requests=4)
        with crowd(server, 6, receive_buffer=4096) as readers:
            for reader in readers:
                reader.send(frame("GET", f"/topics/large/partitions/0/records?offset=0&max_bytes={64 * MIB}"))
            wait_for(lambda: metric(server, "lakelog_http_connections") == 1, "that all of them are cut off")
            wait_for(lambda: metric(server, "lakelog_http_reads_bytes") == 0, "that nothing is held for them")


def test_bodies_of_64_mib_from_many_at_once_are_taken_in_turn_or_refused_at_once(tmp_path: Path):
    body = b"\n".join([b'"' + b"x" * (64 * 1024 - 3) + b'"'] * 1024)
    assert 63 * MIB < len(body) <= 64 * MIB
    answers: list[Answer] = []
    with serving(tmp_path) as server:
        create(server, "large")
        request = frame("POST", "/topics/large", LINES, body)

        def send() -> None:
            with RawClient(server.port) as client:
                client.socket.settimeout(60)
                send_until_answered(client, request)
                answers.append(client.read_answer())

        with Bystander(server) as bystander:
            join_all(run_all([send] * 16), 60)
        most = most_memory_of(server)
        report("large bodies", most, bystander)
        stored = [answer for answer in answers if answer.status == 200]
        refused = [answer for answer in answers if answer.status == 503]
        assert stored
        assert refused
        assert len(stored) + len(refused) == len(answers) == 16, [answer.status for answer in answers]
        for answer in refused:
            assert int(answer.headers["retry-after"]) >= 1
            assert json.loads(answer.body)["outcome"] == "not_attempted"
        assert most < MOST_FOR_BODIES
        bystander.check()
        assert metric(server, "lakelog_http_bodies_bytes") == 0
        offsets = httpx.get(f"{server.url}/topics/large/partitions/0/offsets").json()
        assert offsets["end_offset"] == 1024 * len(stored)


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(tmp_path: Path):
    with serving(None) as server:
        create(server, "large")
        with RawClient(server.port) as client:
            client.send(b"POST /topics/large HTTP/1.1\r\n" + FIELDS + b"Content-Length: %d\r\n\r\n" % (64 * MIB + 1))
            assert client.read_answer().status == 413
        with RawClient(server.port) as client:
            head = b"POST /topics/large HTTP/1.1\r\n" + FIELDS + b"Transfer-Encoding: chunked\r\n\r\n"
            sent = send_until_answered(client, head + (b"100000\r\n" + b"x" * MIB + b"\r\n") * 100)
            assert client.read_answer().status == 413
            assert sent < 80 * MIB
        assert httpx.get(f"{server.url}/topics/large/partitions/0/offsets").json()["end_offset"] == 0


@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: ", b"b"),
        (b"GET", b""),
        (b"POST /topics/slow HTTP/1.1\r\n" + FIELDS + b"Content-Length: 100\r\n\r\n1", b""),
        (b"POST /topics/slow HTTP/1.1\r\n" + FIELDS + b"Transfer-Encoding: chunked\r\n\r\n5\r\n1", b""),
    ],
    ids=["a head by drips", "a head that stops", "a body that stops", "a chunk that stops"],
)
def test_who_is_too_slow_is_cut_off_and_nothing_of_it_is_stored(slow: Server, begin: bytes, drip: bytes):
    assert is_soon_cut_off(slow, begin, drip, 408)
    assert httpx.get(f"{slow.url}/topics/slow/partitions/0/offsets").json()["end_offset"] == 0


def test_who_says_nothing_is_cut_off():
    with serving(None, first_request_timeout_ms=500) as server:
        assert is_soon_cut_off(server, b"", b"", None)


def is_soon_cut_off(server: Server, begin: bytes, drip: bytes, status: int | None) -> bool:
    # The setting, and two looks at all connections that are half a second apart; the rest is for a busy machine
    # and less than the least of the defaults. A machine that stands still does not do so three times.
    return any(seconds_until_cut_off(server, begin, drip, status) < 0.5 + 2 * 0.5 + 8 for _ in range(3))


def seconds_until_cut_off(server: Server, begin: bytes, drip: bytes, status: int | None) -> float:
    over = threading.Event()
    with crowd(server, 100) as clients:
        began = time.monotonic()
        for client in clients:
            client.send(begin)
        dripping = run_all([partial(drip_into, clients, drip, over)] if drip else [])
        for client in clients:
            if status is None:
                assert client.is_ended()
            else:
                assert client.read_answer().status == status
        took = time.monotonic() - began
        over.set()
        join_all(dripping)
    return took


@pytest.fixture(scope="module")
def slow() -> Generator[Server]:
    """It waits for a first byte as long as ever: between that and a connection the machine may stand still."""
    with serving(None, head_timeout_ms=500, body_timeout_ms=500) as server:
        create(server, "slow")
        yield server


def test_a_thousand_idle_polls_cost_little_and_one_append_wakes_them_all(tmp_path: Path):
    with serving(tmp_path) as server:
        create(server, "quiet")
        path = "/topics/quiet/partitions/0/records?offset=0&timeout=60000"
        with crowd(server) as clients:
            before = memory_of(server)
            for client in clients:
                client.send(frame("GET", path))
            wait_for(lambda: metric(server, "lakelog_http_open_polls") == CROWD, f"{CROWD} polls")
            grown, worked = memory_of(server) - before, cpu_of(server)
            time.sleep(2)
            worked = (cpu_of(server) - worked) / 2
            took = wake_all(server, clients)
            if took >= MOST_UNTIL_AWAKE_S:  # the machine may have stood still
                for client in clients:
                    client.send(frame("GET", path.replace("offset=0", "offset=1")))
                wait_for(lambda: metric(server, "lakelog_http_open_polls") == CROWD, f"{CROWD} polls")
                took = wake_all(server, clients)
        print(f"idle polls: {grown / MIB:.1f} MiB, {worked:.3f} of a core, all awake in {took:.3f} s")
        assert grown < 40 * 1024 * CROWD
        assert worked < 0.1
        assert took < MOST_UNTIL_AWAKE_S


def wake_all(server: Server, clients: list[RawClient]) -> float:
    """How long it takes."""
    began = time.monotonic()
    answer = httpx.post(f"{server.url}/topics/quiet", content=b'"wake up"', headers=LINES)
    assert answer.status_code == 200
    for client in clients:
        answer = client.read_answer()
        assert answer.status == 200
        assert json.loads(answer.body)["value"] == "wake up"
    return time.monotonic() - began


def report(what: str, most: int, bystander: Bystander) -> None:
    """For a person who asks how much of a bound is used."""
    slowest = {kind: f"{max(delays):.3f} s" for kind, delays in bystander.delays.items() if delays}
    print(f"{what}: {most / MIB:.0f} MiB, at worst {slowest}")


def drip_into(clients: list[RawClient], drip: bytes, over: threading.Event) -> None:
    while not over.wait(0.05):
        for client in clients:
            with contextlib.suppress(OSError):
                client.socket.send(drip)


def send_until_answered(client: RawClient, data: bytes) -> int:
    """Send, but not on when there is an answer; how much was sent."""
    view, at = memoryview(data), 0
    client.socket.setblocking(False)
    while at < len(data):
        readable, writable, _ = select.select([client.socket], [client.socket], [], 60)
        assert readable or writable, "neither read nor answered"
        if readable:
            break
        with contextlib.suppress(BlockingIOError):
            try:
                at += client.socket.send(view[at : at + MIB])
            except (BrokenPipeError, ConnectionResetError):
                break
    client.socket.setblocking(True)
    client.socket.settimeout(60)
    return at
