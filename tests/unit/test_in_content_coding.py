"""Compressed bodies: decoded whole or refused, and never further than allowed."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import pyarrow as pa
import pytest

from ingest_api.web.decompress import decode_content
from ingest_api.web.errors import Refusal

MOST = 1_000_000
NOISE = random.Random(7).randbytes(300_000)


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


CODINGS = pytest.mark.parametrize(("coding", "encode"), [(b"gzip", gzip.compress), (b"zstd", zstd)])


def refusal(body: bytes, coding: bytes | None, most: int = MOST) -> int:
    with pytest.raises(Refusal) as caught:
        decode_content(body, coding, most=most)
    return caught.value.status


@CODINGS
@pytest.mark.parametrize("content", [b"", b"x", NOISE, bytes(900_000), NOISE[:70_000] + bytes(500_000)], ids=len)
def test_what_was_encoded_comes_back(coding, encode, content):
    assert decode_content(encode(content), coding, most=MOST) == content
    assert decode_content(encode(content) + encode(b"more"), coding, most=MOST) == content + b"more"


def test_the_name_of_a_coding_is_known_in_any_case():
    assert decode_content(gzip.compress(b"x"), b" X-GZip ", most=1) == b"x"
    assert decode_content(b"x", b"Identity", most=1) == decode_content(b"x", None, most=1) == b"x"


@pytest.mark.parametrize(
    "coding", [b"br", b"deflate", b"compress", b"gzip, gzip", b"gzip,identity", b"", b"*", b"\xff"]
)
def test_any_other_coding_is_refused_with_the_names_of_those_accepted(coding):
    with pytest.raises(Refusal, match="gzip, zstd and identity") as caught:
        decode_content(b"x", coding, most=MOST)
    assert caught.value.status == 415


@CODINGS
def test_a_bomb_stops_at_what_is_allowed(coding, encode):
    assert len(decode_content(encode(bytes(MOST)), coding, most=MOST)) == MOST
    assert refusal(encode(bytes(MOST + 1)), coding) == 413
    assert refusal(encode(bytes(MOST)) + encode(b"x"), coding) == 413
    bomb = encode(bytes(100_000_000))
    tracemalloc.start()
    try:
        assert refusal(bomb, coding) == 413
        assert tracemalloc.get_traced_memory()[1] < 3 * MOST
    finally:
        tracemalloc.stop()


def test_identity_is_bounded_as_well():
    assert refusal(b"xx", None, most=1) == 413


@CODINGS
def test_a_body_that_is_cut_anywhere_is_refused(coding, encode):
    body = encode(NOISE[:500] + bytes(500))
    assert {refusal(body[:at], coding) for at in range(len(body))} == {422}
    assert {refusal(body + body[:at], coding) for at in range(1, len(body))} == {422}


@CODINGS
@pytest.mark.parametrize("junk", [b"\0", b"x", b"hello, world", bytes(100)])
def test_something_after_the_end_is_refused(coding, encode, junk):
    assert refusal(encode(b"content") + junk, coding) == 422
    assert refusal(junk, coding) == 422


def test_a_flipped_bit_in_gzip_is_refused():
    body = gzip.compress(NOISE[:1_000], mtime=0)
    for at in range(10, len(body)):
        assert refusal(body[:at] + bytes((body[at] ^ 4,)) + body[at + 1 :], b"gzip") in (422, 413)


def test_very_many_empty_members_are_refused():
    assert refusal(gzip.compress(b"") * 20_000, b"gzip") == 422
