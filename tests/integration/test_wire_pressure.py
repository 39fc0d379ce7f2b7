"""Memory stays bounded whatever a client or an app does not take."""

import asyncio
import gc
import socket
from contextlib import suppress

import pytest

from tests.support.raw_http import GET, RawClient
from tests.support.serving import wait_for
from tests.support.wire_serving import LOOPS, PATIENT, Recorder, fill, reply, serve

KIB = 1024
#: What one read of the loop may bring at once.
ONE_READ = 256 * KIB


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


@pytest.mark.parametrize("framing", [b"Content-Length: 900000000", b"Transfer-Encoding: chunked"])
def test_a_body_that_nobody_reads_stays_with_the_client(loop, framing):
    go_on = asyncio.Event()
    sizes = []

    async def app(scope, receive, send):
        await go_on.wait()
        sizes.extend([len((await receive())["body"]) for _ in range(100)])
        await reply(send, b"enough")

    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % framing)
        if b"chunked" in framing:
            client.send(b"%x\r\n" % 900_000_000)
        fill(served, client)
        connection = served.connection()
        assert connection._exchange.unread <= PATIENT.unread_bytes + ONE_READ + 64 * KIB
        before = served.counts.bytes_in

        async def let_go():
            go_on.set()

        served.act(let_go())
        wait_for(lambda: served.counts.bytes_in > before)
        sent = 0
        while sent < 60_000_000 and not served.counts.requests:
            client.send(b"a" * 65536)
            sent += 65536
        assert client.read_answer().body == b"enough"
    assert max(sizes) <= PATIENT.unread_bytes + ONE_READ + 64 * KIB


def test_tiny_pieces_count_for_what_they_take():
    async def app(scope, receive, send):
        await asyncio.Event().wait()

    with serve(app, unread_bytes=6400) as served, served.client() as client:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n"
        client.send(head)
        connection = served.connection()
        for number in range(99):
            assert not connection._reading_paused
            client.send(b"a")
            wait_for(lambda number=number: served.counts.bytes_in > len(head) + number)
        wait_for(lambda: connection._reading_paused)


def test_requests_sent_ahead_stay_with_the_client(loop):
    at_work = asyncio.Event()

    async def app(scope, receive, send):
        await at_work.wait()
        await reply(send, b"x")

    with serve(app, loop) as served, served.client() as client:
        client.send(GET)
        fill(served, client, GET * 1000)
        connection = served.connection()
        assert connection._reader.ahead <= PATIENT.ahead_bytes + ONE_READ
        assert served.counts.requests == 0
        assert len(served.state.tasks) == 1


def test_an_answer_that_nobody_reads_stays_with_the_app(loop):
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 64 * KIB, "more_body": True})
            sent.append(64 * KIB)

    with serve(app, loop) as served, served.client(receive_buffer=65536) as client:
        client.send(GET)
        connection = served.connection()
        wait_for(lambda: connection._outlet.paused)
        stopped_at = len(sent)
        assert connection._transport.get_write_buffer_size() <= PATIENT.unsent_bytes + 65 * KIB
        client.read_exactly(8_000_000)
        wait_for(lambda: len(sent) > stopped_at)


def test_a_large_whole_answer_holds_its_sender_until_it_is_taken(loop):
    over = []

    async def app(scope, receive, send):
        await reply(send, b"x" * 20_000_000)
        over.append(True)

    with serve(app, loop) as served, served.client(receive_buffer=65536) as client:
        client.send(GET)
        client.read_until(b"\r\n\r\n")
        client.read_exactly(1_000_000)
        assert not over
        client.read_exactly(19_000_000)
        assert wait_for(lambda: over)


def test_answers_to_requests_sent_ahead_do_not_pile_up(loop):
    app = Recorder()

    async def large(scope, receive, send):
        app.seen.append((scope["method"], b"", b""))
        await reply(send, b"x" * 500_000)

    with serve(large, loop) as served, served.client(receive_buffer=65536) as client:
        client.send(GET * 60)
        connection = served.connection()
        wait_for(lambda: connection._outlet.paused)
        assert len(app.seen) < 30
        assert connection._transport.get_write_buffer_size() <= PATIENT.unsent_bytes + 500 * KIB
        for _ in range(60):
            assert len(client.read_answer().body) == 500_000


def test_many_slow_readers_take_a_bounded_piece_of_memory_each():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 64 * KIB, "more_body": True})

    with serve(app, unsent_bytes=64 * KIB) as served:
        clients = [served.client(receive_buffer=65536) for _ in range(100)]
        for client in clients:
            client.send(GET)
        wait_for(lambda: sum(connection._outlet.paused for connection in list(served.state.connections)) == 100)
        held = [connection._transport.get_write_buffer_size() for connection in list(served.state.connections)]
        assert max(held) <= 2 * 65 * KIB
        for client in clients:
            client.socket.close()


def test_one_connection_too_many_is_told_so_and_the_others_go_on(loop):
    with serve(Recorder(), loop, connections=2) as served:
        clients = [served.client() for _ in range(2)]
        for client in clients:
            client.ask(GET)
        with served.client() as late:
            answer = late.read_answer()
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert b'"outcome":"not_attempted"' in answer.body
            assert late.read_to_end() == b""
        assert served.counts.refused["too_many_connections"] == 1
        assert clients[0].ask(GET).status == 200
        clients[0].socket.close()
        wait_for(lambda: served.counts.open == 1)
        with served.client() as next_one:
            assert next_one.ask(GET).status == 200
        clients[1].socket.close()


def test_a_crowd_past_the_bound_is_not_even_answered():
    with serve(Recorder(), connections=1) as served:
        first = served.client()
        first.ask(GET)
        second = served.client()
        assert second.read_answer().status == 503
        # The reset may even come while it connects.
        with suppress(ConnectionResetError), served.client() as third:
            assert third.is_ended()
        wait_for(lambda: served.counts.cut["crowd"] == 1)
        assert first.ask(GET).status == 200
        first.socket.close()
        second.socket.close()


def test_a_client_of_these_tests_that_is_turned_away_while_it_connects_leaves_nothing_open():
    """What is left open is closed when it is collected, with a warning that fails whatever test runs then."""
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            RawClient(nobody_listens.getsockname()[1])
    gc.collect()
