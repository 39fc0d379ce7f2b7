"""Recognizes a head equal to the one before, so that it need not be parsed again. Values in, values out.

Clients send the same head again and again. Clients that number their requests change one field in it, a counter; the
rest of the head stays the same.
"""

from __future__ import annotations

import re
from typing import Final

from ingest_api.http1.limits import WireLimits
from ingest_api.http1.request_head import Head

#: The field that is a counter. Its value has no meaning here.
COUNTER: Final = b"producer-seq"
_COUNTED: Final = re.compile(rb"\r\n" + COUNTER + rb":[ \t]*([0-9]+)\r\n", re.IGNORECASE)
_MOST_DIGITS: Final = 19


class KnownHead:
    """A head as bytes before and behind its number, and parsed; without a number all of it is `_before`."""

    __slots__ = ("_before", "_behind", "_head", "_place", "_size")

    def __init__(self, data: bytes, head: Head, limits: WireLimits) -> None:
        self._head = head
        self._before, self._behind, self._place = data, b"", -1
        counting = [place for place, (name, _) in enumerate(head.headers) if name == COUNTER]
        may_grow = len(data) + _MOST_DIGITS <= limits.head_bytes
        found = _COUNTED.search(data) if len(counting) == 1 and may_grow else None
        if found is not None:
            self._before, self._behind, self._place = data[: found.start(1)], data[found.end(1) :], counting[0]
        #: Size of the bytes behind the number, and of the body; -1 for a chunked body.
        self._size = -1 if head.length is None else len(self._behind) + head.length

    def repeat(self, data: bytes) -> Head | None:
        """Return the head for `data`, which is a whole head; None if it must be parsed."""
        if self._place < 0:
            return self._head if data == self._before else None
        end = len(data) - len(self._behind)
        if not data.startswith(self._before) or not data.endswith(self._behind):
            return None
        return self._with(data[len(self._before) : end])

    def repeat_whole(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body if `data` is exactly one request with this head and a body of the same length."""
        begin = end = len(self._before)
        if not data.startswith(self._before):
            return None
        if self._place >= 0:
            end = data.find(b"\r", begin, begin + _MOST_DIGITS + 1)
        if end < 0 or len(data) - end != self._size or not data.startswith(self._behind, end):
            return None
        head = self._head if self._place < 0 else self._with(data[begin:end])
        return None if head is None else (head, data[end + len(self._behind) :])

    def _with(self, number: bytes) -> Head | None:
        """The head with another number; None if it is not all digits, as other bytes could end the field."""
        if not number.isdigit() or len(number) > _MOST_DIGITS:
            return None
        return self._head.with_value(self._place, number)
