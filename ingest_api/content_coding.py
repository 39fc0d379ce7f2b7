"""Bodies that are compressed: decoded within a bound, or refused. Pure.

    415   a coding that is not known, or more than one
    413   more bytes than allowed once decoded
    422   corrupt, cut off, or followed by something else

Members and frames may follow one another, as both formats have it.
"""

from __future__ import annotations

import zlib
from typing import Final

import pyarrow as pa

from ingest_api.errors import Refusal

GZIP: Final = frozenset((b"gzip", b"x-gzip"))
ZSTD: Final = b"zstd"
IDENTITY: Final = b"identity"
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS
_PIECE: Final = 256 * 1024
_FED: Final = 16 * 1024
_MOST_MEMBERS: Final = 10_000
_SHOWN: Final = 100


def decode_content(body: bytes, coding: bytes | None, *, most: int) -> bytes:
    """What `body` is without its coding, the value of Content-Encoding."""
    name = IDENTITY if coding is None else coding.strip(b" \t").lower()
    if name == IDENTITY:
        if len(body) > most:
            raise _too_large(most)
        return body
    if name in GZIP:
        return _decode_gzip(body, most)
    if name == ZSTD:
        return _decode_zstd(body, most)
    given = repr(name[:_SHOWN].decode("latin-1"))
    raise Refusal(415, f"Content-Encoding {given} is not accepted, but gzip, zstd and identity are, one of them")


def _decode_gzip(body: bytes, most: int) -> bytes:
    pieces = bytearray()
    at = members = 0
    while at < len(body) or not members:
        members += 1
        if members > _MOST_MEMBERS:
            raise _corrupt("gzip", f"it has more than {_MOST_MEMBERS} members")
        at = _decode_member(body, at, pieces, most)
    return bytes(pieces)


def _decode_member(body: bytes, at: int, pieces: bytearray, most: int) -> int:
    """Add what one member holds to `pieces`; where it ends. What zlib does not take yet it copies: feed it little."""
    whole = memoryview(body)
    member = zlib.decompressobj(_GZIP_BITS)
    while not member.eof:
        fed = member.unconsumed_tail or whole[at : at + _FED]
        if not fed:
            raise _corrupt("gzip", "it is cut off")
        if fed is not member.unconsumed_tail:
            at += len(fed)
        try:
            pieces += member.decompress(fed, min(_PIECE, most + 1 - len(pieces)))
        except zlib.error as error:
            raise _corrupt("gzip", str(error)) from None
        if len(pieces) > most:
            raise _too_large(most)
    return at - len(member.unused_data)


def _decode_zstd(body: bytes, most: int) -> bytes:
    pieces = bytearray()
    if not body:
        raise _corrupt("zstd", "it is empty")
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
            while piece := stream.read(min(_PIECE, most + 1 - len(pieces))):
                pieces += piece
                if len(pieces) > most:
                    raise _too_large(most)
    except (pa.ArrowException, OSError) as error:
        raise _corrupt("zstd", str(error)) from None
    return bytes(pieces)


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body has more than {most} bytes once it is decoded")


def _corrupt(coding: str, why: str) -> Refusal:
    return Refusal(422, f"the body cannot be decoded as {coding}: {why[:200]}")
