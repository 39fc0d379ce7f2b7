"""Lines of `lakelog produce` and `lakelog consume`: none is lost on the way in, and there is one way to write them."""

from __future__ import annotations

import io
import json
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.cli.consume.plan import Aim
from lakelog.cli.kit import line_blocks
from lakelog.cli.kit.line_blocks import read_blocks
from lakelog.cli.kit.record_columns import column_lines, ends_of
from lakelog.cli.kit.record_lines import JSON_FIELDS, json_fields, line_writer
from lakelog.consume.arrow import table_of
from lakelog.consume.record_run import Rows
from lakelog.consume.shapes import ConsumerRecord, Header
from lakelog.foundation.topic_partition import TopicPartition

CONTENTS = st.none() | st.binary(max_size=6) | st.sampled_from([b"\n", b"\xff", "é".encode()])
HEADERS = st.lists(st.builds(Header, st.text(max_size=3), CONTENTS), max_size=2).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(0, 2), CONTENTS, CONTENTS, HEADERS), min_size=1, max_size=12)


def made(given_records: list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]]) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("orders", partition, offset, 1_700_000_000_000 + offset, key, value, headers)
        for offset, (partition, key, value, headers) in enumerate(given_records)
    ]


def as_columns(records: list[ConsumerRecord]) -> pa.Table:
    """As a consumer hands them out: a batch is of one partition. It may be part of a larger one."""
    cuts = [0, *(at for at, (one, other) in enumerate(pairwise(records), 1) if one.partition != other.partition)]
    stretches = [Rows(records[begin:end]) for begin, end in pairwise([*cuts, len(records)])]
    return table_of(stretches)


@given(st.lists(st.binary(max_size=9) | st.sampled_from([b"\n", b"\n\n", b"a\n", b"\r\n"])))
def test_lines_are_the_same_however_the_bytes_arrive(parts: list[bytes]):
    arriving = iter([*(part for part in parts if part), b""])
    blocks = list(read_blocks(lambda _: next(arriving)))
    whole = b"".join(parts)
    assert [line for block in blocks for line in block] == [line.removesuffix(b"\n") for line in io.BytesIO(whole)]
    assert all(blocks)


def test_a_line_is_handed_on_before_the_next_one_arrives():
    arriving = iter([b"one\ntw", b"o\n"])
    blocks = read_blocks(lambda _: next(arriving))
    assert (next(blocks), next(blocks)) == ([b"one"], [b"two"])


def test_a_block_is_never_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line_blocks, "_LINES", 3)
    whole = io.BytesIO(b"x\n" * 8)
    assert [len(block) for block in read_blocks(whole.read)] == [3, 3, 2]


@given(RECORDS, st.none() | st.sampled_from([b":", b"\t", b"--"]), st.integers(0, 5))
def test_columns_are_written_as_the_rows_would_be(
    drawn: list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]], separator: bytes | None, left_out: int
):
    records = made(drawn)
    columns = as_columns(records).slice(left_out)
    rows = records[left_out:]
    expected = line_writer("text", separator, headers=False)(rows) if rows else b""
    assert b"".join(column_lines(columns, separator)) == expected
    assert ends_of(columns) == {("orders", each.partition): each.offset + 1 for each in rows}


@given(RECORDS)
def test_a_record_as_json_is_an_object_a_line(drawn: list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]]):
    records = made(drawn)
    written = line_writer("json", None, headers=False)(records)
    assert [json.loads(line) for line in written.splitlines()] == [
        dict(zip(JSON_FIELDS, json_fields(each), strict=True)) for each in records
    ]


def test_what_is_left_counts_down_to_what_was_asked_for():
    place = TopicPartition("orders", 0)
    aim = Aim(30, follow=False)
    aim.learn_ends({place: 100})
    assert (aim.left, aim.allowed, aim.reached) == (30, 30, False)
    aim.learn(20, {place: 95})
    assert (aim.left, aim.allowed, aim.reached) == (5, 10, False)
    aim.learn(5, {place: 100})
    assert (aim.left, aim.allowed, aim.reached) == (0, 5, True)
