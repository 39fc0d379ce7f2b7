"""Apps that fail: never a word of why on the wire, and never an answer that only seems to be whole."""

import json
import logging

import pytest

from tests.support.raw_http import GET, OLD, Cut
from tests.support.serving import wait_for
from tests.support.wire_serving import LOOPS, answering, piece, reply, serve, start


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


def test_a_stream_to_http_1_0_that_breaks_off_is_not_taken_for_whole(loop, caplog):
    app = answering(start(), piece(b"he", more=True))
    with caplog.at_level(logging.CRITICAL), serve(app, loop) as served, served.client() as client:
        client.send(OLD)
        with pytest.raises(ConnectionResetError):
            client.read_to_end()
    assert served.counts.cut["unfinished"] == 1


def test_a_failing_app_is_answered_for_without_its_details(loop, caplog):
    async def app(scope, receive, send):
        raise ValueError("secret")

    with caplog.at_level(logging.CRITICAL), serve(app, loop) as served, served.client() as client:
        client.send(GET + GET)
        answer = client.read_answer()
        assert client.read_to_end() == b""
    assert answer.status == 500
    assert answer.headers["connection"] == "close"
    assert json.loads(answer.body) == {"error_code": 50000, "message": "internal error", "outcome": "unknown"}
    assert served.counts.failed == 1


def test_a_failure_is_logged_with_its_trace(caplog):
    async def app(scope, receive, send):
        raise ValueError("secret")

    with serve(app) as served, served.client() as client:
        client.ask(b"GET /here HTTP/1.1\r\nHost: x\r\n\r\n")
    (record,) = [record for record in caplog.records if record.name == "lakelog.wire"]
    assert "/here" in record.getMessage()
    assert record.exc_info is not None


SHORT = (b"content-length", b"9")
BROKEN_OFF = {
    "chunked": answering(start(), piece(b"hello", more=True)),
    "with a length": answering(start(200, SHORT), piece(b"hello", more=True)),
    "shorter than its length": answering(start(200, SHORT), piece(b"hello", more=True), piece(b"")),
    "longer than its length": answering(start(200, SHORT), piece(b"hello", more=True), piece(b"hello")),
}


@pytest.mark.parametrize("app", BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_an_answer_that_breaks_off_is_never_taken_for_whole(loop, caplog, app):
    with caplog.at_level(logging.CRITICAL), serve(app, loop) as served, served.client() as client:
        with pytest.raises(Cut):
            client.ask(GET)
        assert wait_for(lambda: served.counts.cut["unfinished"]) == 1
        wait_for(lambda: served.counts.open == 0)


MISREAD = {
    "a line break in a value": answering(start(200, (b"a", b"b\r\nc: d")), piece(b"")),
    "a line feed in a value": answering(start(200, (b"a", b"b\nc: d")), piece(b"")),
    "a carriage return in a value": answering(start(200, (b"a", b"b\rc")), piece(b"")),
    "NUL in a value": answering(start(200, (b"a", b"b\0c")), piece(b"")),
    "a line break in a name": answering(start(200, (b"a: b\r\nc", b"d")), piece(b"")),
    "a wrong length": answering(start(200, (b"content-length", b"3")), piece(b"hello")),
    "two lengths": answering(start(200, (b"Content-Length", b"5"), (b"content-length", b"5")), piece(b"hello")),
    "a length that is none": answering(start(200, (b"content-length", b"five")), piece(b"hello")),
    "a framing of its own": answering(start(200, (b"transfer-encoding", b"chunked")), piece(b"hello")),
    "a status that is none": answering(start(99), piece(b"hello")),
    "no start": answering(piece(b"hello")),
    "two starts": answering(start(), start(), piece(b"hello")),
    "nothing": answering(),
    "a start alone": answering(start()),
}


@pytest.mark.parametrize("app", MISREAD.values(), ids=MISREAD)
def test_an_answer_that_would_be_misread_is_a_failure_of_the_app(caplog, app):
    with caplog.at_level(logging.CRITICAL), serve(app) as served, served.client() as client:
        assert client.ask(GET).status == 500
        assert client.read_to_end() == b""


def test_what_an_app_does_wrong_after_its_answer_is_logged_and_the_connection_goes_on(caplog):
    async def app(scope, receive, send):
        await reply(send, b"x")
        raise ValueError("late")

    with caplog.at_level(logging.CRITICAL), serve(app) as served, served.client() as client:
        assert client.ask(GET).body == client.ask(GET).body == b"x"
        assert wait_for(lambda: served.counts.failed == 2)
