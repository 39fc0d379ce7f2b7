"""Laws of the JSON formats, against an oracle that shares no code with them."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ingest_api.formats.encode import Writer
from ingest_api.formats.encode.envelope import EnvelopeWriter
from ingest_api.formats.encode.events import EventWriter
from ingest_api.formats.encode.json_values import MAX_DEPTH, MAX_DIGITS
from ingest_api.formats.encode.ndjson import LineWriter
from tests.support.fetched_batches import Stored, batch_of, numbered, written

PIECES = [
    *(b"[", b"]", b"{", b"}", b'"', b",", b":", b"\\", b"\\u", b"d800", b"\\udc00", b"1", b"-", b".", b"e9", b"0"),
    *(b"null", b"true", b"a", b" ", b"\n", b"\r", b"\t", b"\x00", b"\xff", b"\xc3", b"\xa9", b"\xef\xbb\xbf"),
    *("\u2028".encode(), "\x85".encode(), b'"a"', b'{"a":1}', b"[1,2]", b"[" * 101, b"]" * 101, b"7" * 999, b"NaN"),
]
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
spelled = st.builds(
    lambda document, ascii_only, indent: json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode(),
    documents,
    st.booleans(),
    st.none() | st.integers(0, 2),
)
contents = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.text(max_size=12).map(str.encode),
    spelled,
    st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join),
)
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
records = st.lists(
    st.builds(Stored, contents, contents, headers, timestamp=st.integers(0, 253_402_300_799_999)), max_size=12
).map(lambda made: numbered(made, 5))
decodes = st.sampled_from(["auto", "json", "string", "base64"])


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def strict(text: str) -> Any:
    """JSON as the standard has it: with the numbers as they are spelled, and objects as all of their pairs."""
    return json.loads(
        text, parse_constant=_refuse_constant, parse_int=_Number, parse_float=_Number, object_pairs_hook=tuple
    )


def depth_of(document: Any) -> int:
    match document:
        case tuple():
            return 1 + max((depth_of(member) for _, member in document), default=0)
        case list():
            return 1 + max(map(depth_of, document), default=0)
        case _:
            return 0


def numbers_of(document: Any) -> list[str]:
    match document:
        case tuple():
            return [number for _, member in document for number in numbers_of(member)]
        case list():
            return [number for member in document for number in numbers_of(member)]
        case _Number():
            return [document]
        case _:
            return []


def is_text(document: Any) -> bool:
    match document:
        case str():
            return not any("\ud800" <= sign <= "\udfff" for sign in document)
        case tuple() | list():
            return all(map(is_text, document))
        case _:
            return True


def expected(content: bytes | None, decode: str) -> Any:
    """What the documented rule says."""
    if content is None:
        return None
    coded = base64.b64encode(content).decode()
    if decode == "base64":
        return coded
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return (("base64", coded),)
    if decode == "string":
        return text
    try:
        document = strict(text)
    except (ValueError, RecursionError):
        return text
    long = any(re.search(rf"[0-9]{{{MAX_DIGITS + 1}}}", number) for number in numbers_of(document))
    return document if is_text(document) and depth_of(document) <= MAX_DEPTH and not long else text


def members(record: Stored, decode: str) -> dict[str, Any]:
    return {
        "partition": "1",
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "key": expected(record.key, decode),
        "value": expected(record.value, decode),
        "headers": [
            (("name", name), ("value", None if value is None else base64.b64encode(value).decode()))
            for name, value in record.headers or ()
        ],
    }


def cut(stored: list[Stored], places: list[int]) -> list[Any]:
    """The same records in several batches."""
    bounds = sorted({0, len(stored), *(place % (len(stored) + 1) for place in places)})
    return [batch_of(stored).slice(start, end - start) for start, end in pairwise(bounds)]


places = st.lists(st.integers(0, 12), max_size=4)


@given(records, decodes)
@example([Stored(b"[1", b"2]"), Stored(b"2]", b"[1")], "auto")
@example([Stored(b"1,2"), Stored(b"3")], "auto")
@example([Stored(b'"\\ud800"'), Stored(b'"x"')], "auto")
@example([Stored(b'{"a":"\\ud800","a":1}')], "json")
@example([Stored(b"[" * 100 + b"]" * 100), Stored(b"[" * 101 + b"]" * 101)], "auto")
@example([Stored(b"7" * 1000), Stored(b"7" * 1001), Stored(b"1." + b"7" * 1001)], "auto")
def test_every_record_is_exactly_one_line_of_strict_json_that_says_what_the_rule_says(
    stored: list[Stored], decode: Any
) -> None:
    body = written(LineWriter(decode), [(1, [batch_of(stored)])]).decode()
    assert body.count("\n") == len(body.splitlines()) == len(stored)
    assert [dict(strict(line)) for line in body.splitlines()] == [members(record, decode) for record in stored]


@given(records)
def test_the_json_envelope_is_strict_json_that_says_what_the_rule_says(stored: list[Stored]) -> None:
    shown = strict(written(EnvelopeWriter("t", "json"), [(1, [batch_of(stored)])]).decode())
    assert [dict(record) for record in shown] == [{"topic": "t", **members(record, "json")} for record in stored]


@given(records)
def test_the_binary_envelope_gives_back_the_very_bytes(stored: list[Stored]) -> None:
    shown = json.loads(written(EnvelopeWriter("t", "binary"), [(1, [batch_of(stored)])]))

    def bytes_of(coded: str | None) -> bytes | None:
        return None if coded is None else base64.b64decode(coded, validate=True)

    assert [
        Stored(
            bytes_of(record["value"]),
            bytes_of(record["key"]),
            [(header["name"], bytes_of(header["value"])) for header in record["headers"]],
            record["offset"],
            record["timestamp"],
        )
        for record in shown
    ] == [record._replace(headers=list(record.headers or ())) for record in stored]


@given(records, places, decodes)
def test_however_the_batches_are_cut_the_bytes_are_the_same(stored: list[Stored], cuts: list[int], decode: Any) -> None:
    writers: list[tuple[Writer, Writer]] = [
        (LineWriter(decode), LineWriter(decode)),
        (EventWriter({1: 5}, decode), EventWriter({1: 5}, decode)),
        (EnvelopeWriter("t", "json"), EnvelopeWriter("t", "json")),
        (EnvelopeWriter("t", "binary"), EnvelopeWriter("t", "binary")),
    ]
    for one, other in writers:
        assert written(one, [(1, [batch_of(stored)])]) == written(other, [(1, cut(stored, cuts))])


@given(records)
def test_the_data_of_an_event_is_the_line_of_its_record(stored: list[Stored]) -> None:
    body = written(EventWriter({1: 5}), [(1, [batch_of(stored)])]).decode()
    lines = written(LineWriter(), [(1, [batch_of(stored)])]).decode().splitlines()
    assert body == "".join(
        f"id: 1:{record.offset + 1}\ndata: {line}\n\n" for record, line in zip(stored, lines, strict=True)
    )
