"""Laws of NDJSON and of Arrow streams: what is sound comes through, and nothing else does anything but be refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from delta_log.model.errors import LakelogError
from delta_log.model.schema import HEADERS
from delta_log.records.arrow_columns import content_bytes, read_columns
from ingest_api.formats.decode import decode_arrow, decode_lines
from ingest_api.web.errors import Refusal
from tests.support.hostile_bodies import arrow_stream

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def read(body: bytes, **options: Any) -> list[Any] | None:
    try:
        return decode_lines(body, **{"key_pointer": None, "envelope": False, "most_records": 50, **options})
    except Refusal as refusal:
        if refusal.status != 422:
            raise
        return None


@given(
    st.lists(values, min_size=1, max_size=20), st.booleans(), st.sampled_from(["\n", "\r\n", " \n\t"]), st.booleans()
)
def test_lines_come_through_to_the_byte(given_values, ascii_only, end, ended):
    lines = [json.dumps(value, ensure_ascii=ascii_only) for value in given_values]
    found = read((end.join(lines) + (end if ended else "")).encode())
    assert found is not None
    assert [record.value for record in found] == [line.encode() for line in lines]


@given(values, st.data())
def test_a_pointer_finds_what_walking_finds(value, data):
    steps: list[str] = []
    at = value
    while isinstance(at, list | dict) and at and data.draw(st.booleans()):
        step = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        steps.append(str(step))
        at = at[step]
    pointer = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
    found = read(json.dumps(value).encode(), key_pointer=pointer)
    assert found is not None
    expected = None if at is None else at.encode() if isinstance(at, str) else json.dumps(at).encode()
    assert found[0].key == expected


def slow_lines(body: bytes) -> list[bytes] | None:
    """The values of a body line by line, or None if one of them is no JSON."""

    def refuse(_: str) -> None:
        raise ValueError

    lines = [line.strip(b" \t\r") for line in body.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    try:
        for line in lines:
            json.dumps(json.loads(line.decode(), parse_constant=refuse), ensure_ascii=False).encode()
            if line.startswith(b"\xef\xbb\xbf"):
                return None
    except ValueError:
        return None
    return lines or None


@given(
    st.binary(max_size=30)
    | st.lists(
        st.sampled_from(["1", '"a"', "[", "]", "{}", ",", "\n", "\r", " ", "é", "\\ud800", '"\\ud800"', "NaN", "\0"])
    )
    .map("".join)
    .map(str.encode)
)
def test_lines_are_as_strict_as_a_slow_reader(body):
    found = read(body)
    assert (found and [record.value for record in found]) == slow_lines(body)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]":,\\un0value\n', max_size=40).map(str.encode), st.booleans())
def test_no_bytes_do_anything_but_be_read_or_refused(body, envelope):
    read(body, envelope=envelope)
    read(b'{"value":' + body + b"}", envelope=envelope)


TABLE = pa.table(
    {
        "key": pa.array(["a", "b", None]).dictionary_encode(),
        "value": pa.array([b"x" * 50, b"y", None]),
        "partition": pa.array([0, None, 1], pa.int32()),
        "headers": pa.array([[("h", b"v")], None, []], HEADERS),
    }
)
STREAMS = [arrow_stream(TABLE, compression=coding) for coding in (None, "lz4", "zstd")]
patches = st.tuples(
    st.integers(0, 4_000),
    st.sampled_from([b"\0", b"\xff", b"\x7f", b"\x01", b"\xff" * 8, b"\0" * 8, (2**40).to_bytes(8, "little")])
    | st.binary(min_size=1, max_size=1),
)


def decode(body: bytes) -> pa.Table | None:
    try:
        return decode_arrow(body, most_records=100, most_bytes=100_000)
    except Refusal as refusal:
        if refusal.status != 422:
            raise
        return None


@given(st.sampled_from(STREAMS), st.lists(patches, min_size=1, max_size=3))
def test_a_patched_stream_is_refused_or_is_what_the_log_can_judge(stream, changes):
    body = bytearray(stream)
    for at, patch in changes:
        start = at % len(body)
        body[start : start + len(patch)] = patch[: len(body) - start]
    table = decode(bytes(body))
    if table is not None:
        with suppress(LakelogError):
            assert len(content_bytes(read_columns(table))) < 1_000_000


@given(st.sampled_from(STREAMS), st.data())
def test_a_stream_that_is_cut_anywhere_is_refused(stream, data):
    assert decode(stream) is not None
    assert decode(stream[: data.draw(st.integers(0, len(stream) - 1))]) is None
