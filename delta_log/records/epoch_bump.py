"""Opening the next epoch of a producer, on its way through the queue. Pure."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class EpochBump(msgspec.Struct):
    """`opened` is the epoch, at least `floor`, once its turn came. Who `reserves` may be given a reserved one."""

    producer_id: str
    timestamp_ms: int
    floor: int = 0
    reserves: bool = False
    opened: int = -1

    #: about what its row takes
    size: ClassVar[int] = 64
