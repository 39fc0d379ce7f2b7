"""What is not sound HTTP is refused by name, and nothing behind it is ever executed."""

import json

import pytest

from tests.support.raw_http import GET
from tests.support.wire_serving import LOOPS, Recorder, serve

BEHIND = b"GET /behind HTTP/1.1\r\nHost: x\r\n\r\n"


def head(*lines: bytes, first: bytes = b"POST / HTTP/1.1", host: bytes = b"Host: x") -> bytes:
    return b"\r\n".join([first, host, *lines, b"", b""])


def line(first: bytes) -> bytes:
    return head(first=first)


CHUNKED = head(b"Transfer-Encoding: chunked")
REFUSED = {
    "length and coding": head(b"Content-Length: 3", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "coding and length": head(b"Transfer-Encoding: chunked", b"Content-Length: 3") + b"0\r\n\r\n",
    "two lengths": head(b"Content-Length: 3", b"Content-Length: 4") + b"abcd",
    "the same length twice": head(b"Content-Length: 3", b"Content-Length: 3") + b"abc",
    "a list of lengths": head(b"Content-Length: 3, 3") + b"abc",
    "a signed length": head(b"Content-Length: +3") + b"abc",
    "a negative length": head(b"Content-Length: -3"),
    "a hexadecimal length": head(b"Content-Length: 0x3") + b"abc",
    "a length with an underscore": head(b"Content-Length: 1_0"),
    "an empty length": head(b"Content-Length:"),
    "a length with a space": head(b"Content-Length: 1 0"),
    "a length past 64 bits": head(b"Content-Length: 99999999999999999999999"),
    "a length past 18 digits": head(b"Content-Length: 18446744073709551615"),
    "another coding": head(b"Transfer-Encoding: gzip") + b"abc",
    "identity": head(b"Transfer-Encoding: identity"),
    "chunked and another": head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "chunked, then another": head(b"Transfer-Encoding: chunked, gzip") + b"0\r\n\r\n",
    "chunked twice": head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "nearly chunked": head(b"Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "chunked after a vertical tab": head(b"Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n",
    "an empty coding": head(b"Transfer-Encoding:") + b"0\r\n\r\n",
    "chunked in HTTP/1.0": head(b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0") + b"0\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: x\n\n",
    "a bare line feed in the request line": b"GET / HTTP/1.1\nHost: x\r\n\r\n",
    "a bare line feed between fields": head(b"A: b\nC: d"),
    "a bare line feed at the end": b"GET / HTTP/1.1\r\nHost: x\r\n\n",
    "a bare line feed before": b"\n" + GET,
    "a bare carriage return": head(b"A: b\rC: d"),
    "two carriage returns": head(b"A: b\r"),
    "a folded field": head(b"A: b", b" c"),
    "a field folded by a tab": head(b"A: b", b"\tc"),
    "a field folded before it began": head(b"A:", b" c"),
    "a fold in the first line": b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    "a space before the colon": head(b"Content-Length : 3") + b"abc",
    "a tab before the colon": head(b"A\t: b"),
    "no colon": head(b"A"),
    "an empty name": head(b": b"),
    "NUL in a name": head(b"A\0: b"),
    "NUL in a value": head(b"A: \0b"),
    "a control character in a value": head(b"A: \x01b"),
    "DEL in a value": head(b"A: \x7f"),
    "a byte past ASCII in a name": head(b"\xc3\xa9: b"),
    "a bracket in a name": head(b"A(): b"),
    "an unknown method": line(b"FETCH / HTTP/1.1"),
    "a method in small letters": line(b"get / HTTP/1.1"),
    "no method": line(b"/ HTTP/1.1"),
    "a space before the method": b" " + GET,
    "two spaces after the method": line(b"GET  / HTTP/1.1"),
    "two spaces after the target": line(b"GET /  HTTP/1.1"),
    "a tab after the method": line(b"GET\t/ HTTP/1.1"),
    "a space at the line's end": line(b"GET / HTTP/1.1 "),
    "a space in the target": line(b"GET /a b HTTP/1.1"),
    "a control character in the target": line(b"GET /\x01 HTTP/1.1"),
    "NUL in the target": line(b"GET /\0 HTTP/1.1"),
    "a byte past ASCII in the target": line(b"GET /\xc3\xa9 HTTP/1.1"),
    "a fragment in the target": line(b"GET /a#b HTTP/1.1"),
    "a target without a slash": line(b"GET a HTTP/1.1"),
    "a query alone": line(b"GET ?a HTTP/1.1"),
    "an asterisk where it means nothing": line(b"GET * HTTP/1.1"),
    "a URL of another scheme": line(b"GET ftp://x/ HTTP/1.1"),
    "a URL with a user": line(b"GET http://u@x/ HTTP/1.1"),
    "a URL without a host": line(b"GET http:///a HTTP/1.1"),
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/0.9 by name": line(b"GET / HTTP/0.9"),
    "HTTP/1.2": line(b"GET / HTTP/1.2"),
    "HTTP/2.0": line(b"GET / HTTP/2.0"),
    "HTTP/2 by its preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version in small letters": line(b"GET / http/1.1"),
    "a version without a dot": line(b"GET / HTTP/11"),
    "RTSP": line(b"PLAY / RTSP/1.0"),
    "ICE": line(b"SOURCE / ICE/1.0"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": head(b"Host: y"),
    "the same Host twice": head(b"Host: x"),
    "a Host with a path": head(host=b"Host: x/y"),
    "a Host with a user": head(host=b"Host: u@x"),
    "a Host with a space": head(host=b"Host: x y"),
    "a Host with a comma": head(host=b"Host: x,y"),
    "a Host with a port that is none": head(host=b"Host: x:http"),
    "a chunk size that is none": CHUNKED + b"g\r\n",
    "a chunk size with a sign": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "a chunk size with a prefix": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk size with a space": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "a chunk size after a space": CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n",
    "an empty chunk size": CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "an endless chunk size": CHUNKED + b"0" * 20,
    "a chunk size of more than 60 bits": CHUNKED + b"fffffffffffffffff\r\n",
    "a chunk that is longer": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk size ended by a line feed": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "a chunk ended by a line feed": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "a carriage return in an extension": CHUNKED + b"3;a\rb\r\nabc\r\n0\r\n\r\n",
    "NUL in an extension": CHUNKED + b"3;a\0\r\nabc\r\n0\r\n\r\n",
    "an extension without a semicolon": CHUNKED + b"3 a\r\nabc\r\n0\r\n\r\n",
    "endless extensions": CHUNKED + (b"1;" + b"e" * 1000 + b"\r\na\r\n") * 9 + b"0\r\n\r\n",
    "a trailer without a colon": CHUNKED + b"0\r\nA\r\n\r\n",
    "a folded trailer": CHUNKED + b"0\r\nA: b\r\n c\r\n\r\n",
    "a trailer with a control character": CHUNKED + b"0\r\nA: \x01\r\n\r\n",
    "endless trailers": CHUNKED + b"0\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
    "the end of a chunked body ended by a line feed": CHUNKED + b"0\r\n\n",
}
OTHERWISE = {
    "a URL that fills the head": (414, b"GET /" + b"a" * 33000),
    "a URL that is too long in a whole head": (414, b"GET /" + b"a" * 33000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a head that is too large": (431, GET[:-2] + b"A: b\r\n" * 10 + b"B: " + b"c" * 33000),
    "a whole head that is too large": (431, GET[:-2] + b"B: " + b"c" * 33000 + b"\r\n\r\n"),
    "too many fields": (431, GET[:-2] + b"A: b\r\n" * 100 + b"\r\n"),
    "an unknown expectation": (417, head(b"Expect: a-miracle", b"Content-Length: 3") + b"abc"),
    "two expectations": (417, head(b"Expect: 100-continue, x", b"Content-Length: 3") + b"abc"),
    "a tunnel": (501, b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n"),
}
CASES = [(name, 400, data) for name, data in REFUSED.items()]
CASES += [(name, status, data) for name, (status, data) in OTHERWISE.items()]
ACCEPTED = {
    "an empty line before": (b"\r\n" + GET, (b"GET", b"/", b"")),
    "a full head": (GET[:-2] + b"A: b\r\n" * 99 + b"\r\n", (b"GET", b"/", b"")),
    "nearly too large a head": (GET[:-2] + b"B: " + b"c" * 32000 + b"\r\n\r\n", (b"GET", b"/", b"")),
    "nearly too long a URL": (line(b"GET /" + b"a" * 32000 + b" HTTP/1.1"), (b"GET", b"/" + b"a" * 32000, b"")),
    "spaces around a value": (head(b"Content-Length: \t 3 \t ") + b"abc", (b"POST", b"/", b"abc")),
    "an empty value": (head(b"A:", b"Content-Length: 3") + b"abc", (b"POST", b"/", b"abc")),
    "Latin-1 in a value": (head(b"A: \xe9", b"Content-Length: 3") + b"abc", (b"POST", b"/", b"abc")),
    "chunked in capitals": (head(b"Transfer-Encoding: CHUNKED") + b"3\r\nabc\r\n0\r\n\r\n", (b"POST", b"/", b"abc")),
    "zeros before a chunk size": (CHUNKED + b"00003\r\nabc\r\n000\r\n\r\n", (b"POST", b"/", b"abc")),
    "extensions": (CHUNKED + b'3;a="b c";d\r\nabc\r\n0;e\r\n\r\n', (b"POST", b"/", b"abc")),
    "trailers": (CHUNKED + b"3\r\nabc\r\n0\r\nContent-Length: 9\r\nB: \r\n\r\n", (b"POST", b"/", b"abc")),
    "an empty chunked body": (CHUNKED + b"0\r\n\r\n", (b"POST", b"/", b"")),
    "a body of a GET": (head(b"Content-Length: 3", first=b"GET / HTTP/1.1") + b"abc", (b"GET", b"/", b"abc")),
    "a URL": (line(b"GET http://h:80/a?b HTTP/1.1"), (b"GET", b"/a", b"")),
    "a URL without a path": (line(b"GET HTTPS://h HTTP/1.1"), (b"GET", b"/", b"")),
    "a URL with a query alone": (line(b"GET http://h?q HTTP/1.1"), (b"GET", b"/", b"")),
    "all of a server": (line(b"OPTIONS * HTTP/1.1"), (b"OPTIONS", b"*", b"")),
    "an empty Host": (head(host=b"Host:", first=b"GET / HTTP/1.1"), (b"GET", b"/", b"")),
    "an IPv6 Host": (head(host=b"Host: [::1]:8082", first=b"GET / HTTP/1.1"), (b"GET", b"/", b"")),
    "a web socket": (head(b"Connection: upgrade", b"Upgrade: websocket", first=b"GET / HTTP/1.1"), (b"GET", b"/", b"")),
    "HTTP/2 offered": (
        head(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 3") + b"abc",
        (b"POST", b"/", b"abc"),
    ),
}


@pytest.fixture(params=LOOPS, scope="module")
def strict(request):
    app = Recorder()
    with serve(app, request.param) as served:
        yield served, app


@pytest.mark.parametrize(("status", "data"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_unsound_bytes_are_refused_and_nothing_behind_them_is_executed(strict, status, data):
    served, app = strict
    app.seen.clear()
    with served.client() as client:
        client.send(data + BEHIND)
        answer = client.read_answer()
        assert answer.status == status
        assert answer.headers["connection"] == "close"
        assert answer.headers["content-type"] == "application/json"
        content = json.loads(answer.body)
        assert content["error_code"] == status
        assert len(content["message"]) > 10
        assert client.read_to_end() == b""
    assert app.seen == []


@pytest.mark.parametrize(("status", "data"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_unsound_bytes_are_refused_behind_a_sound_request_too(strict, status, data):
    served, app = strict
    app.seen.clear()
    with served.client() as client:
        client.send(GET + data + BEHIND)
        assert client.read_answer().body == b"GET / "
        assert client.read_answer().status == status
        assert client.read_to_end() == b""
    assert [path for _, path, _ in app.seen] == [b"/"]


@pytest.mark.parametrize(("data", "request_read"), ACCEPTED.values(), ids=ACCEPTED)
def test_unusual_bytes_that_are_sound_are_read_and_the_next_request_too(strict, data, request_read):
    served, _ = strict
    with served.client() as client:
        client.send(data + BEHIND)
        assert client.read_answer().body == b"%b %b %b" % request_read
        assert client.read_answer().body == b"GET /behind "


def test_a_refusal_is_counted_by_its_reason():
    with serve(Recorder()) as served, served.client() as client:
        client.ask(line(b"CONNECT x:80 HTTP/1.1"))
        assert dict(served.counts.refused) == {"no_tunnels": 1}


def test_a_client_that_is_still_sending_reads_its_refusal():
    with serve(Recorder()) as served, served.client() as client:
        client.send(head(b"Content-Length: 4000000", b"Content-Length: 4000000"))
        client.send(b"a" * 4_000_000)
        assert client.read_answer().status == 400
        assert client.read_to_end() == b""
