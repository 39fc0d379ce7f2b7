"""A poll of an instance over HTTP: records count as delivered once the whole answer was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from consumer_groups.coordinator.poll_waits import Polled
from consumer_groups.coordinator.read_records import Room
from consumer_groups.decisions.polling import Poll
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.options import Options
from delta_log import Fetched, LakelogError
from ingest_api.formats.encode import Decode
from ingest_api.routes.groups.instance import (
    DONE,
    KEEP,
    Asked,
    InTime,
    done_by,
    generation_header,
    of_instance,
    who_asks,
)
from ingest_api.routes.groups.instance_shapes import BinaryRecord, JsonRecord
from ingest_api.routes.groups.poll_formats import PolledWriter, choose_format, open_polled_writer
from ingest_api.routes.records.fetch_plan import DECODE, MIB, MOST_WAIT_MS
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.negotiation import Format
from ingest_api.web.parameters import Clamped, Parameter, Text
from ingest_api.web.read_budget import Loan
from ingest_api.web.request import Call, Piece, Reply
from ingest_api.web.route_spec import Content, Operation, ResponseSpec
from ingest_api.web.wakeups import disconnected

ANSWER: Final = "Lakelog-Answer"
LAST_TRY: Final = "Lakelog-Last-Try"
#: Up to these sizes an answer is one piece, which is sent at once.
_FEW: Final = 500
_FEW_BYTES: Final = 128 * 1024
_PARTITION: Final = "[A-Za-z0-9._-]{1,249}:[0-9]{1,10}"

TIMEOUT: Final = Parameter(
    "timeout",
    Clamped(0, MOST_WAIT_MS),
    "How long to wait for the first record, in milliseconds; where nothing says it the instance's"
    " consumer.request.timeout.ms.",
)
PAUSED: Final = Parameter(
    "paused",
    Text(32 * 1024, f"{_PARTITION}(?:,{_PARTITION})*"),
    "Partitions of which nothing is given now, as `topic:partition[,…]`.",
)
POLL: Final = (
    TIMEOUT,
    Parameter("max_bytes", Clamped(1, 64 * MIB), "About how many bytes at most, but at least one record.", default=MIB),
    Parameter("max_records", Clamped(1, 1_000_000), "How many records at most.", default=1_000_000),
    PAUSED,
    KEEP,
    DECODE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReadBudget:
    """A poll's room for records: its bytes are lent by the budget of all readers."""

    records: int
    loan: Loan

    def take(self) -> Room:
        return Room(self.records, self.loan.take())

    def end(self) -> None:
        self.loan.end()


@dataclass(slots=True, eq=False)
class PendingPollResponse:
    """An answer being sent. If it is not sent whole, its records are taken back and delivered again.

    `leaving` is done once the client has disconnected; `given` is true once nothing can be taken back any more.
    """

    take_back: Callable[[], None]
    loan: Loan
    leaving: asyncio.Future[None]
    given: bool = False

    def settle(self) -> None:
        """End it after it was sent, or failed to be."""
        self.loan.end()
        self.leaving.cancel()
        self.lose()

    def lose(self) -> None:
        """Take its records back, unless they were given."""
        if not self.given:
            self.given = True
            self.take_back()

    async def stream(self, writer: PolledWriter, records: Sequence[Fetched]) -> AsyncGenerator[Piece]:
        head = writer.start()
        if head:
            yield head
        for each in records:
            for piece in writer.rows(each):
                yield piece
                await asyncio.sleep(0)  # yield to other tasks, however fast this reader is
        tail = writer.end()
        if tail:
            yield tail
        if not self.leaving.done():
            self.given = True


class Records:
    """The route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._in_time = InTime(tier)
        self._giving: dict[tuple[str, str], PendingPollResponse] = {}

    async def __call__(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        query = call.query(POLL)
        if call.method == "HEAD":  # HEAD has no body: its records would be lost
            refusal = Refusal(405, "records are polled by GET alone")
            refusal.headers.append((b"allow", b"GET"))
            raise refusal
        options = self._tier.groups.peek(who.group, who.member_id) or Options()
        media = choose_format(call.list_header(b"accept"), options.format)
        loan = self._tier.read_room.lend(query["max_bytes"])
        loan.end()  # there is room now; a waiting poll holds none
        leaving = asyncio.ensure_future(disconnected(call))
        try:
            self._give_up(who)
            wait_ms = self._wait_ms(query["timeout"], options)
            command = self._command(who, query, wait_ms, done_by(call))
            polled = await self._poll(who.group, command, wait_ms, ReadBudget(query["max_records"], loan), leaving)
        except BaseException:
            loan.end()
            leaving.cancel()
            raise
        return self._answer(who, polled, media, query["decode"], loan, leaving)

    def _wait_ms(self, wanted: int | None, options: Options) -> int:
        wait_ms = options.consumer_request_timeout_ms if wanted is None else wanted
        return min(wait_ms, self._tier.settings.max_poll_ms)

    def _command(self, who: Asked, query: Mapping[str, Any], wait_ms: int, done: int | None) -> Poll:
        until_ms, paused = self._tier.groups.now_ms + wait_ms, parse_paused(query["paused"])
        return Poll(who.member_id, until_ms, who.generation, who.received, paused, query["keep"], done)

    async def _poll(
        self, group: str, command: Poll, wait_ms: int, room: ReadBudget, leaving: asyncio.Future[None]
    ) -> Polled:
        tier = self._tier
        with tier.watch.polling:
            polling = tier.groups.poll(group, command, room, (leaving, tier.closing))
            try:
                return await self._in_time.after(wait_ms, polling)
            except LakelogError:  # an answered instance is alive
                tier.groups.heard(group, command.member_id)
                raise

    def _answer(
        self, who: Asked, polled: Polled, media: Format, decode: Decode, loan: Loan, leaving: asyncio.Future[None]
    ) -> Reply:
        """Make the answer; without records if the client has disconnected, which are then taken back."""
        group, member_id = who.group, who.member_id
        giving = PendingPollResponse(
            lambda: self._tier.groups.answer_lost(group, member_id, polled.answer), loan, leaving
        )
        records = () if leaving.done() else polled.records
        try:
            body, content_type = self._show(giving, records, media, decode)
        except BaseException:
            giving.settle()
            raise
        headers = [
            generation_header(polled.generation),
            (ANSWER.lower().encode(), b"%d" % polled.answer),
            (b"cache-control", b"no-store"),
        ]
        if polled.last_try:
            headers.append((LAST_TRY.lower().encode(), b"true"))
        return Reply(200, body, content_type, headers, self._watch_over(who, giving))

    def _show(
        self, giving: PendingPollResponse, records: Sequence[Fetched], media: Format, decode: Decode
    ) -> tuple[bytes | AsyncGenerator[Piece], bytes]:
        writer = open_polled_writer(media, list(dict.fromkeys(each.topic for each in records)), decode)
        sizes = [each.size for each in records]
        giving.loan.keep(sum(sizes))
        for each, size in zip(records, sizes, strict=True):
            self._tier.watch.consumed(each.topic, each.count, size)
        if sum(each.count for each in records) > _FEW or sum(sizes) > _FEW_BYTES:
            return giving.stream(writer, records), writer.content_type
        body = b"".join((writer.start(), *(piece for each in records for piece in writer.rows(each)), writer.end()))
        giving.given = not giving.leaving.done()
        return body, writer.content_type

    def _watch_over(self, who: Asked, giving: PendingPollResponse) -> Callable[[], None]:
        """Register an answer while it is being sent."""
        key = who.group, who.member_id
        if giving.given:
            return giving.settle
        self._giving[key] = giving

        def settle() -> None:
            if self._giving.get(key) is giving:
                del self._giving[key]
            giving.settle()

        return settle

    def _give_up(self, who: Asked) -> None:
        """Treat an unfinished answer as lost: its instance polls again without waiting for it.

        Not if the client sends `Lakelog-Received`, which names the last answer that arrived.
        """
        under_way = self._giving.get((who.group, who.member_id))
        if under_way is not None and who.received is None:
            under_way.lose()

    def operations(self) -> list[Operation]:
        formats: dict[str, Any] = {
            Format.BINARY: list[BinaryRecord],
            Format.JSON: list[JsonRecord],
            Format.NDJSON: {"type": "string"},
            Format.ARROW: {"type": "string", "format": "binary"},
        }
        says = {
            ANSWER: "The number of the last answer that had records; that it arrived is said by `Lakelog-Received`.",
            LAST_TRY: "true where the record is given for the last time, and alone; where there is none, such a record"
            " comes next, as soon as the instance has nothing in hand any more.",
            "Cache-Control": "That it is not kept.",
        }
        declared = Operation(
            "GET", "/records", "poll", "Poll for records", self, "consumers",
            (
                ResponseSpec(
                    200, "Records as soon as there is one, each partition's in order; none when the time is over.",
                    Content(formats), says,
                ),
            ),
            (*POLL, DONE),
            doc="What the last poll gave counts as processed, and with auto.commit.enable it is committed now and then."
            " An answer that was not sent whole is given again.",
        )  # fmt: skip
        return [of_instance(declared)]


def parse_paused(text: str | None) -> frozenset[TopicPartition]:
    pairs = [each.rpartition(":") for each in text.split(",")] if text else []
    return frozenset(TopicPartition(topic, int(number)) for topic, _, number in pairs)
