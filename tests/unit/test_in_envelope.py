"""The v2 envelope: what is taken, as what, and how each bad record is named."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode

import msgspec
import pytest

from delta_log.model.types import Record
from ingest_api.formats.decode import decode_envelope
from ingest_api.formats.decode.envelope import _LARGE, _decode
from ingest_api.formats.decode.strict_json import SURELY_SHALLOW, find_bad_utf8, is_shallow, outline
from ingest_api.web.errors import Refusal


def decode(body: bytes | str, embedded="binary", partition=None, most=1_000) -> list[Record]:
    content = body.encode() if isinstance(body, str) else body
    return decode_envelope(content, embedded=embedded, partition=partition, most_records=most)


def refused(body: bytes | str, **options) -> Refusal:
    with pytest.raises(Refusal) as caught:
        decode(body, **options)
    assert caught.value.status == 422
    return caught.value


def test_a_binary_record_is_the_bytes_that_its_base64_stands_for():
    body = """{"records": [{"key": "YQ==", "value": "AP8=", "partition": 3, "timestamp": 5,
        "headers": [{"name": "n", "value": "YQ=="}, {"name": "o", "value": null},
            {"name": "p"}, {"name": "", "value": ""}]
    }]}"""
    headers = (("n", b"a"), ("o", None), ("p", None), ("", b""))
    assert decode(body) == [Record(b"\0\xff", b"a", 5, headers, 3)]


def test_embedded_json_is_stored_as_sent_without_white_space_around_it():
    body = '{"records":[{"key": 1.50 ,"value": { "b" : [1,  2], "a": "\\u00e9é" , "b": 2}\n}]}'
    assert decode(body, "json") == [Record('{ "b" : [1,  2], "a": "\\u00e9é" , "b": 2}'.encode(), b"1.50")]


@pytest.mark.parametrize("embedded", ["binary", "json"])
def test_null_and_absent_are_the_same_and_empty_is_neither(embedded):
    records = decode('{"records":[{},{"key":null,"value":null,"headers":null},{"key":"","headers":[]}]}', embedded)
    empty = b"" if embedded == "binary" else b'""'
    assert records == [Record(), Record(), Record(key=empty)]


def test_schemas_that_are_null_are_accepted():
    names = ["key_schema", "key_schema_id", "value_schema", "value_schema_id"]
    body = "{" + "".join(f'"{name}":null,' for name in names) + '"records":[{"value":"YQ=="}]}'
    assert decode(body) == [Record(b"a")]
    for name in names:
        assert name in refused(body.replace(f'"{name}":null', f'"{name}":7')).message


def test_members_may_be_spelled_with_escapes():
    body = '{"\\u0072ecords":[{"\\u0076alue":"YQ\\u003d=","headers":[{"n\\u0061me":"\\u003a:\\ud83d\\ude00"}]}]}'
    assert decode(body) == [Record(b"a", headers=((":" + ":\U0001f600", None),))]


def test_a_slash_may_be_escaped_as_some_clients_do():
    assert decode('{"records":[{"value":"\\/\\/\\/\\/"}]}') == [Record(b"\xff\xff\xff")]


def test_every_bad_record_is_named_by_its_index():
    records = ["{}"] * 7
    records[2], records[5] = '{"value":"YR=="}', '{"partition":true}'
    error = refused('{"records":[' + ",".join(records) + "]}")
    assert [entry["index"] for entry in error.facts["errors"]] == [2, 5]
    assert error.facts["errors"][0]["message"] == "its value: not canonical base64"
    assert error.message == "record 2 cannot be stored: its value: not canonical base64; 1 more of 7 cannot be stored"


def test_at_most_a_hundred_bad_records_are_named():
    error = refused('{"records":[' + ",".join(["1"] * 250) + "]}")
    assert [entry["index"] for entry in error.facts["errors"]] == list(range(100))


def test_a_name_that_is_sent_comes_back_shortened():
    assert len(refused('{"records":[{"' + "x" * 10_000 + '":1}]}').message) < 300


@pytest.mark.parametrize("count", [1, 400])
def test_records_of_a_partition_are_for_it_and_no_other(count):
    value = b64encode(b"x" * 60).decode()
    same = f'{{"value":"{value}","partition":2}},{{"value":"{value}","partition":null}},{{"value":"{value}"}},' * count
    for text in (same, same.replace(',"partition":null', "").replace(',"partition":2', "")):
        body = '{"records":[' + text.rstrip(",") + "]}"
        for embedded, stored in (("binary", b"x" * 60), ("json", f'"{value}"'.encode())):
            assert decode(body, embedded, partition=2, most=2_000) == [Record(stored, partition=2)] * 3 * count
    error = refused('{"records":[{},{"partition":1}]}', partition=2)
    assert error.facts["errors"] == [{"index": 1, "message": "its partition: 1, but the request is for partition 2"}]


@pytest.mark.parametrize("embedded", ["binary", "json"])
def test_a_large_body_of_records_alike_gives_every_record(embedded):
    """All shapes that the quick way knows, and nothing is lost, swapped or shared."""
    names = ("value", "key", "timestamp", "partition")
    for chosen in range(1, 16):
        present = [name for at, name in enumerate(names) if chosen >> at & 1]
        rows, expected = [], []
        for at in range(1_200):
            bare = {name: at * 7 + len(name) for name in present}
            wire = dict(bare)
            stored = dict(bare)
            for name in {"value", "key"}.intersection(present):
                content = b"%s-%d" % (name.encode(), at)
                wire[name] = b64encode(content).decode()
                stored[name] = content if embedded == "binary" else b'"' + wire[name].encode() + b'"'
            if at % 100 == 99:
                wire[present[0]] = stored[present[0]] = None
            rows.append(wire)
            expected.append(Record(**stored))
        body = msgspec.json.encode({"records": rows})
        assert len(body) > _LARGE
        assert decode(body, embedded, most=1_200) == expected
        place = [msgspec.structs.replace(record, partition=9) for record in expected]
        if "partition" not in present:
            assert decode(body, embedded, partition=9, most=1_200) == place


def test_a_large_body_may_have_records_that_are_not_alike():
    records = ['{"key":"YQ==","value":"' + "YWJj" * 20 + '"}'] * 300
    records += ['{"value":null,"headers":[{"name":"a:b"}]}', '{"timestamp":1}']
    found = decode('{"records":[' + ",".join(records) + "]}")
    assert found == [Record(b"abc" * 20, b"a")] * 300 + [Record(headers=(("a:b", None),)), Record(timestamp=1)]


@pytest.mark.parametrize("count", [1, 400])
@pytest.mark.parametrize("embedded", ["binary", "json"])
def test_a_sound_body_needs_no_exact_look(embedded, count):
    values = ['"YQ=="', "null", '"YWI="'] if embedded == "binary" else ['{"a":{"b":":"}}', "null", '"é"']
    for value in values:
        for more in (
            "",
            ',"key":' + value,
            ',"partition":1,"timestamp":2',
            ',"headers":[{"name":"é","value":"YQ=="},{"name":"b"}]',
        ):
            body = ('{"records": [' + ",\n".join(['{"value": ' + value + more + "}"] * count) + "]}").encode()
            records, clear = _decode(body, embedded, None)
            assert clear
            assert len(records) == count


def test_too_many_records_are_refused_before_they_are_built():
    body = b'{"records":[' + b"{}," * 500_000 + b"{}]}"
    tracemalloc.start()
    try:
        assert "not 500001" in refused(body).message
        assert tracemalloc.get_traced_memory()[1] < 8 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("embedded", ["binary", "json"])
def test_as_many_records_as_allowed_are_taken_and_one_more_is_not(embedded):
    assert len(decode('{"records":[' + ",".join(["{}"] * 50) + "]}", embedded, most=50)) == 50
    assert "1 to 50 records, not 0" in refused('{"records":[]}', embedded=embedded, most=50).message
    assert (
        "1 to 50 records, not 51"
        in refused('{"records":[' + ",".join(["{}"] * 51) + "]}", embedded=embedded, most=50).message
    )


def test_braces_and_commas_in_values_do_not_count_as_records():
    value = '[{"a":"},{\\\\\\"}{,"},{},{},{},{},{},{},{},{},{},{}]'
    assert decode('{"records":[{"value":' + value + "}]}", "json", most=2) == [Record(value.encode())]


def test_values_may_be_nested_a_hundred_levels_deep():
    for value in (b"[" * 100 + b"]" * 100, b'{"[":' * 99 + b"[" + b"1," * 500 + b"1]" + b"}" * 99):
        assert decode(b'{"records":[{"value":' + value + b"}]}", "json") == [Record(value)]
        error = refused(b'{"records":[{"value":1},{"value":[' + value + b"]}]}", embedded="json")
        assert error.facts["errors"] == [{"index": 1, "message": "its value: nested deeper than 100 levels"}]


def test_brackets_in_strings_nest_nothing():
    for value in (b'["' + b"[" * 500 + b'"]', b'["\\"' + b"[" * 500 + b'\\\\",["' + b"{" * 500 + b'"]]'):
        assert len(value) > SURELY_SHALLOW
        assert decode(b'{"records":[{"value":' + value + b"}]}", "json") == [Record(value)]


def test_an_outline_is_the_same_wherever_its_pieces_are_cut():
    text = b'{"records":[' + b",".join(b'{"a":["\\\\\\"]],,",[%d]]}' % at for at in range(60_000)) + b"]}"
    assert outline(text) == (5, 60_000)
    assert is_shallow(text)


@pytest.mark.parametrize("at", [0, 5, 262_140, 262_143, 262_144, 600_000])
def test_what_is_no_utf8_is_found_wherever_it_is(at):
    for filler in ("a", "é", "\U0001f600"):
        text = (filler * (600_000 // len(filler.encode()) + 10)).encode()
        start = at - at % len(filler.encode())
        assert find_bad_utf8(text) is None
        assert find_bad_utf8(text[:start] + b"\xff" + text[start:]) == start
    assert find_bad_utf8("é".encode()[:1]) == 0


#: What msgspec leaves to us, and what it does not.
@pytest.mark.parametrize(
    "bad", [b'"\\ud800"', b'"\\udc00"', b'{"\\ud800\\ud800":1}', b"NaN", b"01", b'"\x01"', b'"\\x"']
)
def test_msgspec_sees_this_in_values_that_it_skips(bad):
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.Decoder(msgspec.Raw).decode(bad)


@pytest.mark.parametrize("unseen", [b'"\xff"', b'{"a":1,"a":2}', b"[" * 200 + b"]" * 200])
def test_msgspec_does_not_see_this_in_values_that_it_skips(unseen):
    assert bytes(msgspec.json.Decoder(msgspec.Raw).decode(unseen)) == unseen


def test_msgspec_takes_base64_with_unused_bits_set_but_no_other_that_is_not_canonical():
    decoder = msgspec.json.Decoder(bytes)
    assert decoder.decode(b'"YR=="') == decoder.decode(b'"YQ=="') == b"a"
    for text in (b"YQ", b"YQ=", b"YQ= =", b"Y Q=", b"-_-_", b"YQ==YQ==", b"YWJj="):
        with pytest.raises(msgspec.DecodeError):
            decoder.decode(b'"' + text + b'"')
