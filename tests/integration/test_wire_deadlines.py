"""Who takes too long is answered where there is something to answer, and cut off. Time goes by as a test says.

One test has the time of the wall, and a limit that it can wait for.
"""

import asyncio
import time

import pytest

from ingest_api.http1 import WireLimits
from tests.support.raw_http import GET
from tests.support.serving import wait_for
from tests.support.wire_serving import HASTY, LOOPS, Recorder, fill, reply, serve

POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LIMITS = WireLimits()


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


class Held:
    """An app that goes on when it is told to."""

    def __init__(self):
        self.at_work = False
        self._go_on = asyncio.Event()

    async def wait(self):
        self.at_work = True
        await self._go_on.wait()

    async def let_go(self):
        self._go_on.set()


def send(served, client, data):
    """And see that it came."""
    came = served.counts.bytes_in + len(data)
    client.send(data)
    wait_for(lambda: served.counts.bytes_in == came)


def drip(served, client, data, gap_s):
    """Send byte by byte; so much time goes by behind each."""
    for place in range(len(data)):
        send(served, client, data[place : place + 1])
        served.pass_by(gap_s)


def nobody_is_cut(served):
    return (dict(served.counts.cut), dict(served.counts.refused)) == ({}, {})


def test_a_connection_that_says_nothing_is_closed_without_a_word(loop):
    with serve(Recorder(), loop, HASTY, clock=time.monotonic) as served:
        began = time.monotonic()
        with served.client() as client:
            assert client.read_to_end() == b""
            assert time.monotonic() - began >= HASTY.idle_first_s
            assert served.counts.cut["idle"] == 1


def test_a_connection_between_two_requests_is_closed_without_a_word(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        client.ask(GET)
        wait_for(lambda: served.counts.requests)
        served.pass_by(LIMITS.keep_alive_s - 0.5)
        assert nobody_is_cut(served)
        served.pass_by(0.5)
        assert client.read_to_end() == b""
        assert served.counts.cut == {"idle": 1}


def test_empty_lines_do_not_keep_a_connection(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        drip(served, client, b"\r\n" * 3, LIMITS.idle_first_s / 8)
        assert nobody_is_cut(served)
        send(served, client, b"\r\n")
        served.pass_by(LIMITS.idle_first_s / 4)
        assert client.is_ended()
        assert served.counts.cut == {"idle": 1}


@pytest.mark.parametrize("before", [b"", GET])
def test_a_head_that_drips_is_refused_however_steadily(loop, before):
    with serve(Recorder(), loop) as served, served.client() as client:
        if before:
            client.ask(before)
        drip(served, client, b"GET /a", LIMITS.head_s / 8)
        assert nobody_is_cut(served)
        drip(served, client, b"aa", LIMITS.head_s / 8)
        answer = client.read_answer()
        assert answer.status == 408
        assert answer.headers["connection"] == "close"
        assert client.is_ended()
        assert served.counts.refused == {"head_too_slow": 1}


@pytest.mark.parametrize("part", [POST + b"abc", CHUNKED + b"3\r\na", CHUNKED + b"3", CHUNKED + b"0\r\n"])
def test_a_body_that_stops_is_refused_and_never_reaches_the_app_as_whole(loop, part):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        send(served, client, part)
        wait_for(lambda: app.scopes)
        served.pass_by(LIMITS.body_grace_s - 0.5)
        assert nobody_is_cut(served)
        served.pass_by(0.5)
        assert client.read_answer().status == 408
        assert client.is_ended()
        assert wait_for(lambda: app.gone) == 1
        assert served.counts.refused == {"body_too_slow": 1}
    assert app.seen == []


def test_a_body_that_makes_enough_progress_is_waited_for(loop):
    app = Recorder()
    with serve(app, loop, body_bytes_per_s=2) as served, served.client() as client:
        send(served, client, POST)
        wait_for(lambda: app.scopes)
        drip(served, client, b"a" * 100, 0.5)
        assert client.read_answer().status == 200


def test_where_no_rate_is_wanted_any_byte_will_do(loop):
    app = Recorder()
    with serve(app, loop, body_bytes_per_s=0, body_deadline_s=1e9) as served, served.client() as client:
        send(served, client, POST)
        wait_for(lambda: app.scopes)
        drip(served, client, b"a" * 100, LIMITS.body_grace_s - 0.5)
        assert client.read_answer().status == 200


@pytest.mark.parametrize(("begin", "piece"), [(POST, b"a"), (CHUNKED, b"1\r\na\r\n")])
def test_a_body_that_drips_is_refused_however_steadily(loop, begin, piece):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        send(served, client, begin)
        wait_for(lambda: app.scopes)
        for _ in range(3):
            send(served, client, piece)
            served.pass_by(LIMITS.body_grace_s / 4)
        assert nobody_is_cut(served)
        send(served, client, piece)
        served.pass_by(LIMITS.body_grace_s / 4 + 0.1)
        assert client.read_answer().status == 408
        assert client.is_ended()
        assert wait_for(lambda: app.gone) == 1
        assert served.counts.refused == {"body_too_slow": 1}
    assert app.seen == []


def test_a_body_that_comes_for_too_long_in_all_is_refused(loop):
    app = Recorder()
    with serve(app, loop, body_bytes_per_s=1, body_deadline_s=30) as served, served.client() as client:
        send(served, client, POST)
        wait_for(lambda: app.scopes)
        drip(served, client, b"a" * 29, 1)
        assert nobody_is_cut(served)
        drip(served, client, b"a", 1)
        assert client.read_answer().status == 408
        served.pass_by(0)
        assert served.counts.refused == {"body_too_late": 1}
    assert app.seen == []


def test_a_body_behind_another_request_has_its_own_time(loop):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        for _ in range(3):
            send(served, client, POST)
            served.pass_by(LIMITS.body_grace_s - 0.5)
            assert client.ask(b"a" * 100).status == 200
        client.ask(GET)
        send(served, client, POST)
        served.pass_by(LIMITS.body_grace_s)
        assert client.read_answer().status == 408


def test_a_stream_of_which_nothing_is_held_goes_on_with_any_byte(loop):
    """Its app says so, and later that it holds some of it."""
    app, held = Recorder(), []

    async def streamed(scope, receive, send):
        at_once = scope["extensions"]["lakelog.at_once"]
        at_once.part = -1
        app.scopes.append(scope)
        while (message := await receive())["type"] == "http.request":
            if b"b" in message["body"]:
                at_once.part = 1
                held.append(True)

    with serve(streamed, loop, body_deadline_s=60) as served, served.client() as client:
        send(served, client, POST)
        wait_for(lambda: app.scopes)
        drip(served, client, b"a" * 20, LIMITS.body_grace_s - 0.5)
        send(served, client, b"b")
        wait_for(lambda: held)
        drip(served, client, b"aaa", LIMITS.body_grace_s / 4)
        assert nobody_is_cut(served)
        drip(served, client, b"a", LIMITS.body_grace_s / 4 + 0.1)
        assert client.read_answer().status == 408


def test_a_body_that_stops_under_a_begun_answer_cuts_the_answer(loop):
    waiting = Held()

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        waiting.at_work = True
        while (await receive())["type"] != "http.disconnect":
            pass

    with serve(app, loop) as served, served.client() as client:
        client.send(POST)
        client.read_until(b"1\r\nx\r\n")
        wait_for(lambda: waiting.at_work)
        served.pass_by(LIMITS.body_grace_s)
        assert client.is_ended()
        assert served.counts.cut == {"unfinished": 1}


def test_an_app_may_take_its_time(loop):
    held = Held()

    async def app(scope, receive, send):
        await receive()
        await held.wait()
        await reply(send, b"done")

    with serve(app, loop) as served, served.client() as client:
        client.send(GET)
        wait_for(lambda: held.at_work)
        served.pass_by(10_000)
        assert nobody_is_cut(served)
        served.act(held.let_go())
        assert client.read_answer().body == b"done"


def test_a_body_that_the_app_does_not_take_is_not_the_fault_of_the_client(loop):
    held = Held()

    async def app(scope, receive, send):
        await held.wait()
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await reply(send, b"%d" % size)

    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 40000000\r\n\r\n")
        sent = fill(served, client)
        served.pass_by(10_000)
        assert nobody_is_cut(served)
        served.act(held.let_go())
        client.send(b"a" * (40_000_000 - sent))
        assert client.read_answer().body == b"40000000"


def test_an_app_that_works_on_the_first_part_of_a_body_does_not_wait_for_the_rest(loop):
    """It may be about to store it: nothing is said of the request meanwhile."""
    held, app = Held(), Recorder()

    async def piecewise(scope, receive, send):
        assert (await receive())["body"] == b"abc"
        await held.wait()
        await app(scope, receive, send)

    with serve(piecewise, loop) as served, served.client() as client:
        client.send(POST + b"abc")
        wait_for(lambda: held.at_work)
        served.pass_by(10_000)
        assert nobody_is_cut(served)
        served.act(held.let_go())
        wait_for(lambda: app.scopes)
        served.pass_by(LIMITS.body_grace_s)
        assert client.read_answer().status == 408


def test_a_body_that_was_not_asked_for_yet_is_not_late(loop):
    held = Held()

    async def app(scope, receive, send):
        await held.wait()
        await reply(send, (await receive())["body"])

    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        wait_for(lambda: held.at_work)
        served.pass_by(10_000)
        assert nobody_is_cut(served)
        served.act(held.let_go())
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
        connection = served.connection()
        wait_for(lambda: connection._outlet.paused)
        served.pass_by(LIMITS.write_stall_s - 0.5)
        assert not served.counts.cut["write_stall"]
        served.pass_by(LIMITS.write_stall_s)
        assert served.counts.cut["write_stall"] == 1
        assert wait_for(lambda: over)
        wait_for(lambda: served.counts.open == 0)
    assert over[0][1] == {"type": "http.disconnect"}


def test_a_slow_reader_who_takes_something_is_left_in_peace(loop):
    body = b"x" * 12_000_000

    async def app(scope, receive, send):
        await reply(send, body)

    with serve(app, loop) as served, served.client(receive_buffer=65536) as client:
        client.send(GET)
        connection = served.connection()
        for _ in range(4):
            wait_for(lambda: connection._outlet.paused)
            served.pass_by(LIMITS.write_stall_s - 0.5)
            before = connection._outlet.taken
            client.read_exactly(500_000)
            wait_for(lambda before=before: connection._outlet.taken > before)
        assert connection._transport.get_write_buffer_size() > 0
        assert not served.counts.cut


def test_who_does_not_take_leave_is_left(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        assert client.ask(b"bad\r\n\r\n").status == 400
        served.pass_by(LIMITS.linger_s - 0.5)
        assert served.counts.open == 1
        served.pass_by(LIMITS.linger_s)
        wait_for(lambda: served.counts.open == 0)
        assert served.counts.cut == {"linger": 1}


def test_one_timer_serves_all_connections_and_ends_with_them():
    with serve(Recorder()) as served:
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
