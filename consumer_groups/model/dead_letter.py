"""Dead letters: their format, and the configuration of their topic. Pure.

A letter is the original record, with headers for its origin and the reason. All writers use this module: the routes of
consumers, a poll that gives up a record, and the jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, NamedTuple

from delta_log.model.errors import InvalidName
from delta_log.model.names import check_topic_name

__all__ = [
    "Letter",
    "Origin",
    "configs_for_letters",
    "dead_letter_topic",
    "dead_letter_topics",
    "origin_of",
    "without_value",
]

_PREFIX: Final = "lakelog.dlq."
_SUFFIX: Final = ".dlq"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")
_MOST_LEFT: Final = 200
_DIGITS: Final = 12
_LONGEST_REASON: Final = 1_000
_KEPT_MS: Final = 30 * 24 * 3_600_000
#: Bytes that headers may add to the largest record of the topic.
_MORE_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = (1 << 31) - 1

Headers = Sequence[tuple[str, bytes | None]]


class Origin(NamedTuple):
    """Position of a dead-lettered record in its topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Letter:
    origin: Origin
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str
    left_out: str = ""
    attempts: int = 1

    def all_headers(self, topic: str, group: str) -> list[tuple[str, bytes | None]]:
        """Headers of the record, then those of the letter; of a repeated name the last one counts."""
        said: dict[str, str] = {
            "topic": topic,
            "partition": str(self.origin.partition),
            "offset": str(self.origin.offset),
            "timestamp": str(self.timestamp_ms),
            "group": group,
            "attempts": str(self.attempts),
            "reason": self.reason[:_LONGEST_REASON],
        }
        if self.left_out:
            said["left_out"] = self.left_out
        return [*self.headers, *((f"{_PREFIX}{name}", text.encode()) for name, text in said.items())]


def without_value(letter: Letter) -> Letter:
    """Strip a letter that is too large for the topic; its headers tell where the record is."""
    return replace(letter, key=None, value=None, headers=(), left_out="key, value and headers")


def origin_of(headers: Iterable[Mapping[str, Any]] | None, topic: str, group: str) -> Origin | None:
    """Origin of a letter by its headers; None if it is no letter of that topic for that group."""
    said = {each["key"]: each["value"] for each in headers or ()}
    try:
        if (said[f"{_PREFIX}topic"], said[f"{_PREFIX}group"]) != (topic.encode(), group.encode()):
            return None
        return Origin(int(said[f"{_PREFIX}partition"]), int(said[f"{_PREFIX}offset"]))
    except (KeyError, TypeError, ValueError):
        return None


def dead_letter_topic(group: str, named: str | None = None) -> str:
    """First choice of topic for dead letters."""
    return dead_letter_topics(group, named)[0]


def dead_letter_topics(group: str, named: str | None = None) -> tuple[str, ...]:
    """Topics for dead letters, in order of preference; the last has a digest, so that every group name gives one."""
    left = _UNFIT.sub("_", group).lstrip("_.-")[:_MOST_LEFT] or "group"
    apart = f"{left}-{sha256(group.encode()).hexdigest()[:_DIGITS]}{_SUFFIX}"
    return tuple(dict.fromkeys(name for name in (named, group + _SUFFIX, apart) if name and _is_name(name)))


def _is_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidName:
        return False
    return True


def configs_for_letters(largest: int) -> dict[str, str | int]:
    """Configs of a dead-letter topic; `largest` is the maximum record size of the original topic."""
    most = min(_MOST_BYTES, largest + _MORE_BYTES)
    return {"cleanup.policy": "delete", "retention.ms": _KEPT_MS, "max.message.bytes": most}
