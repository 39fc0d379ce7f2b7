"""What a transaction asks of the server, and what the answers mean. Pure: generators, driven by threads or by tasks.

All of it may be asked again. A begin whose answer was lost is followed by one that shuts it out; records have numbers;
a commit is answered as the first time. Only of a commit can it stay unknown whether it was done.
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
    """The server refuses a request with records; `bad` says why of those that are to blame, by their places."""

    def __init__(self, error: LakelogError, bad: dict[int, LakelogError]) -> None:
        super().__init__(str(error))
        self.error, self.bad = error, bad


class Request(NamedTuple):
    """Records for one topic, under their number."""

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
        raise error  # one of which nobody knows is as good as none

    def put(self, transaction: str, request: Request) -> Asking[list[int] | None]:
        """The partition of each record, as far as that can be known; raises `Unfit` for what is refused."""
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
        """What is stored of each request; None where there were too many. OutcomeUnknown where nobody answered."""
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
                return None  # committed it is
        raise error

    def abort(self, transaction: str) -> Asking[None]:
        """Once: what nobody commits is never seen."""
        yield from self._once.ask("aborting a transaction", "POST", f"/transactions/{transaction}/abort")


def place_records(
    partitions: Sequence[Sequence[int] | None], counts: Sequence[int], stored: Sequence[Stored] | None
) -> list[list[Place]]:
    """Where the records of each request are, by what the commit says of it; None for what is not known."""
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
    """Of a repeat the server may have chosen others than the first time."""
    try:
        taken = msgspec.json.decode(body, type=_Taken)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    partitions = [each.partition for each in taken.offsets if each.partition is not None]
    return None if taken.duplicate or len(partitions) != len(taken.offsets) else partitions


def _of_group(error: LakelogError) -> LakelogError:
    """Where it speaks of the member, the group went on without it."""
    code = 0 if error.said is None else error.said.error_code
    if isinstance(error, Fenced) or (isinstance(error, UnknownTopic) and code == _NO_MEMBER):
        return CommitFailed(f"the group went on without this consumer: {error}", said=error.said)
    return error
