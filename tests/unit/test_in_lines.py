"""NDJSON: what a line is, which key it has, and what a record object in a line stands for."""

from __future__ import annotations

import pytest

from delta_log.model.types import Record
from ingest_api.formats.decode import decode_lines
from ingest_api.web.errors import Refusal

LINES = b'{"id":"k\\u00e9","n":{"x":[1,2.50,{"y":null}],"a/b":1,"m~n":true,"":0}}\n5\n[1,"z"]\n"s"'


def values(body: bytes, **options) -> list[Record]:
    return decode_lines(body, **{"key_pointer": None, "envelope": False, "most_records": 100, **options})


def rows(body: bytes, **options) -> list[Record]:
    return values(body, envelope=True, **options)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n \r\n\t"])
def test_each_line_is_a_value_as_sent(end):
    assert values(b'{"a": 1,  "a":2}\n"x"\r\nnull\n 1.0 \t' + end) == [
        Record(b'{"a": 1,  "a":2}'),
        Record(b'"x"'),
        Record(b"null"),
        Record(b"1.0"),
    ]


@pytest.mark.parametrize(
    ("pointer", "keys"),
    [
        ("", [LINES.split(b"\n")[0], b"5", b'[1,"z"]', b"s"]),
        ("/id", ["ké".encode(), None, None, None]),
        ("/n/x", [b'[1,2.50,{"y":null}]', None, None, None]),
        ("/n/x/1", [b"2.50", None, None, None]),
        ("/n/x/2", [b'{"y":null}', None, None, None]),
        ("/n/x/2/y", [None] * 4),
        ("/n/x/3", [None] * 4),
        ("/n/x/01", [None] * 4),
        ("/n/x/-", [None] * 4),
        ("/n/x/99999999999999999999", [None] * 4),
        ("/n/a~1b", [b"1", None, None, None]),
        ("/n/m~0n", [b"true", None, None, None]),
        ("/n/", [b"0", None, None, None]),
        ("/1", [None, None, b"z", None]),
    ],
)
def test_the_key_is_what_the_pointer_finds(pointer, keys):
    assert [record.key for record in values(LINES, key_pointer=pointer)] == keys
    assert [record.value for record in values(LINES, key_pointer=pointer)] == LINES.split(b"\n")


def test_every_bad_line_is_named_by_index_and_by_number():
    with pytest.raises(Refusal) as caught:
        values(b"1\nx\n3\n\n5")
    assert [error["index"] for error in caught.value.facts["errors"]] == [1, 3]
    assert caught.value.message.startswith("line 2 cannot be stored: it is not JSON")
    assert caught.value.facts["errors"][1]["message"] == "it is empty"


def test_as_many_lines_as_allowed_are_taken_and_one_more_is_not():
    assert len(values(b"1\n" * 100)) == 100
    with pytest.raises(Refusal, match="1 to 100 records, not 101"):
        values(b"1\n" * 101)


def test_a_record_object_has_its_own_key_place_time_and_headers():
    line = b'{"key": "k" ,"value": {"x": 1},"partition":2,"timestamp":5,"headers":[{"name":"a:b","value":"YQ=="}]}'
    assert rows(line + b"\n{}\n") == [Record(b'{"x": 1}', b'"k"', 5, (("a:b", b"a"),), 2), Record()]


def test_bytes_that_are_no_json_are_sent_as_they_are_read():
    assert rows(b'{"key":{"base64":"/w=="},"value":{ "base64" : "" }}') == [Record(b"", b"\xff")]


@pytest.mark.parametrize(
    "value",
    [
        b'{"base64":"YQ==","more":1}',
        b'{"base64":1}',
        b'{"base64":"YQ==","base64":"YQ=="}',
        b'{"b\\u0061se64":"YQ=="}',
        b"[]",
    ],
)
def test_what_only_looks_like_bytes_is_json_as_sent(value):
    assert rows(b'{"value":' + value + b"}") == [Record(value)]


def test_a_key_pointer_and_an_envelope_exclude_each_other():
    with pytest.raises(Refusal, match="exclude each other"):
        rows(b"{}", key_pointer="/a")


def test_lines_of_a_partition_are_for_it_and_no_other():
    assert values(b"1\n2", partition=3) == [Record(b"1", partition=3), Record(b"2", partition=3)]
    assert rows(b'{"partition":3}\n{}', partition=3) == [Record(partition=3), Record(partition=3)]
    with pytest.raises(Refusal) as caught:
        rows(b'{}\n{"partition":4}', partition=3)
    assert [error["index"] for error in caught.value.facts["errors"]] == [1]
