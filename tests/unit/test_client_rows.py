"""How a caller's record becomes a row: serialized, measured as the server measures it, or refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from delta_log.records.validation import record_size as served_size
from lakelog.foundation.errors import InvalidRecord, NotSerializable, RecordTooLarge
from lakelog.produce.rows import Row, RowMaker, encode_rows, record_size

LIMIT = 1_048_576


def make(
    value: Any = None, key: Any = None, partition: Any = None, timestamp: Any = None, headers: Any = None, **how: Any
) -> tuple[Row, int]:
    maker = RowMaker(how.get("keys", "bytes"), how.get("values", "bytes"), how.get("limit", LIMIT))
    return maker.make("t", value, key, partition, timestamp, headers)


def test_rows_are_the_envelope_of_the_http_api_with_what_is_null_left_out():
    rows = [make(b"v", b"k", 3, 5, [("h", b"x"), ("n", None)])[0], make(None)[0], make(b"")[0]]
    assert json.loads(encode_rows(rows)) == {
        "records": [
            {
                "value": base64.b64encode(b"v").decode(),
                "key": base64.b64encode(b"k").decode(),
                "partition": 3,
                "timestamp": 5,
                "headers": [{"name": "h", "value": base64.b64encode(b"x").decode()}, {"name": "n", "value": None}],
            },
            {},
            {"value": ""},
        ]
    }


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 8_191, 8_192, 70_000])
@pytest.mark.parametrize("headers", [None, [("name", b"value" * 30), ("ä", None)]])
def test_a_record_is_measured_as_the_server_does(size: int, headers: Any):
    row = make(b"v" * size, b"k" * size, headers=headers)[0]
    assert record_size(row) == served_size(row.key, row.value, headers)
    empty = make(None, None)[0]
    assert record_size(empty) == served_size(None, None, None)


def test_a_record_is_refused_from_the_first_byte_that_is_too_many():
    fits = next(size for size in range(1_000, 0, -1) if record_size(Row(b"x" * size)) <= 1_000)
    assert make(b"x" * fits, limit=1_000)[0].value == b"x" * fits
    with pytest.raises(RecordTooLarge) as caught:
        make(b"x" * (fits + 1), limit=1_000)
    assert (caught.value.size, caught.value.limit) == (1_001, 1_000)


def test_headers_count_towards_the_size():
    with pytest.raises(RecordTooLarge):
        make(b"", headers=[("h", b"x" * 2_000)], limit=1_000)


def test_the_size_in_the_buffer_is_never_less_than_the_bytes():
    assert make(b"x" * 100, b"k" * 10, headers=[("h", b"v" * 50)])[1] >= 161


def test_bytes_of_any_kind_are_bytes_and_text_is_not():
    for content in (b"x", bytearray(b"x"), memoryview(b"x")):
        row = make(content, content)[0]
        assert (row.value, row.key) == (b"x", b"x")
        assert type(row.value) is bytes
    with pytest.raises(NotSerializable, match="its value cannot be made bytes: bytes are wanted, not str"):
        make("x")
    with pytest.raises(NotSerializable, match="its key cannot be made bytes"):
        make(b"x", key="k")


def test_serializers_make_text_json_or_what_a_callable_makes():
    assert make("ä", values="string")[0].value == "ä".encode()
    assert make({"a": [1, None]}, "k", values="json", keys="json")[0].value == b'{"a":[1,null]}'
    assert make(7, values=lambda number: b"%d" % number)[0].value == b"7"


@pytest.mark.parametrize("how", ["bytes", "string", "json", lambda _: b"never"])
def test_none_is_a_null_whatever_the_serializer(how: Any):
    row = make(None, None, values=how, keys=how)[0]
    assert (row.value, row.key) == (None, None)


def test_a_serializer_that_fails_or_makes_no_bytes_is_told_with_its_cause():
    with pytest.raises(NotSerializable, match="division by zero") as caught:
        make(0, values=lambda number: b"%d" % (1 / number))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(NotSerializable, match="made its value a str, not bytes"):
        make(0, values=str)
    with pytest.raises(NotSerializable):
        make("\ud800", values="string")


@pytest.mark.parametrize("partition", [-1, 2**31, "0", 1.0, True])
def test_a_partition_is_a_whole_number(partition: Any):
    with pytest.raises(InvalidRecord, match="partition"):
        make(b"", partition=partition)


@pytest.mark.parametrize("timestamp", [-1, 253_402_300_800_000, "0", 1.5])
def test_a_timestamp_is_in_milliseconds_since_1970(timestamp: Any):
    with pytest.raises(InvalidRecord, match="timestamp"):
        make(b"", timestamp=timestamp)


@pytest.mark.parametrize("headers", [["h"], [("h", "text")], [(b"h", b"")], [("h",)], {"h": 1}, [("\ud800", b"")]])
def test_headers_are_pairs_of_text_and_bytes(headers: Any):
    with pytest.raises(InvalidRecord, match="header"):
        make(b"", headers=headers)


def test_headers_may_be_a_mapping_or_any_iterable_and_none_are_none():
    assert make(b"", headers={"h": b"x"})[0] == make(b"", headers=iter([("h", b"x")]))[0]
    assert make(b"", headers=[])[0].headers is None
