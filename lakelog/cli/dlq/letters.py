"""Dead letters for the commands: their headers, the filters, and the record to send back. Pure."""

from __future__ import annotations

import argparse
import base64
from typing import Any, Final, NamedTuple

import msgspec

from lakelog.cli.kit.arguments import moment_ms, whole

__all__ = ["REPLAYS", "Letter", "Polled", "Wanted", "add_filters", "as_record", "read_letter", "wanted_by"]

#: Prefix of the groups that track replayed letters, and of the replays' producer ids.
REPLAYS: Final = "lakelog-replay/"
_PREFIX: Final = "lakelog.dlq."


class _Header(msgspec.Struct):
    name: str
    value: str | None


class Polled(msgspec.Struct):
    """A record in v2's binary form."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[_Header]


class Letter(NamedTuple):
    """A dead letter. `said`: its headers `lakelog.dlq.*`, by the rest of their names."""

    record: Polled
    said: dict[str, str]

    @property
    def topic(self) -> str:
        return self.said.get("topic", "")

    def number(self, name: str) -> int | None:
        text = self.said.get(name, "")
        return int(text) if text.isascii() and text.isdigit() else None


class Wanted(NamedTuple):
    """Filter of letters; None matches all."""

    reason: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    since_ms: int | None

    def has(self, letter: Letter) -> bool:
        return (
            (self.reason is None or self.reason in letter.said.get("reason", ""))
            and (self.topic is None or self.topic == letter.topic)
            and (self.partition is None or self.partition == letter.number("partition"))
            and (self.offset is None or self.offset == letter.number("offset"))
            and (self.since_ms is None or letter.record.timestamp >= self.since_ms)
        )


def read_letter(record: Polled) -> Letter:
    said = {
        each.name.removeprefix(_PREFIX): base64.b64decode(each.value or "").decode(errors="replace")
        for each in record.headers
        if each.name.startswith(_PREFIX)
    }
    return Letter(record, said)


def as_record(letter: Letter, partition: int | None) -> dict[str, Any]:
    """The original record without its time: with the old one, retention might remove it at once."""
    headers = [each for each in letter.record.headers if not each.name.startswith(_PREFIX)]
    found: dict[str, Any] = {"key": letter.record.key, "value": letter.record.value, "headers": headers}
    return found if partition is None else {**found, "partition": partition}


def add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which letters (default: all)")
    group.add_argument("--reason", metavar="TEXT", help="letters in whose reason this text stands")
    group.add_argument("--topic", metavar="TOPIC", help="letters that come from this topic")
    group.add_argument("--partition", type=whole, metavar="N", help="letters that come from this partition")
    group.add_argument("--offset", type=whole, metavar="N", help="letters that had this offset there")
    group.add_argument(
        "--since",
        type=moment_ms,
        metavar="TIME",
        help="letters that lie there since a time, as 2026-01-31T12:00:00Z, or in milliseconds since 1970",
    )


def wanted_by(args: argparse.Namespace) -> Wanted:
    return Wanted(args.reason, args.topic, args.partition, args.offset, args.since)
