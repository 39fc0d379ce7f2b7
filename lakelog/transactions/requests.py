"""Requests of a transaction to the server. Pure: generators, driven by threads or by tasks.

Every request may be retried: a repeated begin fences the transaction of a begin whose answer was lost, records have
numbers, and a repeated commit gets the first answer. Only the outcome of a commit can stay unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from lakelog.consume.shapes import GroupOffsets
from lakelog.foundation.errors import (
    CommitFailed,
    Fenced,
    LakelogError,
    NotAvailable,
    OutcomeUnknown,
    TransactionError,
    UnknownTopic,
    UnknownTransaction,
)
from lakelog.produce.batch import Payload, Place, Stamp
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.verdict import find_bad
from lakelog.produce.wire import Wire
from lakelog.transport.json_requests import JsonQuestions, read_answer
from lakelog.transport.retry import Asking, Patience, Question, Rejected, ask

_NO_MEMBER: Final = 40403
_MOST_ABORT_S: Final = 5.0


class Begun(msgspec.Struct):
    id: str
    producer_id: str
    epoch: int


class Range(msgspec.Struct):
    partition: int
    base_offset: int
    count: int


class Stored(msgspec.Struct):
    topic: str
    ranges: list[Range]


class _Ended(msgspec.Struct):
    requests: list[Stored] | None = None


class _Taken(msgspec.Struct):
    offsets: list[Place]
    duplicate: bool = False


class Unfit(Exception):
    """Refusal of a request with records; `bad`: the errors of the bad records by their index."""

    def __init__(self, error: LakelogError, bad: dict[int, LakelogError]) -> None:
        super().__init__(str(error))
        self.error, self.bad = error, bad


class Request(NamedTuple):
    """Records for one topic, with their sequence number."""

    topic: str
    payload: Payload
    stamp: Stamp


class TransactionQuestions:
    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._wire = Wire(settings.acks, settings.compression_type)
        request_s = settings.request_timeout_ms / 1000
        patience = Patience(
            settings.bootstrap_servers, settings.max_block_ms / 1000, request_s, settings.retries, settings.backoff
        )
        self._json = JsonQuestions(patience)
        self._sending = patience._replace(total_s=settings.delivery_timeout_ms / 1000)
        most_s = min(request_s, _MOST_ABORT_S)
        self._once = JsonQuestions(patience._replace(total_s=most_s, request_s=most_s, retries=0))

    def begin(self) -> Asking[Begun]:
        what, timeout_ms = "beginning a transaction", self._settings.transaction_timeout_ms
        body: dict[str, Any] = {"transactional_id": self._settings.transactional_id}
        body |= {} if timeout_ms is None else {"timeout_ms": timeout_ms}
        try:
            return read_answer(what, (yield from self._json.ask(what, "POST", "/transactions", body)), Begun)
        except OutcomeUnknown as unknown:
            error = NotAvailable(f"no transaction was begun: {unknown}", said=unknown.said)
        raise error  # a transaction whose id never arrived is as good as none

    def put(self, transaction: str, request: Request) -> Asking[list[int] | None]:
        """Send records; returns their partitions, or None if unknown. Raises `Unfit` if they are refused."""
        topic, payload, stamp = request
        wired = self._wire.request_of(topic, payload, stamp, 0.0, {"Transaction-Id": transaction})
        what = f"keeping {len(payload.rows)} records for {topic}"
        try:
            heeded = yield from ask(Question(what, wired), self._sending)
        except Rejected as declined:
            refused = Unfit(declined.fault.error, find_bad(declined.fault, topic, payload.rows))
        else:
            return _read_partitions(heeded.answer.body)
        raise refused

    def move_offsets(self, transaction: str, moved: GroupOffsets) -> Asking[None]:
        entries = [
            {"topic": topic, "partition": partition, "next_offset": offset, "metadata": metadata}
            for (topic, partition), (offset, metadata) in moved.offsets.items()
        ]
        body: dict[str, Any] = {"group": moved.group_id, "offsets": entries}
        if moved.member_id is not None:
            body["instance"] = moved.member_id
        if moved.generation is not None:
            body["generation"] = moved.generation
        what, path = f"moving offsets of {moved.group_id}", f"/transactions/{transaction}/offsets"
        try:
            yield from self._json.attempt(what, "POST", path, body)
        except Rejected as declined:
            error = _of_group(declined.fault.error)
        except OutcomeUnknown as unknown:
            error = NotAvailable(f"{what}: {unknown.why}", said=unknown.said)  # it counts only with the commit
        else:
            return
        raise error

    def commit(self, transaction: str) -> Asking[list[Stored] | None]:
        """Commit; returns the ranges stored by each request, None if too many to list. OutcomeUnknown if unanswered."""
        what = f"committing transaction {transaction}"
        try:
            heeded = yield from self._json.attempt(what, "POST", f"/transactions/{transaction}/commit")
        except Rejected as declined:
            error = _of_group(declined.fault.error)
            sure = isinstance(error, TransactionError | CommitFailed) and not isinstance(error, UnknownTransaction)
            if declined.doubted and not sure:
                error = OutcomeUnknown(what, error, said=error.said)
        else:
            try:
                return read_answer(what, heeded, _Ended).requests
            except OutcomeUnknown:
                return None  # it is committed all the same
        raise error

    def abort(self, transaction: str) -> Asking[None]:
        """Abort, without retries: records that are never committed are never visible."""
        yield from self._once.ask("aborting a transaction", "POST", f"/transactions/{transaction}/abort")


def place_records(
    partitions: Sequence[Sequence[int] | None], counts: Sequence[int], stored: Sequence[Stored] | None
) -> list[list[Place]]:
    """Places of the records of each request, from the ranges in the commit's answer; None for what is unknown."""
    if stored is None or len(stored) != len(counts):
        return [_unplaced(given, count) for given, count in zip(partitions, counts, strict=True)]
    return [_place(given, count, each.ranges) for given, count, each in zip(partitions, counts, stored, strict=True)]


def _place(partitions: Sequence[int] | None, count: int, ranges: Sequence[Range]) -> list[Place]:
    if len(ranges) == 1 and ranges[0].count == count:
        return [Place(ranges[0].partition, ranges[0].base_offset + index) for index in range(count)]
    follows = {each.partition: each.base_offset for each in ranges}
    counted = {each.partition: each.count for each in ranges}
    if partitions is None or counted != {each: partitions.count(each) for each in set(partitions)}:
        return _unplaced(partitions, count)
    places: list[Place] = []
    for partition in partitions:
        places.append(Place(partition, follows[partition]))
        follows[partition] += 1
    return places


def _unplaced(partitions: Sequence[int] | None, count: int) -> list[Place]:
    return [Place()] * count if partitions is None else [Place(each) for each in partitions]


def _read_partitions(body: bytes) -> list[int] | None:
    """Partitions of the records; None for a repeat, for which the server may have chosen others than at first."""
    try:
        taken = msgspec.json.decode(body, type=_Taken)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    partitions = [each.partition for each in taken.offsets if each.partition is not None]
    return None if taken.duplicate or len(partitions) != len(taken.offsets) else partitions


def _of_group(error: LakelogError) -> LakelogError:
    """Turn an error about the member into CommitFailed: the group continued without it."""
    code = 0 if error.said is None else error.said.error_code
    if isinstance(error, Fenced) or (isinstance(error, UnknownTopic) and code == _NO_MEMBER):
        return CommitFailed(f"the group went on without this consumer: {error}", said=error.said)
    return error
