"""Who takes too long is answered where there is something to answer, and cut off. Limits are short here."""

import asyncio
import time
from contextlib import suppress

import pytest

from ingest_api.wire import WireLimits
from tests.support.raw_http import GET, HASTY, LOOPS, Recorder, reply, serve, wait_for

POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
HURRY_S = 0.3


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


def drip(client, data, gap_s):
    """Send byte by byte until the server has had enough."""
    with suppress(OSError):
        for place in range(len(data)):
            client.send(data[place : place + 1])
            time.sleep(gap_s)


def test_a_connection_that_says_nothing_is_closed_without_a_word(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        began = time.monotonic()
        assert client.read_to_end() == b""
        assert time.monotonic() - began >= HURRY_S
        assert served.counts.cut["idle"] == 1


def test_a_connection_between_two_requests_is_closed_without_a_word(loop):
    with serve(Recorder(), loop, idle_first_s=60.0) as served, served.client() as client:
        client.ask(GET)
        began = time.monotonic()
        assert client.read_to_end() == b""
        assert time.monotonic() - began >= HURRY_S - 0.01


def test_empty_lines_do_not_keep_a_connection(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        drip(client, b"\r\n" * 12, 0.04)
        assert client.is_ended()


@pytest.mark.parametrize("before", [b"", GET])
def test_a_head_that_drips_is_refused_however_steadily(loop, before):
    with serve(Recorder(), loop, idle_first_s=60.0, keep_alive_s=60.0) as served, served.client() as client:
        if before:
            client.ask(before)
        drip(client, b"GET /" + b"a" * 60, 0.01)
        answer = client.read_answer()
        assert answer.status == 408
        assert answer.headers["connection"] == "close"
        assert client.is_ended()
        assert served.counts.refused == {"head_too_slow": 1}


@pytest.mark.parametrize("part", [POST + b"abc", CHUNKED + b"3\r\na", CHUNKED + b"3", CHUNKED + b"0\r\n"])
def test_a_body_that_stops_is_refused_and_never_reaches_the_app_as_whole(loop, part):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        answer = client.ask(part)
        assert answer.status == 408
        assert client.is_ended()
        assert wait_for(lambda: app.gone) == 1
        assert served.counts.refused == {"body_too_slow": 1}
    assert app.seen == []


def test_a_body_that_makes_progress_is_waited_for(loop):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        client.send(POST)
        drip(client, b"a" * 100, 0.01)
        assert client.read_answer().status == 200


def test_a_body_below_the_least_progress_is_refused(loop):
    with serve(Recorder(), loop, body_progress_bytes=1000) as served, served.client() as client:
        client.send(POST)
        drip(client, b"a" * 99, 0.01)
        assert client.read_answer().status == 408


def test_a_body_that_stops_under_a_begun_answer_cuts_the_answer(loop):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    with serve(app, loop) as served, served.client() as client:
        client.send(POST)
        client.read_until(b"1\r\nx\r\n")
        assert client.is_ended()
        assert served.counts.cut["unfinished"] == 1


def test_an_app_may_take_its_time(loop):
    async def app(scope, receive, send):
        await receive()
        await asyncio.sleep(3 * HURRY_S)
        await reply(send, b"done")

    with serve(app, loop) as served, served.client() as client:
        assert client.ask(GET).body == b"done"


def test_a_body_that_the_app_does_not_take_is_not_the_fault_of_the_client(loop):
    async def app(scope, receive, send):
        await asyncio.sleep(3 * HURRY_S)
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await reply(send, b"%d" % size)

    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n")
        client.send(b"a" * 4_000_000)
        assert client.read_answer().body == b"4000000"


def test_a_body_that_was_not_asked_for_yet_is_not_late(loop):
    async def app(scope, receive, send):
        await asyncio.sleep(3 * HURRY_S)
        await reply(send, (await receive())["body"])

    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        assert client.ask(b"abc").body == b"abc"


def test_a_reader_who_takes_nothing_is_cut_off_and_the_app_goes_on(loop):
    over = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not served.counts.cut["write_stall"]:
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        over.append((await receive(), await receive()))

    with serve(app, loop) as served, served.client(receive_buffer=4096) as client:
        client.send(GET)
        assert wait_for(lambda: over)
        assert served.counts.cut["write_stall"] == 1
        assert served.counts.open == 0
    assert over[0][1] == {"type": "http.disconnect"}


def test_a_slow_reader_who_takes_something_is_left_in_peace(loop):
    body = b"x" * 12_000_000

    async def app(scope, receive, send):
        await reply(send, body)

    with serve(app, loop, keep_alive_s=60.0) as served, served.client(receive_buffer=65536) as client:
        client.send(GET)
        began = time.monotonic()
        while time.monotonic() - began < 4 * HURRY_S:
            client.socket.recv(20_000)
            time.sleep(0.02)
        (connection,) = served.state.connections
        assert connection._transport.get_write_buffer_size() > 0
        assert not served.counts.cut


def test_who_does_not_take_leave_is_left(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        assert client.ask(b"bad\r\n\r\n").status == 400
        wait_for(lambda: served.counts.open == 0)
        assert served.counts.cut["linger"] == 1


def test_one_timer_serves_all_connections_and_ends_with_them():
    limits = WireLimits(sweep_s=HASTY.sweep_s)
    with serve(Recorder(), limits=limits) as served:
        clients = [served.client() for _ in range(50)]
        for client in clients:
            client.ask(GET)
        sweep = next(iter(served.state.connections)).wire.sweep
        assert len(sweep) == 50
        assert sweep._timer is not None
        for client in clients:
            client.socket.close()
        wait_for(lambda: served.counts.open == 0)
        assert sweep._timer is None
