"""The queued request to open a producer's next epoch. Pure."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class EpochBump(msgspec.Struct):
    """`opened`: the epoch assigned at sequencing, ≥ `floor`. `reserves` allows a pre-reserved epoch."""

    producer_id: str
    timestamp_ms: int
    floor: int = 0
    reserves: bool = False
    opened: int = -1

    #: estimated size of its row
    size: ClassVar[int] = 64
