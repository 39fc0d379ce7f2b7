"""Checks of JSON beyond msgspec's own: UTF-8, bounded nesting, unique members, canonical base64.

It relies on this behaviour of msgspec, pinned by tests: skipping a value (`Raw`) checks its whole grammar and its
escapes, lone surrogates included, but neither that its strings are UTF-8 nor that it is nested less than Python's own
limit; base64 must be padded and of the standard alphabet, but its unused last bits may be set; of a repeated member the
last one counts; an unknown one is refused. Pure.
"""

from __future__ import annotations

import binascii
import codecs
import re
from typing import Any, Final

import msgspec
import numpy as np

from ingest_api.formats.decode.record_errors import Fault, shown

MOST_NESTED: Final = 100
#: Largest value that cannot be nested deeper: every level takes at least two bytes.
SURELY_SHALLOW: Final = 2 * MOST_NESTED + 1
INT64_MIN: Final = -(2**63)
#: Errors of msgspec for a body that it cannot read.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
WHITE: Final = b" \t\r\n"

_PIECE: Final = 256 * 1024
#: Numpy is faster from some kilobytes on, but releases the GIL at each step, so that a loop loses its turn several
#: times. Larger bodies are decoded by threads, which should release it.
_LARGE: Final = 512 * 1024
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1
#: A quote after padding whose last digit has unused bits set: two digits make one byte, three make two.
_LOOSE: Final = re.compile(rb'=(?:(?<=[^AEIMQUYcgkosw048=]=)"|(?<=[^AQgw]=)=")')
_ENDS: Final = np.zeros(256, np.bool)
_ENDS[list(b"AEIMQUYcgkosw048=")] = True
_ENDS_PAIR: Final = np.zeros(256, np.bool)
_ENDS_PAIR[list(b"AQgw")] = True
_UNKNOWN_MEMBER: Final = "Object contains unknown field "

_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


def count_colons(text: bytes) -> int:
    return count_octet(text, b":")


def count_octet(text: bytes, octet: bytes) -> int:
    if len(text) < _LARGE:
        return text.count(octet)
    octets = np.frombuffer(text, np.uint8)
    return sum(int(np.count_nonzero(octets[at : at + _PIECE] == octet[0])) for at in range(0, len(text), _PIECE))


def may_have_loose_base64(text: bytes) -> bool:
    """False only if no string in `text` can be base64 with unused bits set; `text` has no escaped characters."""
    if len(text) < _LARGE:
        return _LOOSE.search(text) is not None
    octets = np.frombuffer(text, np.uint8)
    for at in range(0, len(text), _PIECE):
        pads = np.flatnonzero(octets[at : at + _PIECE] == ord("=")) + at
        before = octets[pads - 1]
        if not _ENDS[before].all() or not _ENDS_PAIR[before[octets[pads + 1] == ord("=")]].all():
            return True
    return False


def decode_base64(text: str) -> bytes:
    """Decode canonical, padded base64: bytes have exactly one such text."""
    try:
        content = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise Fault("not base64") from None
    if binascii.b2a_base64(content, newline=False) != text.encode():
        raise Fault("not canonical base64")
    return content


def find_bad_utf8(text: bytes) -> int | None:
    """Find the first byte that is not UTF-8; by pieces, as the text of a large body takes up to four times its size."""
    if text.isascii():
        return None
    whole = memoryview(text)
    at = 0
    while at < len(text):
        try:
            _, used = codecs.utf_8_decode(whole[at : at + _PIECE], "strict", at + _PIECE >= len(text))
        except UnicodeDecodeError as error:
            return at + error.start
        at += used
    return None


def is_shallow(value: bytes) -> bool:
    """True if JSON is nested no deeper than allowed. Exact, but a cheap test suffices for nearly all values."""
    if len(value) <= SURELY_SHALLOW or value.count(b"[") + value.count(b"{") <= MOST_NESTED:
        return True
    return outline(value)[0] <= MOST_NESTED


def outline(text: bytes) -> tuple[int, int]:
    """Measure the depth of JSON, and the number of elements of all arrays at depth two, if they have any."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    octets = np.frombuffer(text, np.uint8)
    deepest = depth = inside = commas = 0
    for at in range(0, len(text), _PIECE):
        piece = octets[at : at + _PIECE]
        # Eight bits overflow, but the parity of the number of quotes is preserved.
        quoted = (np.cumsum(piece == ord('"'), dtype=np.uint8) + np.uint8(inside)) & 1
        depths = np.cumsum(_STEPS[piece] * (1 - quoted.astype(np.int8)), dtype=np.int64) + depth
        commas += int(np.count_nonzero((piece == ord(",")) & (quoted == 0) & (depths == 2)))
        deepest = max(deepest, int(depths.max()))
        depth, inside = int(depths[-1]), int(quoted[-1])
    return deepest, commas + 1


def check_text(text: bytes) -> None:
    """Check that a body is a single JSON value."""
    if not text.strip(WHITE):
        raise Fault("empty")
    if text.startswith(codecs.BOM_UTF8):
        raise Fault("preceded by a byte order mark")
    bad = find_bad_utf8(text)
    if bad is not None:
        raise Fault(f"not UTF-8 at byte {bad}")
    check_syntax(text)


def check_syntax(text: bytes) -> None:
    try:
        _skip(text)
    except RecursionError:
        raise Fault(f"nested deeper than {MOST_NESTED} levels") from None
    except msgspec.DecodeError as error:
        raise Fault(f"not JSON: {say(error)}") from None


def read_object(text: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode an object whose members are all of type Raw, none repeated; `text` is known to be JSON.

    Names of members have no colons, so outside of the values there is one colon for each given member.
    """
    try:
        read = decoder.decode(text)
    except msgspec.DecodeError as error:
        raise Fault(say(error)) from None
    given = [content for content in msgspec.structs.astuple(read) if content is not msgspec.UNSET]
    if count_colons(bytes(text)) - sum(count_colons(bytes(content)) for content in given) != len(given):
        raise Fault("a member of it is given twice")
    return read


def read_typed(text: msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.DecodeError as error:
        raise Fault(say(error)) from None


def say(error: msgspec.DecodeError) -> str:
    """Return msgspec's message without its path, and without a long name from the request."""
    text, _, _ = str(error).partition(" - at `$")
    text = text.removeprefix("JSON is malformed: ")
    if text.startswith(_UNKNOWN_MEMBER):
        return f"{shown(text.removeprefix(_UNKNOWN_MEMBER).strip('`'))} is no member that it can have"
    return text[:1].lower() + text[1:200]
