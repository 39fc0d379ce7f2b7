"""Options of a consumer at its creation, under Kafka's names.

Strict, with one leniency that existing clients need: numbers and booleans may be strings. It must not know which part
uses an option. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import msgspec

from consumer_groups.model.assignment import UnknownAssignor, assignor_named
from consumer_groups.model.errors import InvalidOption
from consumer_groups.model.reset_policy import parse_policy
from delta_log.model.errors import InvalidName
from delta_log.model.names import check_id, check_topic_name
from delta_log.model.topic_settings import Whole

FORMATS: Final = ("binary", "json")
ISOLATION_LEVELS: Final = ("read_committed", "read_uncommitted")
#: Alternative names of options, used by other clients.
SPELLINGS: Final[Mapping[str, str]] = {"enable.auto.commit": "auto.commit.enable"}
#: Options that no member keeps.
_NOT_KEPT: Final = ("name", "isolation.level")
_INT32_MAX: Final = 2**31 - 1
_HOUR: Final = 3_600_000
_SHOWN: Final = 100
_KAFKA_CLASS: Final = re.compile(
    r"org\.apache\.kafka\.clients\.consumer\.(Range|RoundRobin|Sticky|CooperativeSticky)Assignor"
)
_KAFKA_NAMES: Final = {
    "Range": "range",
    "RoundRobin": "roundrobin",
    "Sticky": "sticky",
    "CooperativeSticky": "cooperative-sticky",
}


class Options(msgspec.Struct, frozen=True, rename=lambda name: name.replace("_", ".")):
    """Options of one consumer instance. All are stored, so that a later change of a default affects no member."""

    format: str = "binary"
    auto_offset_reset: str = "earliest"
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = 5000
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    consumer_request_timeout_ms: int = 11_000
    session_timeout_ms: int = 300_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int = 60_000
    group_instance_id: str | None = None
    partition_assignment_strategy: tuple[str, ...] = ("range",)
    dead_letter_topic: str | None = None
    max_delivery_attempts: int | None = 10
    polls: bool = True

    @property
    def most_attempts(self) -> int | None:
        """Maximum of delivery attempts. None: unlimited, by request or as the default when the member was created."""
        most = self.max_delivery_attempts
        return None if most is None or most <= 0 else most


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `check` returns the value to store, or None if it breaks `rule`."""

    name: str
    check: Callable[[object], object]
    rule: str
    doc: str
    unkept_default: str | None = None

    @property
    def default(self) -> object:
        return getattr(Options(), self.name.replace(".", "_"), self.unkept_default)


def parse_options(given: Mapping[str, object], *, custom: Collection[str] = ()) -> tuple[str | None, Options]:
    """Parse options; returns the requested name, if any, and the options. `custom`: assignors that may be loaded."""
    values: dict[str, object] = {}
    for name, value in given.items():
        option = OPTIONS.get(SPELLINGS.get(name, name))
        if option is None:
            near = get_close_matches(name, [*OPTIONS, *SPELLINGS], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidOption(name[:_SHOWN], value, f"there is no such option{hint}")
        if value is None and option.default is None:
            continue
        parsed = option.check(value)
        if parsed is None:
            raise InvalidOption(name, value, option.rule)
        if values.setdefault(option.name, parsed) != parsed:
            other = next(each for each in given if SPELLINGS.get(each, each) == option.name)
            raise InvalidOption(name, value, f"what {other} says, as both mean the same")
    options = msgspec.convert({k: v for k, v in values.items() if k not in _NOT_KEPT}, Options)
    for strategy in options.partition_assignment_strategy:
        try:
            assignor_named(strategy, custom)
        except UnknownAssignor as error:
            raise InvalidOption("partition.assignment.strategy", strategy, error.rule) from error
    name = values.get("name")
    return (name if isinstance(name, str) else None), options


def _flag(given: object) -> bool | None:
    if isinstance(given, str):
        return {"true": True, "false": False}.get(given.lower())
    return given if isinstance(given, bool) else None


def _format(given: object) -> str | None:
    return given if isinstance(given, str) and given in FORMATS else None


def _isolation(given: object) -> str | None:
    return given if isinstance(given, str) and given in ISOLATION_LEVELS else None


def _policy(given: object) -> str | None:
    return parse_policy(given) if isinstance(given, str) else None


def _strategies(given: object) -> tuple[str, ...] | None:
    """Parse Kafka's comma-separated list, the preferred name first; names of Kafka's Java classes are accepted, too."""
    if not isinstance(given, str):
        return None
    names = [_KAFKA_CLASS.sub(lambda found: _KAFKA_NAMES[found[1]], name.strip(" ")) for name in given.split(",")]
    return tuple(dict.fromkeys(names)) if all(names) else None


def _id(what: str) -> Callable[[object], str | None]:
    def check(given: object) -> str | None:
        try:
            check_id(what, given if isinstance(given, str) else "")
        except InvalidName:
            return None
        return str(given)

    return check


def _topic(given: object) -> str | None:
    try:
        check_topic_name(given if isinstance(given, str) else "")
    except InvalidName:
        return None
    return str(given)


def _attempts(given: object) -> int | None:
    found = Whole(-1, 1_000_000)(given)
    return found or None


def _whole(name: str, least: int, most: int, doc: str) -> Option:
    check = Whole(least, most)
    return Option(name, check, str(check), doc)


_ID_RULE: Final = "1 to 255 bytes of UTF-8 in normal form C, without control characters"
OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option
    for option in (
        Option("name", _id("consumer instance name"), _ID_RULE, "what the instance is called; else it is given a name"),
        Option("format", _format, f"one of {', '.join(FORMATS)}", "how keys and values are embedded in answers"),
        Option(
            "auto.offset.reset",
            _policy,
            "earliest, latest, none, or by_duration: and an ISO 8601 duration of weeks, days and times",
            "where to begin when nothing is committed, or what is committed is gone",
        ),
        Option("auto.commit.enable", _flag, "true or false", "whether what earlier polls delivered is committed"),
        _whole("auto.commit.interval.ms", 0, _INT32_MAX, "how often, at the most, auto-commit commits"),
        _whole("fetch.min.bytes", -1, _INT32_MAX, "a poll with less waits for more; at most fetch.max.wait.ms"),
        _whole("fetch.max.wait.ms", 0, _INT32_MAX, "how long a poll waits for fetch.min.bytes"),
        _whole("consumer.request.timeout.ms", 0, _INT32_MAX, "how long a poll waits that does not say"),
        _whole("session.timeout.ms", 100, 30 * 60_000, "after so long without any request the instance is gone"),
        _whole("max.poll.interval.ms", 100, _INT32_MAX, "after so long without a poll its partitions go to others"),
        _whole("rebalance.timeout.ms", 100, _HOUR, "how long a partition that is to move waits for its owner"),
        Option("group.instance.id", _id("group instance id"), _ID_RULE, "makes a static member, that may come back"),
        Option(
            "partition.assignment.strategy",
            _strategies,
            "names of assignors between commas",
            "how partitions are given out: the one that most members want",
        ),
        Option("dead.letter.topic", _topic, "the name of a topic", "where records go that could not be processed"),
        Option(
            "max.delivery.attempts",
            _attempts,
            "a whole number, 1 to 1000000, or -1 for ever",
            "how often a record is given to members that go without having come back, before it is a dead letter",
        ),
        Option(
            "isolation.level",
            _isolation,
            f"one of {', '.join(ISOLATION_LEVELS)}",
            "changes nothing: records of a transaction are there once it is committed",
            ISOLATION_LEVELS[0],
        ),
        Option("polls", _flag, "true or false", "whether it reads by polls; else heartbeats alone give up what it has"),
    )
}
