"""The kinds of payloads that a journal holds, by their numbers in it. Pure."""

from __future__ import annotations

from typing import Final

ROWS: Final = 0
ARROW: Final = 1
PRODUCERS: Final = 2
DECISION: Final = 3
LEDGER: Final = 4
