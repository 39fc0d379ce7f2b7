"""Clients that leave, and a server that does: what runs is finished, nothing is begun for nobody."""

import asyncio
import logging
import socket
import struct
import threading

import pytest
import uvicorn

from ingest_api.http1 import protocol_class
from tests.support.raw_http import DEADLINE_S, GET, RawClient
from tests.support.serving import wait_for
from tests.support.wire_serving import LOOPS, Recorder, reply, serve

POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


class Waiting:
    """An app that waits until it is told to answer, or that its client is gone."""

    def __init__(self):
        self.at_work = 0
        self.done = 0
        self.gone = 0
        self.go_on = asyncio.Event()

    async def produce(self, scope, receive, send):
        while (await receive())["more_body"]:
            pass
        self.at_work += 1
        await self.go_on.wait()
        self.done += 1
        await reply(send, b"stored")

    async def follow(self, scope, receive, send):
        await receive()
        self.at_work += 1
        if (await receive())["type"] == "http.disconnect":
            self.gone += 1

    async def let_go(self):
        self.go_on.set()


def reset(client):
    """Leave so that the other side gets an error."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


def close(client):
    client.socket.close()


@pytest.mark.parametrize("leave", [close, reset])
def test_what_a_client_sent_whole_is_done_though_it_left(loop, leave):
    app = Waiting()
    with serve(app.produce, loop) as served:
        client = served.client()
        client.send(POST)
        wait_for(lambda: app.at_work)
        leave(client)
        if leave is reset:
            wait_for(lambda: served.counts.open == 0)
        served.act(app.let_go())
        wait_for(lambda: app.done)
        wait_for(lambda: served.counts.open == 0)
        wait_for(lambda: not served.state.tasks)
        assert served.counts.failed == 0


@pytest.mark.parametrize("leave", [close, reset])
def test_an_app_that_waits_learns_that_its_client_left(loop, leave):
    app = Waiting()
    with serve(app.follow, loop) as served:
        client = served.client()
        client.send(GET)
        wait_for(lambda: app.at_work)
        leave(client)
        assert wait_for(lambda: app.gone) == 1
        wait_for(lambda: served.counts.open == 0)


@pytest.mark.parametrize("leave", [close, reset])
def test_half_a_body_is_never_taken_for_a_whole_one(loop, leave):
    app = Recorder()
    with serve(app, loop) as served:
        client = served.client()
        client.send(POST[:-1])
        wait_for(lambda: app.scopes)
        leave(client)
        assert wait_for(lambda: app.gone) == 1
    assert app.seen == []


def test_half_a_chunked_body_is_never_taken_for_a_whole_one(loop):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
        client.finish()
        assert client.read_to_end() == b""
        assert wait_for(lambda: app.gone) == 1
    assert app.seen == []


def test_an_app_learns_of_a_refused_body_at_once_though_the_client_stays(loop):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        wait_for(lambda: app.scopes)
        assert client.ask(b"g").status == 400
        assert wait_for(lambda: app.gone) == 1
        assert served.counts.open == 1


def test_who_has_sent_all_may_say_so_and_still_reads_its_answers(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        client.send(POST + GET + GET)
        client.finish()
        assert client.read_answer().body == b"POST / abc"
        assert client.read_answer().body == b"GET / "
        assert client.read_answer().body == b"GET / "
        assert client.read_to_end() == b""
        wait_for(lambda: served.counts.open == 0)


def test_half_a_head_is_nothing(loop):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        client.send(GET + GET[:-3])
        client.finish()
        assert client.read_answer().status == 200
        assert client.read_to_end() == b""
    assert len(app.seen) == 1


def test_an_endless_stream_to_nobody_lets_others_have_their_turn(loop):
    gone = False

    async def app(scope, receive, send):
        if scope["path"] == "/other":
            await reply(send, b"x")
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    with serve(app, loop) as served:
        client = served.client()
        client.send(GET)
        client.read_until(b"\r\nx\r\n")
        reset(client)
        wait_for(lambda: served.counts.open == 0)
        with served.client() as other:
            assert other.ask(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n").body == b"x"
        gone = True
        wait_for(lambda: not served.state.tasks)


def test_a_sender_that_waits_for_room_is_let_go_when_its_reader_left(loop):
    over = []

    async def app(scope, receive, send):
        await reply(send, b"x" * 30_000_000)
        over.append(True)

    with serve(app, loop) as served:
        client = served.client(receive_buffer=4096)
        client.send(GET)
        client.read_exactly(1000)
        assert not over
        reset(client)
        assert wait_for(lambda: over)


def test_a_server_that_leaves_closes_idle_connections_and_finishes_what_runs(loop):
    app = Waiting()
    with serve(app.produce, loop) as served:
        idle, half, busy, sending = (served.client() for _ in range(4))
        half.send(GET[:10])
        busy.send(POST + POST)
        sending.send(POST[:-1])
        wait_for(lambda: app.at_work == 1 and served.counts.bytes_in == 10 + 3 * len(POST) - 1)
        served.shutdown()
        assert idle.read_to_end() == b""
        assert half.read_to_end() == b""
        sending.send(POST[-1:])
        wait_for(lambda: app.at_work == 2)
        served.act(app.let_go())
        for client in (busy, sending):
            answer = client.read_answer()
            assert answer.body == b"stored"
            assert answer.headers["connection"] == "close"
            assert client.read_to_end() == b""
        for client in (idle, half, busy, sending):
            client.socket.close()
        wait_for(lambda: served.counts.open == 0)
        assert app.done == 2


def test_a_stream_that_began_before_the_server_leaves_ends_properly_and_then_its_connection(loop):
    app = Waiting()

    async def stream(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await app.go_on.wait()
        await send({"type": "http.response.body", "body": b"y"})

    with serve(stream, loop) as served, served.client() as client:
        client.send(GET)
        client.read_until(b"1\r\nx\r\n")
        served.shutdown()
        served.act(app.let_go())
        assert client.read_to_end() == b"1\r\ny\r\n0\r\n\r\n"


def test_it_runs_under_uvicorn_which_waits_for_what_runs(loop, caplog):
    app = Waiting()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app.produce, http=protocol_class(), loop=loop, lifespan="off", log_config=None, server_header=False,
        proxy_headers=False, interface="asgi3", access_log=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with caplog.at_level(logging.CRITICAL):
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        with RawClient(listener.getsockname()[1]) as client, RawClient(listener.getsockname()[1]) as idle:
            client.send(POST)
            wait_for(lambda: app.at_work)
            server.should_exit = True
            assert idle.read_to_end() == b""
            assert thread.is_alive()
            (task,) = server.server_state.tasks
            task.get_loop().call_soon_threadsafe(app.go_on.set)
            answer = client.read_answer()
            assert (answer.status, answer.body) == (200, b"stored")
            assert "date" in answer.headers
            assert "server" not in answer.headers
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert server.server_state.total_requests == 1


def test_a_task_that_the_server_cancels_says_that_the_outcome_is_unknown(loop):
    app = Waiting()
    with serve(app.produce, loop) as served, served.client() as client:
        client.send(POST)
        wait_for(lambda: app.at_work)

        async def cancel():
            for task in list(served.state.tasks):
                task.cancel()

        served.act(cancel())
        assert b'"outcome":"unknown"' in client.read_answer().body
        assert client.read_to_end() == b""
