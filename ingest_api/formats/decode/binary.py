"""A single record: its value is the body, the rest is in request headers. Pure.

    Lakelog-Key            the key as UTF-8, `%xx` for a byte; a percent sign itself is `%25`
    Lakelog-Key-Base64     the key as canonical base64, for bytes that are no text
    Lakelog-Partition      a whole number
    Lakelog-Timestamp      milliseconds since 1970
    Lakelog-Header         `name=base64`, a comma-separated list or several of them; the name is written as a key is,
                           with `%2C`, `%3D` and `%20` for comma, equals sign and space; without `=` its value is null

An empty body is an empty value and an empty key an empty one; without a key header the key is null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from delta_log.model.topic_settings import INT64_MAX
from delta_log.model.types import Header, Record
from delta_log.records.validation import LATEST_TIMESTAMP
from ingest_api.formats.decode.record_errors import Fault, shown
from ingest_api.formats.decode.record_object import MOST_HEADERS, check_header_bytes
from ingest_api.formats.decode.strict_json import decode_base64
from ingest_api.web.errors import Refusal

KEY: Final = b"lakelog-key"
KEY_BASE64: Final = b"lakelog-key-base64"
PARTITION: Final = b"lakelog-partition"
TIMESTAMP: Final = b"lakelog-timestamp"
HEADER: Final = b"lakelog-header"
#: Headers of the request itself, not of its record.
_OF_REQUESTS: Final = frozenset((b"lakelog-generation",))
_PREFIX: Final = b"lakelog-"
_ONCE: Final = frozenset((KEY, KEY_BASE64, PARTITION, TIMESTAMP))
_WHOLE: Final = re.compile(rb"0|[1-9][0-9]{0,18}")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})?")


def decode_octets(body: bytes, headers: Iterable[tuple[bytes, bytes]], *, partition: int | None = None) -> Record:
    """Decode the record of a request, for `partition` if given; names of `headers` are in lower case."""
    once, listed = _collect(headers)
    place = _whole(once, PARTITION, INT64_MAX)
    if partition is not None and place not in (None, partition):
        raise Refusal(422, f"Lakelog-Partition is {place}, but the request is for partition {partition}")
    return Record(
        value=body,
        key=_read_key(once),
        timestamp=_whole(once, TIMESTAMP, LATEST_TIMESTAMP),
        headers=_read_headers(listed),
        partition=place if partition is None else partition,
    )


def _collect(headers: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], list[bytes]]:
    once: dict[bytes, bytes] = {}
    listed: list[bytes] = []
    for name, content in headers:
        if not name.startswith(_PREFIX) or name in _OF_REQUESTS:
            continue
        if name == HEADER:
            listed += [element.strip(b" \t") for element in content.split(b",")]
        elif name not in _ONCE:
            raise Refusal(422, f"there is no request header {shown(name.decode('latin-1'))}")
        elif name in once:
            raise Refusal(422, f"the request header {name.decode()} is given twice")
        else:
            once[name] = content
    return once, listed


def _read_key(once: dict[bytes, bytes]) -> bytes | None:
    text, encoded = once.get(KEY), once.get(KEY_BASE64)
    if text is not None and encoded is not None:
        raise Refusal(422, "Lakelog-Key and Lakelog-Key-Base64 exclude each other")
    try:
        if text is not None:
            return _unescape(text).encode()
        return None if encoded is None else decode_base64(encoded.decode("latin-1"))
    except Fault as fault:
        raise Refusal(422, f"the key is {fault}") from None


def _read_headers(listed: Sequence[bytes]) -> tuple[Header, ...] | None:
    if len(listed) > MOST_HEADERS:
        raise Refusal(422, f"a record has at most {MOST_HEADERS} headers, not {len(listed)}")
    pairs: list[Header] = []
    for index, element in enumerate(listed):
        name, valued, content = element.partition(b"=")
        try:
            if not element:
                raise Fault("empty")  # noqa: TRY301 - all three faults get one message below
            pairs.append((_unescape(name), decode_base64(content.decode("latin-1")) if valued else None))
        except Fault as fault:
            raise Refusal(422, f"Lakelog-Header: element {index} is {fault}") from None
    try:
        check_header_bytes(pairs)
    except Fault as fault:
        raise Refusal(422, str(fault)) from None
    return tuple(pairs) or None


def _unescape(text: bytes) -> str:
    if any(found[1] is None for found in _ESCAPE.finditer(text)):
        raise Fault("not percent-encoded: a percent sign needs two hexadecimal digits")
    try:
        return _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), text).decode()
    except UnicodeDecodeError:
        raise Fault("not UTF-8") from None


def _whole(once: dict[bytes, bytes], name: bytes, most: int) -> int | None:
    text = once.get(name)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > most:
        given = shown(text.decode("latin-1"))
        raise Refusal(422, f"{name.decode()} is {given}: it must be a whole number from 0 to {most}")
    return int(text)
