"""Options of a query, checked as a whole: unknown and conflicting ones are refused. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.source.declared import (
    AT_LEAST_ONCE,
    BATCH,
    EXACTLY_ONCE,
    OPTIONS,
    SINK_OPTIONS,
    STREAM,
    Option,
)
from jobs.source.errors import InvalidOption
from jobs.source.positions import EARLIEST, LATEST, AtOffsets, AtTime, Everywhere, Limit, TopicPartition

_DECLARED: Final = {option.name.lower(): option for option in OPTIONS}
_DECLARED_OF_SINK: Final = {option.name.lower(): option for option in SINK_OPTIONS}
_CHOICES: Final = ("subscribe", "subscribePattern", "assign")
_STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_POLL_MS: Final = 120_000
_DELAY_MS: Final = 15 * 60_000
#: Advice for some unsupported options.
_ADVICE: Final = {
    "path": "a server stores the rows, say which by the option server",
    "kafka.auto.offset.reset": "say where to begin with startingOffsets",
    "kafka.enable.auto.commit": "a query commits nothing: its checkpoint says how far it is",
    "kafka.key.deserializer": "keys are bytes: decode them with functions of Spark",
    "kafka.value.deserializer": "values are bytes: decode them with functions of Spark",
}

Chosen = tuple[str, ...] | re.Pattern[str] | frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read. `chosen`: topics, a pattern of them, or partitions."""

    path: str | None
    server: str | None
    chosen: Chosen
    start: Limit
    end: Limit
    late_start: str
    fail_on_data_loss: bool
    include_headers: bool
    min_tasks: int | None
    most_of_a_task: int | None
    most_of_a_batch: int | None
    least_of_a_batch: int | None
    longest_delay_ms: int
    group: str | None
    patience_ms: int

    @property
    def place(self) -> str:
        """Location of the topics, for messages."""
        return " and ".join(where for where in (self.path, self.server) if where)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write. Without a `topic` each row names its own. `once`: each batch is stored exactly once.

    A batch of a stream has Spark's number, and without a `sink` the stream's own name. A given `transaction` was begun
    by the caller.
    """

    server: str
    topic: str | None
    patience_ms: int
    once: bool = False
    sink: str | None = None
    version: int | None = None
    transaction: str | None = None


def parse_write_options(given: Mapping[str, str], query: str) -> WriteOptions:
    values = _values(given, _DECLARED_OF_SINK)
    server = _server(values)
    if server is None:
        raise InvalidOption("server", "say which server stores the rows, by its URL")
    sink, version = values.get("txnAppId"), values.get("txnVersion")
    once, patience_ms = _is_once(values, query), values.get("kafkaConsumer.pollTimeoutMs", _POLL_MS)
    return WriteOptions(server, values.get("topic"), patience_ms, once, sink, version, values.get("transaction"))


def _is_once(values: Mapping[str, Any], query: str) -> bool:
    wanted = values.get("deliveryGuarantee")
    named = [name for name in ("txnAppId", "txnVersion") if name in values]
    if "transaction" in values:
        _check_given(values, query, named)
        return True
    if query == STREAM and "txnVersion" in named:
        raise InvalidOption("txnVersion", "a stream's batches have numbers of their own: leave it out")
    if query == BATCH and len(named) == 1:
        raise InvalidOption(named[0], "a batch is stored once by both: txnAppId and txnVersion")
    if wanted == AT_LEAST_ONCE and named:
        raise InvalidOption("deliveryGuarantee", f"{named[0]} is for what is stored once, and it says {AT_LEAST_ONCE}")
    if wanted == EXACTLY_ONCE and query == BATCH and not named:
        raise InvalidOption("deliveryGuarantee", "say which batch it is, by txnAppId and txnVersion")
    return bool(named) or (query == STREAM and wanted != AT_LEAST_ONCE)


def _check_given(values: Mapping[str, Any], query: str, named: Sequence[str]) -> None:
    if query == STREAM:
        raise InvalidOption("transaction", "a stream's batches have transactions of their own: leave it out")
    if named:
        raise InvalidOption(named[0], "it names a transaction of its own, and the option transaction another one")
    if values.get("deliveryGuarantee") == AT_LEAST_ONCE:
        raise InvalidOption("deliveryGuarantee", f"a transaction is stored once, and it says {AT_LEAST_ONCE}")


def wants_headers(given: Mapping[str, str]) -> bool:
    """Return whether there is a column of headers; called before it is known if the query is a batch or a stream."""
    return bool(_parse(given).get("includeHeaders", False))


def parse_options(given: Mapping[str, str], query: str) -> ReadOptions:
    """Parse the options of a BATCH or a STREAM query. Names are case-insensitive, as in Spark."""
    values = _parse(given)
    for name in values:
        taken_by = _DECLARED[name.lower()].query
        if taken_by == BATCH and query == STREAM:
            raise InvalidOption(name, "a stream has no end: it is for batch queries")
    start = _limit(values, _STARTS, Everywhere(EARLIEST if query == BATCH else LATEST))
    end = _limit(values, _ENDS, Everywhere(LATEST))
    if query == BATCH:
        _check_batch(start, end)
    least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise InvalidOption("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger={most}")
    return ReadOptions(
        path=values.get("path"),
        server=_server(values),
        chosen=_choice(values),
        start=start,
        end=end,
        late_start=values.get("startingOffsetsByTimestampStrategy", "error"),
        fail_on_data_loss=values.get("failOnDataLoss", True),
        include_headers=values.get("includeHeaders", False),
        min_tasks=values.get("minPartitions"),
        most_of_a_task=values.get("maxRecordsPerPartition"),
        most_of_a_batch=most,
        least_of_a_batch=least,
        longest_delay_ms=values.get("maxTriggerDelay", _DELAY_MS),
        group=_group(values),
        patience_ms=values.get("kafkaConsumer.pollTimeoutMs", _POLL_MS),
    )


def notes_on(given: Mapping[str, str], query: str) -> list[str]:
    """Messages for options that have no effect: none is ignored silently."""
    notes: list[str] = []
    for name in given:
        option = _DECLARED[name.lower()]
        if option.idle:
            notes.append(f"option {option.name}: {option.doc[0].lower()}{option.doc[1:]}")
        elif option.query == STREAM and query == BATCH:
            notes.append(f"option {option.name}: does nothing in a batch query, it is for streams")
    return notes


def _parse(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the options, by their declared names."""
    values = _values(given, _DECLARED)
    if "path" not in values:
        _server(values, needed=True)
    _choice(values)
    return values


def _values(given: Mapping[str, str], declared: Mapping[str, Option]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in given.items():
        option = declared.get(name.lower())
        if option is None:
            raise InvalidOption(name, _unknown(name.lower(), declared))
        values[option.name] = option.parse(option.name, text)
    return values


def _unknown(name: str, declared: Mapping[str, Option]) -> str:
    if name in _ADVICE:
        return f"it is not taken: {_ADVICE[name]}"
    near = difflib.get_close_matches(name, declared, 1)
    if near and (not name.startswith("kafka.") or near[0].startswith("kafka.")):
        return f"there is no such option: did you mean {declared[near[0]].name}?"
    if name.startswith("kafka."):
        return "it is one of Kafka's clients, and there is none here: leave it out"
    return "there is no such option"


def _server(values: Mapping[str, Any], *, needed: bool = False) -> str | None:
    named = {values[name] for name in ("server", "kafka.bootstrap.servers") if name in values}
    if len(named) > 1:
        raise InvalidOption("server", "it and kafka.bootstrap.servers name two servers: give one of them")
    if needed and not named:
        raise InvalidOption("path", "say where the topics are: a root as path, a URL as server, or both")
    return next(iter(named), None)


def _group(values: Mapping[str, Any]) -> str | None:
    named = {values[name] for name in ("group.id", "kafka.group.id") if name in values}
    if len(named) > 1:
        raise InvalidOption("group.id", "it and kafka.group.id name two groups: give one of them")
    return next(iter(named), None)


def _choice(values: Mapping[str, Any]) -> Chosen:
    named = [name for name in _CHOICES if name in values]
    if len(named) != 1:
        why = "say what to read with one of" if not named else "only one can be given of"
        raise InvalidOption(named[1] if named else "subscribe", f"{why} {', '.join(_CHOICES)}")
    return values[named[0]]


def _limit(values: Mapping[str, Any], names: tuple[str, ...], otherwise: Limit) -> Limit:
    """Choose the first limit given: times take precedence over offsets."""
    return next((values[name] for name in names if name in values), otherwise)


def _check_batch(start: Limit, end: Limit) -> None:
    if start == Everywhere(LATEST):
        raise InvalidOption("startingOffsets", "a batch cannot begin at latest: nothing would be in it")
    if isinstance(start, AtOffsets):
        for partition, offset in start.offsets.items():
            if offset == LATEST:
                raise InvalidOption("startingOffsets", f"a batch cannot begin at latest (-1), as for {partition}")
    if isinstance(end, AtOffsets):
        for partition, offset in end.offsets.items():
            if offset == EARLIEST:
                raise InvalidOption("endingOffsets", f"a batch cannot end at earliest (-2), as for {partition}")
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        _check_order("endingOffsets", start.offsets, end.offsets)
    if isinstance(start, AtTime) and isinstance(end, AtTime):
        _check_times(start, end)


def _check_times(start: AtTime, end: AtTime) -> None:
    if isinstance(start.time_ms, dict) and isinstance(end.time_ms, dict):
        _check_order("endingOffsetsByTimestamp", start.time_ms, end.time_ms)
    elif isinstance(start.time_ms, int) and isinstance(end.time_ms, int) and start.time_ms > end.time_ms:
        raise InvalidOption("endingTimestamp", f"{end.time_ms} is before startingTimestamp={start.time_ms}")


def _check_order(option: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    if starts.keys() != ends.keys():
        odd = ", ".join(str(each) for each in sorted(starts.keys() ^ ends.keys()))
        raise InvalidOption(option, f"it and the start must name the same partitions, and {odd} is in one of them only")
    for partition, start in starts.items():
        if 0 <= ends[partition] < start:
            raise InvalidOption(option, f"{partition} would end at {ends[partition]}, before its start {start}")
