"""What an app is given of a request, and how its answers stand on the wire. Long, as each rule is a few lines of it."""

import asyncio
from contextlib import suppress

import pytest

from ingest_api.http1.asgi import AT_ONCE
from tests.support.raw_http import GET, OLD, RawClient
from tests.support.serving import wait_for
from tests.support.wire_serving import LOOPS, Recorder, answering, piece, reply, serve, start


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


def test_an_app_sees_the_request_as_asgi_has_it(loop):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        client.ask(b"GET /a%2Fb%20%C3%A9%FF?x=%201 HTTP/1.1\r\nHost: h\r\nX-Thing: A\r\nX-Thing: b\r\n\r\n")
        scope = app.scopes[0]
        assert scope["client"] == client.socket.getsockname()
        assert scope["server"] == ("127.0.0.1", served.port)
    facts = {name: value for name, value in scope.items() if name not in ("client", "server")}
    assert facts == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a/b é�",
        "raw_path": b"/a%2Fb%20%C3%A9%FF",
        "query_string": b"x=%201",
        "root_path": "",
        "headers": [(b"host", b"h"), (b"x-thing", b"A"), (b"x-thing", b"b")],
        "state": {"shared": True},
        "extensions": {AT_ONCE: scope["extensions"][AT_ONCE]},
    }


def test_the_authority_of_a_url_counts_and_not_the_host_field():
    app = Recorder()
    with serve(app) as served, served.client() as client:
        client.ask(b"GET http://real:81/a?b HTTP/1.1\r\nHost: other\r\n\r\n")
    assert app.scopes[0]["headers"] == [(b"host", b"real:81")]
    assert app.scopes[0]["query_string"] == b"b"


def test_what_one_request_does_to_its_headers_does_not_meet_the_next():
    seen = []

    async def app(scope, receive, send):
        seen.append(list(scope["headers"]))
        scope["headers"].append((b"mine", b"1"))
        await reply(send, b"")

    with serve(app) as served, served.client() as client:
        client.ask(GET)
        client.ask(GET)
    assert seen == [[(b"host", b"x")]] * 2


def test_requests_with_the_head_of_the_one_before_are_told_apart_by_their_bodies(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        for body in (b"abc", b"def", b"ghi"):
            request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n" + body
            assert client.ask(request).body == b"POST / " + body


def test_head_and_body_of_a_whole_answer_are_one_write():
    with serve(Recorder()) as served, served.client() as client:
        client.send(GET)
        assert client.socket.recv(1 << 16) == b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nGET / "


def test_the_default_headers_of_the_server_are_on_every_answer_and_a_new_list_replaces_them():
    with serve(Recorder()) as served, served.client() as client:
        served.state.default_headers = [(b"date", b"today")]
        assert client.ask(GET).headers["date"] == "today"
        served.state.default_headers = [(b"date", b"tomorrow")]
        assert client.ask(GET).headers["date"] == "tomorrow"
        assert client.ask(b"bad\r\n\r\n").headers["date"] == "tomorrow"


def test_an_answer_to_head_has_the_length_and_no_body(loop):
    app = answering(start(200, (b"content-length", b"5")), piece(b"hello"))
    with serve(app, loop) as served, served.client() as client:
        for _ in range(2):
            answer = client.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", to_head=True)
            assert answer.headers == {"content-length": "5"}
        assert client.ask(GET).body == b"hello"


def test_a_streamed_answer_to_head_has_no_body_either():
    app = answering(start(), piece(b"hello", more=True), piece(b""))
    with serve(app) as served, served.client() as client:
        assert client.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", to_head=True).headers == {}
        assert client.ask(GET).body == b"hello"


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body_have_none_whatever_the_app_sends(status):
    app = answering(start(status, (b"content-length", b"5")), piece(b"hello"))
    with serve(app) as served, served.client() as client:
        assert client.ask(GET) == client.ask(GET)
        assert client.ask(GET).headers == {}


def test_a_streamed_answer_without_a_length_is_chunked(loop):
    app = answering(
        start(), piece(b"he", more=True), piece(b"", more=True), piece(b"llo" * 50_000, more=True), piece(b"")
    )
    with serve(app, loop) as served, served.client() as client:
        for _ in range(2):
            answer = client.ask(GET)
            assert answer.headers == {"transfer-encoding": "chunked"}
            assert answer.body == b"he" + b"llo" * 50_000


def test_a_streamed_answer_with_a_length_is_not_chunked(loop):
    app = answering(start(200, (b"content-length", b"5")), piece(b"he", more=True), piece(b"llo"))
    with serve(app, loop) as served, served.client() as client:
        assert client.ask(GET).body == client.ask(GET).body == b"hello"


def test_a_large_whole_answer_arrives_whole(loop):
    body = bytes(range(256)) * 20_000
    with serve(answering(start(), piece(body)), loop) as served, served.client() as client:
        for _ in range(2):
            assert client.ask(GET).body == body


def test_the_head_of_a_stream_is_sent_with_its_first_piece_even_an_empty_one():
    begun = asyncio.Event()

    async def app(scope, receive, send):
        await send(start())
        await send(piece(b"", more=True))
        await begun.wait()
        await send(piece(b"x"))

    with serve(app) as served, served.client() as client:
        client.send(GET)
        assert client.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 200")

        async def go_on():
            begun.set()

        served.act(go_on())
        assert client.read_until(b"0\r\n\r\n") == b"1\r\nx\r\n0\r\n\r\n"


def test_http_1_0_is_answered_and_closed(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        answer = client.ask(OLD)
        assert answer.body == b"GET / "
        assert answer.headers["connection"] == "close"
        assert client.read_to_end() == b""


def test_http_1_0_is_kept_alive_when_it_asks():
    with serve(Recorder()) as served, served.client() as client:
        for _ in range(2):
            answer = client.ask(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
            assert answer.headers["connection"] == "keep-alive"


def test_a_stream_to_http_1_0_ends_with_its_connection_and_knows_no_chunks(loop):
    app = answering(start(), piece(b"he", more=True), piece(b"llo"))
    with serve(app, loop) as served, served.client() as client:
        answer = client.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert answer.headers == {"connection": "close"}
        assert answer.body == b"hello"


@pytest.mark.parametrize(
    "field", [b"Connection: close", b"Connection: x, Close", b"Connection: x\r\nConnection: close"]
)
def test_a_client_that_wants_its_connection_closed_is_answered_and_the_rest_not_executed(loop, field):
    app = Recorder()
    with serve(app, loop) as served, served.client() as client:
        client.send(GET[:-2] + field + b"\r\n\r\n" + GET)
        assert client.read_answer().headers["connection"] == "close"
        assert client.read_to_end() == b""
    assert len(app.seen) == 1


def test_an_app_can_close_the_connection():
    with serve(answering(start(200, (b"connection", b"close")), piece(b"x"))) as served, served.client() as client:
        assert client.ask(GET).headers["connection"] == "close"
        assert client.read_to_end() == b""


def test_requests_sent_ahead_are_answered_in_their_order_one_at_a_time(loop):
    at_work = most = 0

    async def app(scope, receive, send):
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.001 if scope["path"] in ("/0", "/7") else 0)
        await reply(send, scope["raw_path"])
        at_work -= 1

    with serve(app, loop) as served, served.client() as client:
        client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(500)))
        assert [client.read_answer().body for _ in range(500)] == [b"/%d" % number for number in range(500)]
    assert most == 1


def test_a_body_is_asked_for_only_when_the_app_wants_it(loop):
    with serve(Recorder(), loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n")
        assert client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert client.ask(b"abc").body == b"POST / abc"
        assert client.ask(GET).body == b"GET / "


def test_a_body_that_came_unasked_is_not_asked_for():
    with serve(Recorder()) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
        assert client.read_answer().status == 200


def test_a_body_that_there_is_not_is_never_asked_for():
    async def app(scope, receive, send):
        await receive()
        waiting = asyncio.create_task(receive())
        await asyncio.sleep(0)
        await reply(send, b"x")
        assert (await waiting)["type"] == "http.disconnect"

    with serve(app) as served, served.client() as client:
        assert client.ask(GET[:-2] + b"Expect: 100-continue\r\n\r\n").status == 200
        assert client.ask(GET).status == 200


def test_a_body_that_is_not_wanted_is_not_asked_for_and_the_connection_ends(loop):
    with serve(answering(start(413), piece(b"no")), loop) as served, served.client() as client:
        answer = client.ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert answer.status == 413
        assert answer.headers["connection"] == "close"
        assert client.read_to_end() == b""


def test_an_expectation_of_http_1_0_means_nothing():
    with serve(Recorder()) as served, served.client() as client:
        answer = client.ask(b"POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
        assert answer.body == b"POST / abc"


def test_an_answer_before_the_body_ended_reaches_a_client_that_is_still_sending(loop):
    with serve(answering(start(413), piece(b"too large")), loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n")
        client.send(b"a" * 8_000_000 + GET)
        answer = client.read_answer()
        assert (answer.status, answer.body) == (413, b"too large")
        assert answer.headers["connection"] == "close"
        assert client.read_to_end() == b""
        wait_for(lambda: served.counts.requests == 1)


def test_after_the_answer_an_app_that_goes_on_does_not_hold_up_the_next_request(loop):
    gone = []

    async def app(scope, receive, send):
        await reply(send, b"x")
        await receive()
        gone.append(await receive())

    with serve(app, loop) as served, served.client() as client:
        assert client.ask(GET).body == client.ask(GET).body == b"x"
        assert wait_for(lambda: len(gone) == 2)
    assert gone[0] == {"type": "http.disconnect"}


def test_a_request_body_and_its_answer_can_stream_at_the_same_time(loop):
    async def app(scope, receive, send):
        await send(start())
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await send(piece(message["body"].upper(), more=more))

    with serve(app, loop) as served, served.client() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        assert client.read_until(b"1\r\nA\r\n").endswith(b"\r\n\r\n1\r\nA\r\n")
        client.send(b"1\r\nb\r\n")
        assert client.read_exactly(6) == b"1\r\nB\r\n"
        client.send(b"0\r\n\r\n")
        assert client.read_to_end() == b"0\r\n\r\n"


def test_a_small_body_is_one_message_however_many_bytes_it_has(loop):
    messages = []

    async def app(scope, receive, send):
        messages.append(await receive())
        await reply(send, b"")

    body = b"a" * 10_000
    with serve(app, loop) as served, served.client() as client:
        client.ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n" + body)
    assert messages == [{"type": "http.request", "body": body, "more_body": False}]


def test_counts_tell_what_happened():
    with serve(Recorder()) as served:
        with served.client() as client:
            client.ask(GET)
            client.ask(GET)
            counts = served.counts
            wait_for(lambda: counts.requests == 2)
            assert (counts.open, counts.accepted, counts.requests, counts.bytes_in) == (1, 1, 2, 2 * len(GET))
            assert counts.bytes_out == 2 * len(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nGET / ")
            assert served.state.total_requests == 2
        wait_for(lambda: served.counts.open == 0)
        with suppress(OSError), RawClient(served.port) as other:
            other.ask(GET)
        assert served.counts.accepted == 2
    assert served.state.tasks == set()
