"""One record whose value is the body: what its request headers say of it."""

from __future__ import annotations

import pytest

from delta_log.model.types import Record
from ingest_api.formats.decode import decode_octets
from ingest_api.web.errors import Refusal


def test_the_body_is_the_value_and_nothing_else_is_known():
    others = [(b"content-type", b"x"), (b"producer-id", b"p"), (b"lakelog-generation", b"7"), (b"lakelogger", b"1")]
    assert decode_octets(b"\0\xff", others) == Record(b"\0\xff")
    assert decode_octets(b"", []) == Record(b"")


@pytest.mark.parametrize(
    ("given", "key"),
    [(b"k", b"k"), (b"", b""), (b"a%20b%25", b"a b%"), (b"%C3%A9", "é".encode()), ("é".encode(), "é".encode())],
)
def test_a_key_is_text_with_escapes(given, key):
    assert decode_octets(b"v", [(b"lakelog-key", given)]).key == key


def test_a_key_of_any_bytes_is_base64():
    assert decode_octets(b"v", [(b"lakelog-key-base64", b"/wA=")]).key == b"\xff\0"
    assert decode_octets(b"v", [(b"lakelog-key-base64", b"")]).key == b""


def test_place_and_time_are_whole_numbers():
    given = [(b"lakelog-partition", b"0"), (b"lakelog-timestamp", b"253402300799999")]
    assert decode_octets(b"v", given) == Record(b"v", timestamp=253402300799999, partition=0)


def test_headers_keep_their_order_and_the_case_of_their_names():
    given = [
        (b"lakelog-header", b"B=YQ==, a , c%2C%3D%20=,B=Yg=="),
        (b"x", b"y"),
        (b"lakelog-header", "é=/w==".encode()),
    ]
    expected = (("B", b"a"), ("a", None), ("c,= ", b""), ("B", b"b"), ("é", b"\xff"))
    assert decode_octets(b"v", given).headers == expected


def test_an_unknown_header_is_refused_by_name():
    with pytest.raises(Refusal, match="lakelog-offset") as caught:
        decode_octets(b"v", [(b"lakelog-offset", b"1")])
    assert caught.value.status == 422


def test_a_record_of_a_partition_is_for_it_and_no_other():
    assert decode_octets(b"v", [], partition=2).partition == 2
    assert decode_octets(b"v", [(b"lakelog-partition", b"2")], partition=2).partition == 2
    with pytest.raises(Refusal, match="is 1, but the request is for partition 2"):
        decode_octets(b"v", [(b"lakelog-partition", b"1")], partition=2)


def test_too_many_bytes_of_headers_are_refused():
    with pytest.raises(Refusal, match="65536 bytes"):
        decode_octets(b"v", [(b"lakelog-header", b"a" * 65_537)])
