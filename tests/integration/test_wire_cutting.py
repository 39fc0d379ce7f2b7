"""However requests are cut on their way, the app sees the same ones, and the same answers come back."""

import asyncio
import socket
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from uvicorn.server import ServerState

from ingest_api.http1 import WireCounts, WireLimits, protocol_class
from tests.support.http_streams import cut_streams
from tests.support.wire_serving import LOOPS, Recorder


class Config:
    loaded = True

    def __init__(self, app):
        self.loaded_app = app


@contextmanager
def connected(loop, app):
    """A connection in a loop that runs only when it is told to: its counts, and the other end."""
    counts, state = WireCounts(), ServerState()
    kind = protocol_class(WireLimits(), counts, lambda: 0.0)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    try:
        made = loop.connect_accepted_socket(lambda: kind(Config(app), state, {}, loop), ours)
        transport, _ = loop.run_until_complete(made)
        yield counts, theirs
        transport.abort()
        while counts.open or state.tasks:
            loop.run_until_complete(asyncio.sleep(0))
    finally:
        theirs.close()
        ours.close()


@pytest.mark.parametrize("loop_name", LOOPS)
def test_any_cutting_of_requests_gives_the_same_requests_and_answers(loop_name):
    loop = LOOPS[loop_name]()

    @settings(max_examples=60)
    @given(cut_streams())
    def check(case):
        requests, pieces = case
        expected = [(request.method, request.path, request.body) for request in requests]
        bodies = [b"%b %b %b" % (method.encode(), path, body) for method, path, body in expected]
        answers = b"".join(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)
        app = Recorder()
        with connected(loop, app) as (counts, other_end):
            sent = tries = 0
            for piece in pieces:
                other_end.send(piece)
                sent += len(piece)
                while counts.bytes_in < sent:
                    loop.run_until_complete(asyncio.sleep(0))
            came = b""
            while len(came) < len(answers):
                loop.run_until_complete(asyncio.sleep(0))
                try:
                    came += other_end.recv(1 << 16)
                except BlockingIOError:
                    tries += 1
                    assert tries < 10_000
        assert came == answers
        assert app.seen == expected

    try:
        check()
    finally:
        loop.close()
