"""Settings of a consumer: Kafka's settings under Kafka's names. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from lakelog.foundation.errors import InvalidSetting
from lakelog.foundation.settings import INT32_MAX, SHARED, Flag, Setting, Whole, Word, read_settings
from lakelog.transport.backoff import Backoff

_HOUR_MS: Final = 3_600_000
_MOST_ID: Final = 255
_RESET: Final = re.compile(r"earliest|latest|none|by_duration:P[0-9A-Z.,]{1,60}")
_TIMES: Final = Whole(1, 1_000_000)
_FOR_EVER: Final = -1
_DESERIALIZERS: Final = Word(("bytes", "string", "json"), callables=True)


class Id(NamedTuple):
    """Name of a group or of a static member."""

    @property
    def allowed(self) -> str:
        return f"1 to {_MOST_ID} bytes of UTF-8, without control characters"

    def read(self, given: object) -> str:
        if not isinstance(given, str) or any(unicodedata.category(each) in ("Cc", "Cs") for each in given):
            raise ValueError(self.allowed)
        named = unicodedata.normalize("NFC", given)
        if not 1 <= len(named.encode()) <= _MOST_ID:
            raise ValueError(self.allowed)
        return named


class ResetPolicy(NamedTuple):
    @property
    def allowed(self) -> str:
        return "earliest, latest, none, or by_duration: and an ISO 8601 duration, as in by_duration:PT1H"

    def read(self, given: object) -> str:
        if not isinstance(given, str) or not _RESET.fullmatch(given):
            raise ValueError(self.allowed)
        return given


class Text(NamedTuple):
    """Text that the server checks."""

    allowed: str

    def read(self, given: object) -> str:
        if not isinstance(given, str) or not given:
            raise ValueError(self.allowed)
        return given


class Attempts(NamedTuple):
    """Number of delivery attempts, or -1 for no limit."""

    @property
    def allowed(self) -> str:
        return f"{_TIMES.allowed}, or {_FOR_EVER}"

    def read(self, given: object) -> int:
        if given == str(_FOR_EVER) or (type(given) is int and given == _FOR_EVER):
            return _FOR_EVER
        try:
            return _TIMES.read(given)
        except ValueError:
            raise ValueError(self.allowed) from None


CONSUMER_SETTINGS: Final = (
    *SHARED,
    Setting("group.id", Id(), None, "The group to read with, and to commit for.", required=True),
    Setting("group.instance.id", Id(), None,
            "Makes a static member: one that comes back under this name within its session keeps its partitions, and "
            "whoever has the name is fenced by the next that takes it."),
    Setting("auto.offset.reset", ResetPolicy(), "earliest",
            "Where to begin when nothing is committed, or what is committed is gone. `earliest` is the server's "
            "default, too; Kafka's is `latest`."),
    Setting("enable.auto.commit", Flag(), default=True,
            doc="What earlier polls returned is committed by later ones, by `close` and before a partition goes."),
    Setting("auto.commit.interval.ms", Whole(0, INT32_MAX), 5_000, "How often, at the most, `poll` commits."),
    Setting("session.timeout.ms", Whole(100, 1_800_000), 45_000,
            "After so long without a sign of life the group goes on without this member."),
    Setting("heartbeat.interval.ms", Whole(1, INT32_MAX), 3_000,
            "How often a sign of life is given; it must be less than `session.timeout.ms`."),
    Setting("max.poll.interval.ms", Whole(1, INT32_MAX), 300_000,
            "After so long without a `poll` the consumer leaves the group by itself; the next one brings it back."),
    Setting("rebalance.timeout.ms", Whole(100, _HOUR_MS), 60_000,
            "How long a partition that is to move waits for the `poll` that gives it up; then it is taken away."),
    Setting("partition.assignment.strategy", Text("names of assignors between commas"), "range",
            "How partitions are given out: `range`, `roundrobin`, `sticky`, `cooperative-sticky`, or one that the "
            "server was given; the one that most members want."),
    Setting("dead.letter.topic", Text("the name of a topic"), None,
            "Where dead letters go; without it, to the group's name and `.dlq`."),
    Setting("max.delivery.attempts", Attempts(), 10,
            "How often a record is given to members that die of it before it is a dead letter; -1 is for ever."),
    Setting("max.poll.records", Whole(1, INT32_MAX), 500, "How many records a `poll` returns at most."),
    Setting("fetch.min.bytes", Whole(1, INT32_MAX), 1,
            "The server waits for so many bytes, at most `fetch.max.wait.ms`."),
    Setting("fetch.max.wait.ms", Whole(0, INT32_MAX), 500,
            "How long the server waits where there is nothing, or less than `fetch.min.bytes`; never longer than half "
            "a second, as a request cannot be broken off."),
    Setting("fetch.max.bytes", Whole(1, INT32_MAX), 4 * 1024 * 1024,
            "About how many bytes of records come at once; at least one record does."),
    Setting("default.api.timeout.ms", Whole(1, INT32_MAX), 60_000,
            "How long a call may last, with all its repeats, that is given no timeout of its own. No setting of "
            "`poll`."),
    Setting("retries", Whole(0, INT32_MAX), INT32_MAX,
            "How often what is asked of the log is asked again. What keeps the consumer going is always repeated."),
    Setting("key.deserializer", _DESERIALIZERS, "bytes",
            "What the bytes of keys become; a callable is given the bytes. None stays."),
    Setting("value.deserializer", _DESERIALIZERS, "bytes", "What the bytes of values become, likewise."),
)  # fmt: skip
#: The longest wait that a request asks the server for.
MOST_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings, with underscores in place of dots."""

    bootstrap_servers: str
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    group_id: str
    group_instance_id: str | None
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    rebalance_timeout_ms: int
    partition_assignment_strategy: str
    dead_letter_topic: str | None
    max_delivery_attempts: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    default_api_timeout_ms: int
    retries: int
    key_deserializer: str | Callable[..., Any]
    value_deserializer: str | Callable[..., Any]

    @classmethod
    def of(cls, given: Mapping[str, object]) -> ConsumerSettings:
        """Reads the settings; raises InvalidSetting if they contradict each other."""
        settings = cls(**read_settings(given, CONSUMER_SETTINGS))
        if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
            raise InvalidSetting("heartbeat.interval.ms", "it must be less than session.timeout.ms")
        return settings

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.retry_backoff_ms / 1000, max(self.retry_backoff_ms, self.retry_backoff_max_ms) / 1000)
