"""A JSON object with a checksum: its last member is the checksum of the object without it. Pure.

    {"cluster_id":"…","format":1,"crc":2774690454}

Older versions wrote no checksum, and only known members; an object without a checksum but with others is damaged.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from typing import Any, Final, TypeVar

import msgspec

_CHECKSUM: Final = re.compile(rb',"crc":(\d+)\}$')

T = TypeVar("T")


def encode_checked(told: object) -> bytes:
    data = msgspec.json.encode(told)
    return b'%b,"crc":%d}' % (data[:-1], zlib.crc32(data))


def decode_checked(data: bytes, kind: type[T], older: Collection[str]) -> T:
    """Decode and verify; DecodeError if the data is damaged. `older`: the members of versions without a checksum."""
    try:
        said = msgspec.json.decode(data, type=dict[str, Any])
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
    found = _CHECKSUM.search(data)
    if found is None:
        if not said.keys() <= set(older):
            raise msgspec.DecodeError("it is not what was written: its checksum is damaged")
    elif zlib.crc32(data[: found.start()] + b"}") != int(found[1]):
        raise msgspec.DecodeError("it is not what was written: its checksum is wrong")
    return msgspec.convert(said, kind)
