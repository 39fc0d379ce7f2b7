"""Requests to an instance of a group, and its answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from lakelog.consume.consumer_state import Beat
from lakelog.consume.record_run import RecordRun, Rows, find_runs
from lakelog.consume.settings import MOST_WAIT_MS, ConsumerSettings
from lakelog.consume.shapes import ConsumerRecord
from lakelog.consume.subscription import Pattern, Spot, Topics
from lakelog.foundation.errors import OutcomeUnknown
from lakelog.foundation.settings import INT32_MAX
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition
from lakelog.transport.exchange import Answer, Request

JSON: Final = "application/vnd.kafka.v2+json"
BINARY: Final = "application/vnd.kafka.binary.v2+json"
ARROW: Final = "application/vnd.apache.arrow.stream"
#: The most bytes for paused partitions, of the 32 KiB that a request's head may have.
_MOST_PAUSED: Final = 16_000


class _Place(msgspec.Struct):
    topic: str
    partition: int


class _Beat(msgspec.Struct):
    generation: int
    assigned: list[_Place]
    revoking: list[_Place]
    since: dict[str, dict[int, int]]


_encode: Final = msgspec.json.Encoder().encode
_read_records: Final = msgspec.json.Decoder(list[ConsumerRecord]).decode
_read_beat: Final = msgspec.json.Decoder(_Beat).decode


class Asked(NamedTuple):
    """Arguments of a request for records; `received` and `done` are numbers of answers."""

    paused: Iterable[TopicPartition]
    received: int
    done: int
    generation: int | None


class Wire:
    """Builds requests to the instances of one group."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._group = f"/consumers/{quote(settings.group_id, safe='')}"
        self._patience_s = settings.request_timeout_ms / 1000

    def join(self, name: str) -> Request:
        """Create an instance without auto-commit on the server; this side enforces max.poll.interval.ms."""
        of = self._settings
        options: dict[str, Any] = {
            "name": name,
            "format": "binary",
            "auto.offset.reset": of.auto_offset_reset,
            "auto.commit.enable": False,
            "fetch.min.bytes": of.fetch_min_bytes,
            "fetch.max.wait.ms": self.wait_ms,
            "session.timeout.ms": of.session_timeout_ms,
            "max.poll.interval.ms": INT32_MAX,
            "rebalance.timeout.ms": of.rebalance_timeout_ms,
            "partition.assignment.strategy": of.partition_assignment_strategy,
            "max.delivery.attempts": of.max_delivery_attempts,
        }
        more = {
            "group.instance.id": of.group_instance_id,
            "dead.letter.topic": of.dead_letter_topic,
        }
        options |= {name: value for name, value in more.items() if value is not None}
        return self._post(self._group, options)

    def leave(self, name: str, received: int, done: int, *, failed: bool) -> Request:
        path = self._instance(name) + ("?failed=true" if failed else "")
        return Request("DELETE", path, _numbers(received, done), timeout_s=self._patience_s)

    def subscribe(self, name: str, wanted: Topics | Pattern) -> Request:
        body = {"topics": wanted.names} if isinstance(wanted, Topics) else {"topic_pattern": wanted.text}
        return self._post(f"{self._instance(name)}/subscription", body)

    def unsubscribe(self, name: str) -> Request:
        return Request("DELETE", f"{self._instance(name)}/subscription", timeout_s=self._patience_s)

    def assign(self, name: str, partitions: Iterable[TopicPartition]) -> Request:
        return self._post(f"{self._instance(name)}/assignments", {"partitions": _named(partitions)})

    def beat(self, name: str, owned: Iterable[TopicPartition] | None) -> Request:
        body = {} if owned is None else {"owned": _named(owned)}
        return self._post(f"{self._instance(name)}/heartbeat", body)

    def commit(self, name: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], since: int | None) -> Request:
        entries = [
            {"topic": topic, "partition": partition, "next_offset": offset, "metadata": metadata}
            for (topic, partition), (offset, metadata) in offsets.items()
        ]
        more = {} if since is None else {"Lakelog-Generation": str(since)}
        return self._post(f"{self._instance(name)}/offsets?keep=true", {"offsets": entries}, more)

    def give_up(self, name: str, record: Spot, reason: str, since: int | None) -> Request:
        (topic, partition), offset = record
        entry = {"topic": topic, "partition": partition, "offset": offset, "reason": reason}
        more = {} if since is None else {"Lakelog-Generation": str(since)}
        return self._post(f"{self._instance(name)}/dead-letters", {"records": [entry]}, more)

    def seek(self, name: str, positions: Mapping[TopicPartition, int], received: int, since: int | None) -> Request:
        entries = [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in positions.items()
        ]
        more = {"Lakelog-Received": str(received)} | ({} if since is None else {"Lakelog-Generation": str(since)})
        return self._post(f"{self._instance(name)}/positions", {"offsets": entries}, more)

    @property
    def wait_ms(self) -> int:
        return min(max(self._settings.fetch_max_wait_ms, 1), MOST_WAIT_MS)

    def records(self, name: str, of: Asked, *, arrow: bool) -> Request:
        query = f"timeout={self.wait_ms}&max_bytes={self._settings.fetch_max_bytes}&keep=true"
        listed = ",".join(f"{topic}:{partition}" for topic, partition in of.paused)
        if len(listed) > _MOST_PAUSED:
            listed = listed[: listed.rindex(",", 0, _MOST_PAUSED)]
        headers = {"Accept": ARROW if arrow else BINARY, **_numbers(of.received, of.done)}
        if of.generation is not None:
            headers["Lakelog-Generation"] = str(of.generation)
        path = f"{self._instance(name)}/records?{query}" + (f"&paused={listed}" if listed else "")
        return Request("GET", path, headers, timeout_s=self.wait_ms / 1000 + self._patience_s)

    def _instance(self, name: str) -> str:
        return f"{self._group}/instances/{name}"

    def _post(self, path: str, body: object, more: Mapping[str, str] | None = None) -> Request:
        return Request("POST", path, {"Content-Type": JSON, **(more or {})}, _encode(body), self._patience_s)


def read_beat(answer: Answer) -> Beat:
    try:
        beat = _read_beat(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OutcomeUnknown("a heartbeat", f"the answer cannot be read: {error}") from None
    since = {TopicPartition(topic, each): its[each] for topic, its in beat.since.items() for each in its}
    revoking = frozenset(TopicPartition(each.topic, each.partition) for each in beat.revoking)
    return Beat(beat.generation, since, revoking)


def read_records(answer: Answer) -> list[tuple[TopicPartition, RecordRun]]:
    """Runs of records by partition, in the order of the answer."""
    if answer.headers.get("content-type", "").startswith(ARROW):
        from lakelog.consume.arrow import read_batches  # noqa: PLC0415 - only batches need Arrow

        return read_batches(answer.body)
    try:
        records = _read_records(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OutcomeUnknown("reading records", f"the answer cannot be read: {error}") from None
    runs = find_runs(len(records), lambda place: (records[place].topic, records[place].partition))
    if len(records) == 0:
        return []
    return [(TopicPartition(*key), Rows(records[begin:end])) for key, begin, end in runs]


def is_last_try(answer: Answer) -> bool:
    """True if the answer has a record at its last attempt, or such a record comes next."""
    return answer.headers.get("lakelog-last-try") == "true"


def number_in(answer: Answer, header: str) -> int | None:
    given = answer.headers.get(header, "")
    return int(given) if given.isascii() and given.isdigit() else None


def _numbers(received: int, done: int) -> dict[str, str]:
    return {"Lakelog-Received": str(received), "Lakelog-Done": str(done)}


def _named(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
