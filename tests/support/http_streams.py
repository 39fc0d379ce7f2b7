"""Streams of sound HTTP requests, in every form, and cuts through them, for Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

bodies = st.binary(max_size=60) | st.sampled_from(
    [b"0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n\r\n", b"\n"]
)
paths = st.text("abc/%", max_size=6).map(lambda text: b"/" + text.encode())
extensions = st.sampled_from([b"", b"", b";a", b';a="b;c"', b"; \t"])
trailers = st.sampled_from([b"", b"", b"A: b\r\n", b"A:\r\nContent-Length: 5\r\n"])
between = st.sampled_from([b"", b"", b"\r\n", b"\r\n\r\n"])


@dataclass(frozen=True)
class Sent:
    """A request: what it says, and its bytes."""

    method: str
    path: bytes
    body: bytes
    data: bytes


@st.composite
def plain(draw):
    method, path = draw(st.sampled_from(["GET", "DELETE"])), draw(paths)
    return Sent(method, path, b"", b"%b %b HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n" % (method.encode(), path))


@st.composite
def counted(draw):
    path, body = draw(paths), draw(bodies)
    return Sent(
        "POST", path, body, b"POST %b HTTP/1.1\r\nHost: x\r\ncontent-length:%d\r\n\r\n%b" % (path, len(body), body)
    )


@st.composite
def chunked(draw):
    path, pieces = draw(paths), draw(st.lists(bodies.filter(bool), max_size=4))
    chunks = [b"%x%b\r\n%b\r\n" % (len(piece), draw(extensions), piece) for piece in pieces]
    head = b"PUT %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    end = b"0%b\r\n%b\r\n" % (draw(extensions), draw(trailers))
    return Sent("PUT", path, b"".join(pieces), head + b"".join(chunks) + end)


@st.composite
def sent(draw):
    request = draw(plain() | counted() | chunked())
    return Sent(request.method, request.path, request.body, draw(between) + request.data)


streams = st.lists(sent(), min_size=1, max_size=5)


@st.composite
def cut_streams(draw):
    """Requests, and the bytes of all of them in pieces."""
    requests = draw(streams)
    return requests, draw(cut(b"".join(request.data for request in requests)))


@st.composite
def cut(draw, data):
    places = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=30)))
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True) if begin < end]
