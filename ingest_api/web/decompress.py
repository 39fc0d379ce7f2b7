"""Compressed bodies: decoded within a bound, or refused. Pure.

    415   a coding that is not known, or more than one
    413   more bytes than allowed once decoded
    422   corrupt, cut off, or followed by something else

Several members or frames may follow one another, as both formats allow.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from typing import Final

import pyarrow as pa

from delta_log.model.quoting import quoted
from ingest_api.web.errors import Refusal

GZIP: Final = frozenset((b"gzip", b"x-gzip"))
ZSTD: Final = b"zstd"
IDENTITY: Final = b"identity"
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS
_PIECE: Final = 256 * 1024
_FED: Final = 16 * 1024
_MOST_MEMBERS: Final = 10_000


def decode_content(body: bytes, coding: bytes | None, *, most: int) -> bytes:
    """Decode a body; `coding` is the value of Content-Encoding."""
    if coding is not None and not is_identity(coding):
        return b"".join(decode_pieces(body, coding, most=most))
    if len(body) > most:
        raise _too_large(most)
    return body


def is_identity(coding: bytes) -> bool:
    return coding.strip(b" \t").lower() == IDENTITY


def decode_pieces(body: bytes, coding: bytes, *, most: int) -> Iterator[bytes]:
    """Decode piece by piece, each of 256 KiB at most; any coding but identity."""
    name = coding.strip(b" \t").lower()
    if name in GZIP:
        pieces = _decode_gzip(body)
    elif name == ZSTD:
        pieces = _decode_zstd(body)
    else:
        raise Refusal(
            415, f"Content-Encoding {quoted(name)} is not accepted, but gzip, zstd and identity are, one of them"
        )
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise _too_large(most)
        yield piece


def _decode_gzip(body: bytes) -> Iterator[bytes]:
    at = members = 0
    while at < len(body) or not members:
        members += 1
        if members > _MOST_MEMBERS:
            raise _corrupt("gzip", f"it has more than {_MOST_MEMBERS} members")
        at = yield from _decode_member(body, at)


def _decode_member(body: bytes, at: int) -> Generator[bytes, None, int]:
    """Decode one member; returns where it ends. Fed in small steps, as zlib copies the input that it has not used."""
    whole = memoryview(body)
    member = zlib.decompressobj(_GZIP_BITS)
    while not member.eof:
        fed = member.unconsumed_tail or whole[at : at + _FED]
        if not fed:
            raise _corrupt("gzip", "it is cut off")
        if fed is not member.unconsumed_tail:
            at += len(fed)
        try:
            piece = member.decompress(fed, _PIECE)
        except zlib.error as error:
            raise _corrupt("gzip", str(error)) from None
        yield piece
    return at - len(member.unused_data)


def _decode_zstd(body: bytes) -> Iterator[bytes]:
    if not body:
        raise _corrupt("zstd", "it is empty")
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except (pa.ArrowException, OSError) as error:
        raise _corrupt("zstd", str(error)) from None


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body has more than {most} bytes once it is decoded")


def _corrupt(coding: str, why: str) -> Refusal:
    return Refusal(422, f"the body cannot be decoded as {coding}: {why[:200]}")
