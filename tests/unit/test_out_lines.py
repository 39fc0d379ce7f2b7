"""NDJSON: one line for each record, whatever its bytes are."""

import json

import pytest

from ingest_api.formats.encode import open_writer
from ingest_api.formats.encode.json_values import MAX_DEPTH, MAX_DIGITS
from ingest_api.formats.encode.ndjson import LineWriter
from ingest_api.web.negotiation import Format
from tests.support.fetched_batches import Stored, batch_of, numbered, written

NESTED = [b"[" * depth + b"]" * depth for depth in (MAX_DEPTH, MAX_DEPTH + 1, 990, 100_000)]


def lines(*values, decode="auto"):
    body = written(LineWriter(decode), [(0, [batch_of(numbered([Stored(value) for value in values]))])])
    assert body.endswith(b"\n")
    return body[:-1].split(b"\n")


def text_of(value, decode="auto"):
    """What stands where the value is, byte by byte; the same alone and among others."""
    (line,) = lines(value, decode=decode)
    alone = line.split(b'"value":', 1)[1].removesuffix(b',"headers":[]}')
    for others in ([b"1"], [b"\xff"], [b"text"], [None]):
        assert lines(*others, value, *others, decode=decode)[1].endswith(b'"value":' + alone + b',"headers":[]}')
    return alone


def test_a_line_has_exactly_its_members_in_their_order():
    stored = Stored(b"[1]", b"k", [("h", b"x")], offset=7, timestamp=5)
    assert written(LineWriter(), [(2, [batch_of([stored])])]) == (
        b'{"partition":2,"offset":7,"timestamp":5,"key":"k","value":[1],"headers":[{"name":"h","value":"eA=="}]}\n'
    )


@pytest.mark.parametrize(
    "value",
    [
        b"1e999",
        b"-0",
        b"0.10",
        b"123456789012345678901234567890",
        b'"\\u0041\\/\\ud83d\\ude00"',
        b'{"a":1,"a":2}',
        b'{ "spaces" : [ 1 ,\t2 ] }',
        b"null",
        b'"\x7f"',
        '"é"'.encode(),
        b"9" * MAX_DIGITS,
        b'"' + b"9" * 5_000 + b'"',
        b'["' + b"[" * 500 + b'\\"' + b"[" * 500 + b'"]',
        b"[" + b",".join([b"[]"] * 500) + b"]",
        b'["\\\\","' + b"[" * 250 + b'"]',
        NESTED[0],
        b"[" * (MAX_DEPTH - 1) + b"[],[]" + b"]" * (MAX_DEPTH - 1),
    ],
)
def test_json_is_shown_as_it_is_spelled(value):
    assert text_of(value) == value


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"plain text",
        b"1,2",
        b"[1",
        b"2]",
        b"1 2",
        b"1\n2",
        b"NaN",
        b"-Infinity",
        b"01",
        b"1.",
        b"'a'",
        b"[1,]",
        b'{"a":1,}',
        b"nul",
        b"trueish",
        b'"\\ud800"',
        b'"\\ud800abcdef"',
        b'"\\ude00\\ud83d"',
        b'{"\\udfff":1}',
        b'"tab\tinside"',
        b'"\\x41"',
        b"\xef\xbb\xbf1",
        b"\x00",
        b'","value":"',
        b"9" * (MAX_DIGITS + 1),
        b"-" + b"9" * (MAX_DIGITS + 1),
        b'["' + b"9" * 5_000 + b'",-1.' + b"9" * (MAX_DIGITS + 1) + b"]",
        *NESTED[1:],
    ],
)
def test_text_that_is_no_strict_json_is_shown_as_a_string(value):
    assert json.loads(text_of(value)) == value.decode()


@pytest.mark.parametrize(
    "value", [b"\xff", b'"\xff"', b'{"\xed\xa0\x80":1}', b"\xfe\xff\x001", b'["' + b"\xc0\x80" * 200 + b'"]']
)
def test_bytes_that_are_no_text_are_shown_as_base64(value):
    import base64

    assert json.loads(text_of(value)) == {"base64": base64.b64encode(value).decode()}


def test_white_space_around_json_is_removed():
    assert text_of(b" 1\n") == b"1"
    assert text_of(b'\t{"a": 1} ') == b'{"a": 1}'


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_json_over_several_lines_is_put_on_one(line_end):
    pretty = b'{"a": [1.0e5,\n 2],\n "b c": "x  \\n\\u0041"}\n'.replace(b"\n", line_end)
    assert text_of(pretty) == text_of(pretty.strip()) == b'{"a":[1.0e5,2],"b c":"x  \\n\\u0041"}'


def test_no_reader_finds_the_end_of_a_line_inside_a_record():
    ends = "a\u2028b\u2029c\x85d\ne\rf\x0bg\x0ch\x1ci\x1dj\x1ek"
    values = [ends.encode(), json.dumps(ends, ensure_ascii=False).encode(), '"\u2028\x85"'.encode()]
    body = written(LineWriter(), [(0, [batch_of(numbered([Stored(value) for value in values]))])]).decode()
    assert len(body.splitlines()) == 3
    assert [json.loads(line)["value"] for line in body.splitlines()] == [ends, ends, "\u2028\x85"]


def test_values_that_are_json_only_together_are_text():
    for values in ([b"[1", b"2]"], [b"[1", b"2]", b"3,4"], [b"1,2", b'{"a":3', b'"b":4}']):
        assert [json.loads(line)["value"] for line in lines(*values)] == [value.decode() for value in values]


def test_decode_string_shows_json_as_the_text_that_it_is():
    assert json.loads(text_of(b"[1]", "string")) == "[1]"
    assert json.loads(text_of(b"", "string")) == ""
    assert json.loads(text_of(b"\xff", "string")) == {"base64": "/w=="}


def test_decode_base64_shows_a_plain_string_and_keeps_null_apart_from_empty():
    assert json.loads(text_of(b"[1]", "base64")) == "WzFd"
    assert json.loads(text_of(b"\xff", "base64")) == "/w=="
    assert json.loads(text_of(b"", "base64")) == ""
    assert text_of(None, "base64") == b"null"


def test_decode_json_falls_back_as_auto_does():
    for value in (b"[1]", b"text", b"\xff", b"", None):
        assert text_of(value, "json") == text_of(value, "auto")


def test_nothing_to_show_is_no_line():
    assert written(LineWriter(), [(0, []), (1, [batch_of([])])]) == b""


def test_octets_are_no_format_of_a_read():
    with pytest.raises(ValueError, match="octets"):
        open_writer(Format.OCTETS, "t")


@pytest.mark.parametrize("media", [media for media in Format if media is not Format.OCTETS])
def test_every_format_of_a_read_has_a_writer_that_names_it(media):
    assert open_writer(media, "t").content_type == media.value.encode()
