"""However a stream of bytes is cut, it says the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest_api.http1 import WireLimits
from ingest_api.http1.rejections import BadRequest
from ingest_api.http1.request_reader import RequestReader
from tests.support.http_streams import cut, cut_streams, streams

LIMITS = WireLimits()
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def read(pieces, limits=LIMITS):
    """The requests in these pieces, what was begun and did not end, and the status of what was wrong."""
    reader = RequestReader(limits)
    whole, current = [], None
    try:
        for piece in pieces:
            reader.give(piece)
            while True:
                if current is None:
                    head = reader.read_head()
                    if head is None:
                        break
                    current = [head.method, head.raw_path, b""]
                current[2] += reader.read_body()
                if reader.in_body:
                    break
                whole.append(tuple(current))
                current = None
    except BadRequest as bad:
        return whole, None, bad.fault.status
    return whole, current, 0


@given(cut_streams())
def test_sound_requests_are_read_as_they_were_sent(case):
    requests, pieces = case
    assert read(pieces) == ([(request.method, request.path, request.body) for request in requests], None, 0)


@st.composite
def damaged(draw):
    """A sound stream with some bytes changed, put in or left out, and two ways to cut it."""
    data = bytearray(b"".join(request.data for request in draw(streams)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
        patch = draw(
            st.sampled_from([b"", b"\n", b"\r", b"\r\n", b" ", b"\0", b":", b"0", b"5", b";", b"\xff", b"A", b"\t"])
        )
        data[place : place + draw(st.integers(0, 2))] = patch
    return draw(cut(bytes(data))), draw(cut(bytes(data)))


@given(damaged())
def test_unsound_requests_are_told_from_sound_ones_at_the_same_place_however_they_are_cut(case):
    one, other = case
    assert read(one) == read(other)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_limit_of_a_head_does_not_depend_on_how_it_is_cut(size):
    limits = replace(LIMITS, head_bytes=100)
    fits = GET[:-2] + b"A: " + b"b" * (100 - len(GET) - 5) + b"\r\n\r\n"
    too_large = GET[:-2] + b"A: " + b"b" * (100 - len(GET) - 4) + b"\r\n\r\n"
    too_long = b"GET /" + b"a" * 100 + GET[5:]
    for data, status in ((fits, 0), (too_large, 431), (too_long, 414)):
        assert read([data[place : place + size] for place in range(0, len(data), size)], limits)[2] == status


def test_a_head_met_again_is_read_the_quick_way_only_when_the_request_is_whole():
    reader = RequestReader(LIMITS)
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    assert reader.read_repeated(request) is None
    reader.give(request)
    head = reader.read_head()
    assert reader.read_body() == b"abc"
    assert reader.read_repeated(request[:-3] + b"def") == (head, b"def")
    assert reader.read_repeated(request[:-1]) is None
    assert reader.read_repeated(request + b"d") is None
    assert reader.read_repeated(request.replace(b"x", b"y")) is None
    reader.give(request[:10])
    assert reader.read_repeated(request) is None


NUMBERED = b"POST /t HTTP/1.1\r\nHost: x\r\nProducer-Seq: %b\r\nContent-Length: 3\r\n\r\nabc"


def beginning_with(request, limits=LIMITS):
    """A reader that has read it."""
    reader = RequestReader(limits)
    reader.give(request)
    assert reader.read_head() is not None
    assert reader.read_body() == b"abc"
    return reader


@pytest.mark.parametrize("number", [b"9", b"10", b"007", b"9" * 19])
@pytest.mark.parametrize("blanks", [b"%b", b" \t%b"])
def test_a_head_that_differs_in_its_number_alone_is_read_the_quick_way(number, blanks):
    first, second = (NUMBERED % (blanks % each) for each in (b"8", number))
    reader = beginning_with(first)
    reader.give(first)
    before = reader.read_head()
    reader.read_body()
    head, body = reader.read_repeated(second)
    assert body == b"abc"
    assert head.headers == beginning_with(second)._last._head.headers
    assert (b"producer-seq", number) in head.headers
    assert (b"producer-seq", b"8") in before.headers
    assert head.notes is before.notes
    reader.give(second[:-3])
    assert reader.read_head() == head


@pytest.mark.parametrize(
    "number", [b"", b"-1", b"+1", b"1 ", b"1,2", b"1\r\nX: 1", b"1\r\n", b"1" * 20, b"\xb2", b"1\0", b"1\r"]
)
def test_what_is_no_plain_number_is_never_taken_for_one(number):
    reader = beginning_with(NUMBERED % b"8")
    request = NUMBERED % number
    assert reader.read_repeated(request) is None
    assert read([NUMBERED % b"8" + request]) == read([NUMBERED % b"8", request])
    fresh, known = RequestReader(LIMITS), reader
    outcomes = []
    for each in (fresh, known):
        each.give(request)
        try:
            outcomes.append(each.read_head())
        except BadRequest as bad:
            outcomes.append(bad.fault.status)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("place", range(len(NUMBERED % b"8") - 3))
def test_a_head_that_differs_in_anything_else_is_read_anew(place):
    request = bytearray(NUMBERED % b"8")
    request[place] ^= 1
    if request[place : place + 1].isdigit() and request[place - 14 : place] == b"Producer-Seq: ":
        return
    assert beginning_with(NUMBERED % b"8").read_repeated(bytes(request)) is None


def test_a_number_that_comes_twice_or_would_make_the_head_too_long_is_read_anew():
    twice = (NUMBERED % b"8").replace(b"Host: x", b"Host: x\r\nproducer-seq: 8")
    assert beginning_with(twice).read_repeated(twice.replace(b"q: 8\r\nC", b"q: 9\r\nC")) is None
    narrow = replace(LIMITS, head_bytes=len(NUMBERED % b"8") - 3)
    assert beginning_with(NUMBERED % b"8", narrow).read_repeated(NUMBERED % b"10") is None


def test_what_was_read_does_not_stay_in_memory():
    reader = RequestReader(LIMITS)
    reader.give(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"a" * 100_000)
    assert reader.read_head()
    assert len(reader.read_body()) == 100_000
    assert reader._buffer == b""
    reader.give(GET[:-2] + b"A: " + b"b" * 30_000 + b"\r\n\r\n")
    assert reader.read_head()
    assert len(reader._last._before) < 100


@pytest.mark.parametrize(
    "begun", [b"3\r\nabcd", b"3\r\nabc\rd", b"g", b"3;\0", b"3;a\rb", b"0\r\nA: \x01", b"0\r\nA: b\rc"]
)
def test_a_chunked_body_that_can_only_be_unsound_is_refused_before_its_line_ends(begun):
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert read([head + begun])[2] == 400


def test_extensions_and_trailers_are_bounded_before_the_body_ends():
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for begun in ((b"1;" + b"e" * 1000 + b"\r\na\r\n") * 9, b"0\r\n" + b"A: b\r\n" * 1500, b"1;" + b"e" * 9000):
        assert read([head + begun])[2] == 400


@pytest.mark.parametrize("begun", [b"\x16\x03\x01", b"get ", b"GET /\n", b"GET / HTTP/1.1\r\nA: \0", b"\rG", b" "])
def test_a_head_that_can_only_be_unsound_is_refused_before_it_ends(begun):
    assert read([begun])[2] == 400
