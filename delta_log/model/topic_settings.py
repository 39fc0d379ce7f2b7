"""The table of a topic's settings under Kafka's names: allowed values, default and purpose of each.

Must not know where a setting is used, or where a value comes from. Nothing is coerced: a whole number is an int
or its canonical decimal text, so neither True, nor "1e3", nor " 5" is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

from delta_log.model.errors import InvalidConfig
from delta_log.model.partitioner import NULL_MODES, PARTITIONERS

Value = int | float | str

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
_HOUR, _DAY = 3_600_000, 86_400_000
_MIB = 1024 * 1024
_SHOWN_CHARACTERS, _SHOWN_BITS = 200, 64
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_SHARE = re.compile(r"0(\.[0-9]+)?|1(\.0+)?")


@dataclass(frozen=True, slots=True)
class Whole:
    kind: ClassVar[str] = "long"
    least: int
    most: int = INT64_MAX

    def __call__(self, given: object) -> int | None:
        if isinstance(given, str) and _WHOLE.fullmatch(given):
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int):
            return None
        return given if self.least <= given <= self.most else None

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        return f"a whole number, {self.least} {'or more' if self.most == INT64_MAX else f'to {self.most}'}"


@dataclass(frozen=True, slots=True)
class Share:
    kind: ClassVar[str] = "double"

    def __call__(self, given: object) -> float | None:
        if isinstance(given, str) and _SHARE.fullmatch(given):
            given = float(given)
        if isinstance(given, bool) or not isinstance(given, int | float):
            return None
        return float(given) if 0 <= given <= 1 else None

    def __str__(self) -> str:
        return "a decimal number, 0 to 1"


@dataclass(frozen=True, slots=True)
class OneOf:
    kind: ClassVar[str] = "string"
    words: tuple[str, ...]

    def __call__(self, given: object) -> str | None:
        return given if isinstance(given, str) and given in self.words else None

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class SomeOf:
    """Check for distinct words separated by commas; returns them in the order of `words`, stripped as in Kafka."""

    kind: ClassVar[str] = "list"
    words: tuple[str, ...]

    def __call__(self, given: object) -> str | None:
        chosen = [word.strip(" ") for word in given.split(",")] if isinstance(given, str) else []
        ordered = [word for word in self.words if word in chosen]
        return ",".join(ordered) if ordered and len(ordered) == len(chosen) else None

    def __str__(self) -> str:
        return f"one or more of {', '.join(self.words)}, separated by commas"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. `check` returns the value in its own type, or None if it breaks the rule that `str(check)` states."""

    name: str
    default: Value
    check: Whole | Share | OneOf | SomeOf
    doc: str

    @property
    def kind(self) -> str:
        return self.check.kind

    @property
    def property_name(self) -> str:
        """The setting's name among the properties of the topic's Delta table."""
        return self.name if self.name.startswith("lakelog.") else f"lakelog.{self.name}"

    def parse(self, given: object) -> Value:
        value = self.check(given)
        if value is None:
            raise InvalidConfig(self.name, _shown(given), f"it must be {self.check}")
        return value


# fmt: off
# Two lines a setting, so that the table is read as one.
SETTINGS: tuple[Setting, ...] = (
    Setting("cleanup.policy", "delete", SomeOf(("compact", "delete")),
        "`delete` removes records by age and size, `compact` keeps the newest of each key; or both."),
    Setting("retention.ms", 7 * _DAY, Whole(-1), "How long `delete` keeps a record; -1 keeps it for ever."),
    Setting("retention.bytes", -1, Whole(-1),
        "How large a partition may grow before `delete` removes its oldest records; -1 sets no limit."),
    Setting("delete.retention.ms", _DAY, Whole(0),
        "How long `compact` keeps a null value, so that readers learn that the key was deleted."),
    Setting("min.compaction.lag.ms", 0, Whole(0), "How old a record must be before `compact` may remove it."),
    Setting("max.compaction.lag.ms", INT64_MAX, Whole(1),
        "How old a record may become before `compact` must look at it."),
    Setting("min.cleanable.dirty.ratio", 0.5, Share(),
        "The share of a partition's bytes that must be new before `compact` rewrites it again."),
    Setting("max.message.bytes", 1_048_588, Whole(0, INT32_MAX),
        "The largest record, counted with Kafka's record-batch overhead."),
    Setting("message.timestamp.type", "CreateTime", OneOf(("CreateTime", "LogAppendTime")),
        "Whether a record keeps its producer's time or is given the time of its append."),
    Setting("message.timestamp.before.max.ms", INT64_MAX, Whole(0),
        "How far behind the server's clock a producer's timestamp may lie."),
    Setting("message.timestamp.after.max.ms", _HOUR, Whole(0),
        "How far ahead of the server's clock a producer's timestamp may lie."),
    Setting("compression.type", "zstd", OneOf(("producer", "uncompressed", "zstd", "lz4", "snappy", "gzip")),
        "The codec of the parquet files; `producer` means zstd too, because the server writes them."),
    Setting("min.insync.replicas", 1, Whole(1, 1),
        "How many replicas must hold a record before `acks=all` is answered; a topic has one."),
    Setting("segment.bytes", 128 * _MIB, Whole(_MIB, INT32_MAX),
        "The file size compaction aims at: large enough to scan fast, small enough to rewrite quickly."),
    Setting("segment.ms", 7 * _DAY, Whole(1),
        "The longest time that one file may span, so that retention can remove whole files."),
    Setting("file.delete.delay.ms", 60_000, Whole(0),
        "How long a file that left the table stays at least, for readers that still use it."),
    Setting("lakelog.partitioner", "murmur2", OneOf(tuple(PARTITIONERS)),
        "The hash that gives a key its partition; `murmur2` is that of Kafka's Java client."),
    Setting("lakelog.partitioner.null", "round_robin", OneOf(tuple(NULL_MODES)),
        "Whether null keys take the partitions in turn, or all those of one request the same one."),
    Setting("lakelog.commit.interval.ms", 1000, Whole(100, _HOUR),
        "The time between two commits to the table of a busy topic."),
    Setting("lakelog.commit.bytes", 16 * _MIB, Whole(1024, INT32_MAX),
        "How many waiting bytes bring the next commit forward."),
    Setting("lakelog.history.ms", 48 * _HOUR, Whole(60_000),
        "How long log entries and replaced files stay: the reach of time travel and late Delta streams."),
    Setting("lakelog.history.commits", 10_000, Whole(100, INT32_MAX),
        "How many of the newest commits stay; older ones go even within `lakelog.history.ms`."),
    Setting("lakelog.fold.files", 10, Whole(2, 1000),
        "How many small files a partition gathers before the server folds them into one."),
)
# fmt: on

_BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


def find_setting(name: str, given: object = None) -> Setting:
    """The setting of that name; the error for an unknown one names the nearest that exists."""
    setting = _BY_NAME.get(name)
    if setting is None:
        raise InvalidConfig(str(_shown(name)), _shown(given), f"there is no such setting{nearest_setting(name)}")
    return setting


def nearest_setting(name: str) -> str:
    """A suggestion to append to the error for an unknown setting."""
    by_property = name.removeprefix("lakelog.")
    near = [by_property] if by_property in _BY_NAME else get_close_matches(name, _BY_NAME, n=1)
    return f"; the nearest is {near[0]}" if near else ""


def _shown(given: object) -> object:
    """Shorten a value for an error message: a client may have sent a megabyte, or a number too long to print."""
    if isinstance(given, str) and len(given) > _SHOWN_CHARACTERS:
        return given[:_SHOWN_CHARACTERS] + "…"
    if isinstance(given, int) and given.bit_length() > _SHOWN_BITS:
        return f"{given.bit_length()} bits"
    return given
