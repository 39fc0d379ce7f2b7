"""Reset policy `auto.offset.reset`: where to begin without a valid position.

It knows the policies and the ISO 8601 durations of one of them. It must not know groups or members. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from delta_log.model.types import PartitionOffsets

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
NONE: Final = "none"
BY_DURATION: Final = "by_duration:"
#: A hundred years: a longer duration means earliest.
_LONGEST_MS: Final = 100 * 366 * 86_400_000
_UNITS_MS: Final = (7 * 86_400_000, 86_400_000, 3_600_000, 60_000, 1000)
#: Months and years are left out, as by Kafka: they have no fixed length.
_DURATION: Final = re.compile(
    r"P(?=.)(?:([0-9]{1,9})W)?(?:([0-9]{1,9})D)?"
    r"(?:T(?=.)(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,12}(?:[.,][0-9]{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class At:
    """Start at the first record at or after a time, to be looked up by the caller; at the end if there is none."""

    timestamp_ms: int


def parse_policy(text: str) -> str | None:
    """Return the policy in its stored form; None if there is no such policy."""
    lowered = text.lower()
    if lowered in (EARLIEST, LATEST, NONE):
        return lowered
    if lowered.startswith(BY_DURATION) and duration_ms(text[len(BY_DURATION) :]) is not None:
        return BY_DURATION + text[len(BY_DURATION) :].upper()
    return None


@lru_cache(maxsize=64)
def duration_ms(text: str) -> int | None:
    """Parse a duration of weeks to seconds, like P1D or PT1H30M; None for anything else."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    total = 0.0
    for given, unit in zip(found.groups(), _UNITS_MS, strict=True):
        total += float((given or "0").replace(",", ".")) * unit
    return int(min(total, _LONGEST_MS))


def resolve_policy(policy: str, offsets: PartitionOffsets, now_ms: int) -> int | At | None:
    """Start position by a policy; None for the policy `none`."""
    if policy == EARLIEST:
        return offsets.log_start_offset
    if policy == LATEST:
        return offsets.end_offset
    if policy == NONE:
        return None
    return At(max(0, now_ms - (duration_ms(policy[len(BY_DURATION) :]) or 0)))
