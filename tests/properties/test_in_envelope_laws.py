"""Laws of the v2 envelope, against a slow reader that shares no code with it and knows only the json module.

It is long by that reader.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from delta_log.model.types import Record
from ingest_api.formats.decode import decode_envelope
from ingest_api.formats.decode.envelope import _LARGE
from ingest_api.web.errors import Refusal

MOST = 60
LATEST = 253_402_300_799_999
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
TOP = {"records", "key_schema", "key_schema_id", "value_schema", "value_schema_id"}


class Bad(Exception):
    """The slow reader refuses."""


class Members(list[tuple[str, Any]]):
    """An object, with all of its members as they were given."""


def members(given: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(given, Members) or len(dict(given)) < len(given) or not known.issuperset(dict(given)):
        raise Bad
    return dict(given)


def check_depth(given: Any, left: int) -> None:
    if isinstance(given, str):
        given.encode()  # a lone surrogate is a UnicodeEncodeError
    elif isinstance(given, Members | list):
        if left == 0:
            raise Bad
        for part in given:
            check_depth(part[1] if isinstance(given, Members) else part, left - 1)
            if isinstance(given, Members):
                part[0].encode()


def plain(given: Any) -> Any:
    if isinstance(given, Members):
        return {name: plain(part) for name, part in given}
    return [plain(part) for part in given] if isinstance(given, list) else given


def integer(given: Any, least: int, most: int) -> int | None:
    if given is None or (type(given) is int and least <= given <= most):
        return given
    raise Bad


def content(given: Any) -> bytes | None:
    if given is None:
        return None
    if not isinstance(given, str) or not BASE64.fullmatch(given):
        raise Bad
    decoded = base64.b64decode(given)
    if base64.b64encode(decoded).decode() != given:
        raise Bad
    return decoded


def header(given: Any) -> tuple[str, bytes | None]:
    found = members(given, {"name", "value"})
    if not isinstance(found.get("name"), str):
        raise Bad
    found["name"].encode()
    return found["name"], content(found.get("value"))


def slow_record(given: Any, embedded: str) -> tuple[Any, ...]:
    found = members(given, {"key", "value", "partition", "timestamp", "headers"})
    key, value = found.get("key"), found.get("value")
    if embedded == "binary":
        key, value = content(key), content(value)
    else:
        check_depth([key], 101)
        check_depth([value], 101)
        key, value = plain(key), plain(value)
    headers = found.get("headers")
    if not (headers is None or type(headers) is list):
        raise Bad
    return (
        value,
        key,
        integer(found.get("timestamp"), 0, LATEST),
        tuple(map(header, headers or ())) or None,
        integer(found.get("partition"), -(2**63), 2**63 - 1),
    )


def slow_envelope(body: bytes, embedded: str) -> list[tuple[Any, ...]] | None:
    """The records of a body, or None if it must be refused."""
    try:
        return slow_records(body, embedded)
    except (Bad, ValueError, RecursionError):
        return None


def slow_records(body: bytes, embedded: str) -> list[tuple[Any, ...]]:
    if body.startswith(b"\xef\xbb\xbf"):
        raise Bad
    top = members(json.loads(body.decode(), object_pairs_hook=Members, parse_constant=refuse), TOP)
    records = top.pop("records", None)
    if any(schema is not None for schema in top.values()) or type(records) is not list:
        raise Bad
    if not 1 <= len(records) <= MOST:
        raise Bad
    return [slow_record(record, embedded) for record in records]


def refuse(_: str) -> None:
    raise Bad


def read(body: bytes, embedded: str) -> list[tuple[Any, ...]] | None:
    try:
        records = decode_envelope(body, embedded=embedded, most_records=MOST)
    except Refusal as refusal:
        if refusal.status != 422:
            raise
        return None
    return [as_tuple(record, embedded) for record in records]


def as_tuple(record: Record, embedded: str) -> tuple[Any, ...]:
    value, key = record.value, record.key
    if embedded == "json":
        value, key = (None if text is None else plain(json.loads(text)) for text in (value, key))
    return value, key, record.timestamp, record.headers, record.partition


embedded_formats = st.sampled_from(["binary", "json"])
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
binary_records = st.builds(
    Record,
    value=st.none() | st.binary(max_size=40),
    key=st.none() | st.binary(max_size=9),
    timestamp=st.none() | st.integers(0, LATEST),
    headers=headers,
    partition=st.none() | st.integers(-(2**63), 2**63 - 1),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def shown(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def wire(record: Record, draw_absent: bool) -> dict[str, Any]:
    given = {
        "key": shown(record.key),
        "value": shown(record.value),
        "partition": record.partition,
        "timestamp": record.timestamp,
        "headers": record.headers and [{"name": name, "value": shown(value)} for name, value in record.headers],
    }
    return {name: part for name, part in given.items() if part is not None or not draw_absent}


def same(record: Record) -> Record:
    return Record(record.value, record.key, record.timestamp, record.headers or None, record.partition)


@given(
    st.lists(binary_records, min_size=1, max_size=MOST),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_records_come_through_an_envelope_as_they_are(records, absent, ascii_only, indent, large):
    if large:
        records = (records * MOST)[:MOST]
    body = json.dumps({"records": [wire(r, absent) for r in records]}, ensure_ascii=ascii_only, indent=indent).encode()
    body += b" " * (_LARGE if large else 0)
    assert decode_envelope(body, embedded="binary", most_records=MOST) == list(map(same, records))


@given(st.lists(st.tuples(json_values, json_values), min_size=1, max_size=20), st.booleans(), st.booleans())
def test_embedded_json_comes_through_to_the_byte(pairs, ascii_only, large):
    texts = [tuple(json.dumps(part, ensure_ascii=ascii_only) for part in pair) for pair in pairs]
    rows = ",".join(f'{{"key": {key}, "value":{value} }}' for key, value in texts)
    body = f'{{"records":[{rows}]}}{" " * (_LARGE if large else 0)}'.encode()
    found = decode_envelope(body, embedded="json", most_records=MOST)
    assert [(r.key, r.value) for r in found] == [
        tuple(None if text == "null" else text.encode() for text in pair) for pair in texts
    ]


#: Pieces of which most bodies are nearly right, so that what is decided is the fine print.
names = st.sampled_from(
    ['"key"', '"value"', '"partition"', '"timestamp"', '"headers"', '"v\\u0061lue"', '"name"', '"x"', '"no headers"']
)
texts = st.sampled_from(
    [
        "null",
        "null",
        '""',
        '"YQ=="',
        '"YQ=="',
        '"YWI="',
        '"YWJj"',
        '"YR=="',
        '"YWJ="',
        '"YQ\\u003d="',
        '"YQ"',
        '"\\/w=="',
    ]
)
numbers = st.sampled_from(
    ["0", "1", "-0", "-1", "1.0", "1e3", "01", "true", str(2**63 - 1), str(2**63), str(LATEST), str(LATEST + 1)]
)
oddities = st.sampled_from(
    ['"a:b"', '"\\u003a"', '"é"', '"\\u00e9"', '"\\ud800"', '"\\ud83d\\ude00"', '"="', "NaN", '"null"', '"[{,:"']
)
scalars = texts | numbers | oddities
header_names = st.sampled_from(['"a"', '"a:b"', '"\\u003a"', '"é"', '"="', '"a=="', '"AR=="', "1", '"\\ud800"', '""'])
header_members = st.tuples(st.just('"name"'), header_names) | st.tuples(st.just('"value"'), scalars)
header_objects = st.lists(header_members, min_size=1, max_size=3)


def obj(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{name}:{part}" for name, part in pairs) + "}"


def array(parts: list[str]) -> str:
    return "[" + ",".join(parts) + "]"


header_lists = st.lists(header_objects.map(obj), max_size=3).map(array)
values = scalars | st.sampled_from(["[]", "{}", '{"a":1,"a":2}', '[{"a":":"}]', " [ 1 ] ", '{"a\\u003a":"::"}'])
record_members = (
    st.tuples(st.sampled_from(['"key"', '"value"']), values)
    | st.tuples(st.sampled_from(['"partition"', '"timestamp"']), scalars)
    | st.tuples(st.just('"headers"'), header_lists)
    | st.tuples(names, scalars)
)
record_texts = st.lists(record_members, max_size=4).map(obj)
top_members = st.tuples(
    st.sampled_from(['"key_schema"', '"value_schema_id"', '"records"']), st.sampled_from(["null", "[]"])
)
bodies = st.tuples(st.lists(record_texts, min_size=1, max_size=4), st.lists(top_members, max_size=1), st.booleans())


@given(bodies, embedded_formats)
@example((['{"headers":[{"name":"\\u003a"}],"value":null,"value":null}'], [], False), "binary")
@example((['{"value":null}'], [('"records"', "[]")], True), "binary")
@example((['{"no headers":null}', '{"value":null}'], [], True), "json")
def test_it_is_as_strict_as_a_slow_reader(parts, embedded):
    records, more, large = parts
    if large:
        records = (records * MOST)[:MOST]
    body = obj([('"records"', array(records)), *more]).encode("utf-8", "surrogatepass") + b" " * (
        _LARGE if large else 0
    )
    assert read(body, embedded) == slow_envelope(body, embedded)


SOUND = json.dumps(
    {
        "records": [
            {"key": "YQ==", "value": "YWI=", "partition": 1, "headers": [{"name": "é:", "value": "YQ=="}]},
            {"value": None, "timestamp": 12},
        ],
        "key_schema": None,
    },
    ensure_ascii=False,
).encode()


@given(st.integers(0, len(SOUND) - 1), st.integers(0, 255), embedded_formats, st.booleans())
def test_a_flipped_byte_is_read_as_the_slow_reader_does_or_refused(at, byte, embedded, large):
    body = SOUND[:at] + bytes((byte,)) + SOUND[at + 1 :] + b" " * (_LARGE if large else 0)
    assert read(body, embedded) == slow_envelope(body, embedded)


@given(embedded_formats, st.booleans())
def test_a_body_that_is_cut_anywhere_is_refused(embedded, large):
    body = SOUND if not large else SOUND.replace(b" ", b" " * 2_000)
    for at in range(0, len(body), 1 if not large else 997):
        assert read(body[:at], embedded) is None


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\un0e ', max_size=40).map(str.encode), embedded_formats)
def test_no_bytes_do_anything_but_be_read_or_refused(body, embedded):
    assert read(body, embedded) == slow_envelope(body, embedded)
