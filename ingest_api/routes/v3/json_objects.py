"""Splits a stream of bytes into JSON objects, with or without white space between them. Pure.

It finds the end of an object by its brackets outside of strings. It does not check that the object is valid JSON.
"""

from __future__ import annotations

import re
from typing import Final

_WHITE: Final = re.compile(rb"[ \t\r\n]*")
_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_IN_STRING: Final = re.compile(rb'["\\]')


class JsonObjects:
    """`fault` describes an error behind the last object that was found; no object is found after it.

    `found` is the number of objects.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._text = bytearray()
        self._start = 0
        self._at = 0
        self._depth = 0
        self._quoted = False
        self.found = 0
        self.fault: str | None = None

    @property
    def held(self) -> int:
        """Bytes of an object that has not ended yet."""
        return len(self._text)

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the objects that end in this piece."""
        self._text += piece
        found: list[bytes] = []
        while self.fault is None and self._find_end():
            found.append(bytes(self._text[self._start : self._at]))
        self.found += len(found)
        used = self._start if self._depth else self._at
        del self._text[:used]
        self._start, self._at = 0, self._at - used
        if len(self._text) > self._most and self.fault is None:
            self.fault = f"an object has more than {self._most} bytes"
        return found

    def end(self) -> None:
        """End the input; an unfinished object is a fault."""
        if self._depth and self.fault is None:
            self.fault = "the last object is not complete"

    def _find_end(self) -> bool:
        """Go to the end of the next object; False if it has not arrived yet."""
        if self._depth == 0 and not self._begin():
            return False
        while True:
            found = (_IN_STRING if self._quoted else _STRUCTURE).search(self._text, self._at)
            if found is None:
                self._at = len(self._text)
                return False
            self._at = found.end()
            match found[0]:
                case b'"':
                    self._quoted = not self._quoted
                case b"\\" if self._at == len(self._text):
                    self._at -= 1
                    return False
                case b"\\":
                    self._at += 1
                case b"{" | b"[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if self._depth == 0:
                        return True

    def _begin(self) -> bool:
        white = _WHITE.match(self._text, self._at)
        self._start = self._at = white.end() if white else self._at
        if self._at == len(self._text):
            return False
        if self._text[self._at] != ord("{"):
            self.fault = "between two objects there is something else than white space"
            return False
        return True
