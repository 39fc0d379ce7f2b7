"""What the wire offers beyond ASGI: the whole body and the whole answer in one step each."""

import pytest

from ingest_api.http1.asgi import AT_ONCE
from tests.support.raw_http import GET
from tests.support.serving import wait_for
from tests.support.wire_serving import LOOPS, reply, serve

POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
FIELDS = b"x-thing: a\r\n"


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


class Echo:
    """Answers at once with the body; `bodies` is what it could take at once."""

    def __init__(self):
        self.bodies = []
        self.more = b""

    async def __call__(self, scope, receive, send):
        at_once = scope["extensions"][AT_ONCE]
        body = at_once.take_body()
        self.bodies.append(body)
        if body is None:
            body, more = b"", True
            while more:
                message = await receive()
                body += message["body"]
                more = message["more_body"]
        if not at_once.answer(200, FIELDS, body + self.more):
            await at_once.drain()


def test_a_whole_request_is_answered_in_two_steps(loop):
    app = Echo()
    with serve(app, loop) as served, served.client() as client:
        for _ in range(3):
            answer = client.ask(POST + b"hello")
            assert answer.headers == {"x-thing": "a", "content-length": "5"}
            assert answer.body == b"hello"
    assert app.bodies == [b"hello"] * 3


def test_an_answer_at_once_is_one_write():
    with serve(Echo()) as served, served.client() as client:
        client.send(GET)
        assert client.socket.recv(1 << 16) == b"HTTP/1.1 200 OK\r\nx-thing: a\r\ncontent-length: 0\r\n\r\n"


def test_a_body_that_is_not_all_there_is_still_to_be_received(loop):
    app = Echo()
    with serve(app, loop) as served, served.client() as client:
        client.send(POST + b"he")
        wait_for(lambda: app.bodies == [None])
        assert client.ask(b"llo").body == b"hello"
        assert client.ask(POST + b"again").body == b"again"
    assert app.bodies == [None, b"again"]


def test_a_body_is_taken_once():
    seen = []

    async def app(scope, receive, send):
        at_once = scope["extensions"][AT_ONCE]
        seen.append((at_once.take_body(), at_once.take_body()))
        await reply(send, b"")

    with serve(app) as served, served.client() as client:
        client.ask(POST + b"hello")
    assert seen == [(b"hello", None)]


def test_an_answer_to_head_at_once_has_the_length_and_no_body(loop):
    app = Echo()
    app.more = b"hello"
    with serve(app, loop) as served, served.client() as client:
        for _ in range(2):
            answer = client.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", to_head=True)
            assert answer.headers == {"x-thing": "a", "content-length": "5"}
        assert client.ask(GET).body == b"hello"


@pytest.mark.parametrize(
    ("request_head", "connection"),
    [
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive"),
        (b"GET / HTTP/1.0\r\n\r\n", "close"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "close"),
    ],
)
def test_an_answer_at_once_says_what_becomes_of_the_connection(request_head, connection):
    with serve(Echo()) as served, served.client() as client:
        assert client.ask(request_head).headers["connection"] == connection


def test_a_second_answer_is_an_error_and_goes_nowhere():
    errors = []

    async def app(scope, receive, send):
        at_once = scope["extensions"][AT_ONCE]
        at_once.answer(200, b"", b"one")
        for again in (lambda: at_once.answer(200, b"", b"two"), lambda: reply(send, b"three")):
            try:
                outcome = again()
                if outcome is not True:
                    await outcome
            except RuntimeError as error:
                errors.append(str(error))

    with serve(app) as served, served.client() as client:
        assert client.ask(GET).body == b"one"
        assert client.ask(GET).body == b"one"
    assert len(errors) == 4


def test_notes_of_a_head_are_found_with_the_same_head_on_the_same_connection_alone():
    seen = []

    async def app(scope, receive, send):
        notes = scope["extensions"][AT_ONCE].notes
        seen.append(dict(notes))
        notes["path"] = scope["path"]
        await reply(send, b"")

    with serve(app) as served, served.client() as client, served.client() as other:
        client.ask(GET)
        client.ask(GET)
        other.ask(GET)
        client.ask(GET.replace(b"/", b"/b", 1))
    assert seen == [{}, {"path": "/"}, {}, {}]


def test_an_answer_for_who_hung_up_keeps_nobody_waiting(loop):
    done = []

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        at_once = scope["extensions"][AT_ONCE]
        if not at_once.answer(200, b"", b"x" * 1_000_000):
            await at_once.drain()
        done.append(True)

    with serve(app, loop) as served:
        with served.client() as client:
            client.send(GET)
            wait_for(lambda: served.state.tasks)
        wait_for(lambda: done)
        wait_for(lambda: not served.state.tasks)


def test_a_slow_reader_is_waited_for(loop):
    app = Echo()
    app.more = b"y" * 30_000_000
    with serve(app, loop) as served, served.client() as client:
        client.send(GET)
        wait_for(lambda: app.bodies)
        assert served.state.tasks
        assert client.read_answer().body == app.more
        wait_for(lambda: not served.state.tasks)
