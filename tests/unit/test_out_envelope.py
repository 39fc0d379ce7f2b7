"""The v2 envelope: what each of its two forms shows of a record."""

import json
from itertools import pairwise

import pytest

from ingest_api.formats.encode.envelope import EnvelopeWriter
from tests.support.fetched_batches import Stored, batch_of, numbered, written


def shown(embedded, *records):
    return json.loads(written(EnvelopeWriter("t", embedded), [(3, [batch_of(numbered(records))])]))


def test_a_record_has_exactly_the_members_of_v2_in_their_order():
    (record,) = shown("binary", Stored(b"v", b"k", [("h", b"x"), ("h", None)], timestamp=1_700_000_000_123))
    assert list(record.items()) == [
        ("topic", "t"),
        ("key", "aw=="),
        ("value", "dg=="),
        ("partition", 3),
        ("offset", 0),
        ("timestamp", 1_700_000_000_123),
        ("headers", [{"name": "h", "value": "eA=="}, {"name": "h", "value": None}]),
    ]


def test_binary_shows_null_and_empty_apart():
    records = shown("binary", Stored(None, b""), Stored(b"", None))
    assert [(record["key"], record["value"]) for record in records] == [("", None), (None, "")]


def test_a_record_without_headers_has_an_empty_list_of_them():
    records = shown("binary", Stored(headers=None), Stored(headers=[]), Stored(headers=[("a", b"")]))
    assert [record["headers"] for record in records] == [[], [], [{"name": "a", "value": ""}]]


def test_json_embeds_what_is_json_and_shows_the_rest_as_well_as_it_can():
    records = shown("json", Stored(b'{"a":[1,2]}', b'"k"'), Stored(b"plain", b"7"), Stored(b"\xff\x00", None))
    assert [(record["key"], record["value"]) for record in records] == [
        ("k", {"a": [1, 2]}),
        (7, "plain"),
        (None, {"base64": "/wA="}),
    ]


@pytest.mark.parametrize("embedded", ["binary", "json"])
def test_nothing_to_show_is_an_empty_array(embedded):
    assert written(EnvelopeWriter("t", embedded), []) == b"[]\n"
    assert written(EnvelopeWriter("t", embedded), [(0, []), (1, [batch_of([])])]) == b"[]\n"


def test_several_fetches_make_one_array():
    fetches = [(0, [batch_of([Stored(b"1")])]), (1, []), (1, [batch_of([Stored(b"2")]), batch_of([Stored(b"3")])])]
    records = json.loads(written(EnvelopeWriter("t", "json"), fetches))
    assert [(record["partition"], record["value"]) for record in records] == [(0, 1), (1, 2), (1, 3)]


def test_each_form_names_its_media_type():
    assert EnvelopeWriter("t", "binary").content_type == b"application/vnd.kafka.binary.v2+json"
    assert EnvelopeWriter("t", "json").content_type == b"application/vnd.kafka.json.v2+json"


def test_a_large_answer_comes_in_pieces_that_are_bounded_in_rows_and_in_bytes():
    many = batch_of(numbered([Stored(b"x")] * 2_500))
    pieces = list(EnvelopeWriter("t", "binary").rows(0, [many]))
    assert [piece.count(b'"offset"') for piece in pieces] == [1_000, 1_000, 500]

    large = batch_of(numbered([Stored(b"x" * 100_000)] * 10))
    pieces = list(EnvelopeWriter("t", "binary").rows(0, [large]))
    assert [piece.count(b'"offset"') for piece in pieces] == [2] * 5


def test_a_slice_of_a_batch_shows_its_own_rows_alone():
    records = numbered([Stored(b"%d" % at, b"k%d" % at, [("h", b"%d" % at)] * (at % 3)) for at in range(10)])
    whole = json.loads(written(EnvelopeWriter("t", "json"), [(0, [batch_of(records)])]))
    for start, end in pairwise((0, 3, 4, 9, 10)):
        part = batch_of(records).slice(start, end - start)
        assert json.loads(written(EnvelopeWriter("t", "json"), [(0, [part])])) == whole[start:end]
