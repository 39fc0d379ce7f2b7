"""Offsets of an instance: commit, read the committed ones, and seek.

v2 commits the last processed record, so the stored offset is one more; `next_offset` is stored as given.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from consumer_groups.decisions.commits import Commit, Commitment, Seek, Where
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.records import OffsetRecord
from consumer_groups.model.reset_policy import At
from delta_log.model.errors import UnknownPartition, UnknownTopic
from delta_log.model.quoting import quoted
from ingest_api.routes.groups.instance import KEEP, InTime, of_instance, who_asks
from ingest_api.routes.groups.instance_shapes import (
    BODY_TYPES,
    MOST_NAMED,
    CommitEntry,
    CommitRequest,
    CommittedOffsetsView,
    CommittedView,
    PartitionRefs,
    PositionEntry,
    PositionsRequest,
    each_once,
    takes,
)
from ingest_api.routes.groups.instances import done, told
from ingest_api.routes.topics.shapes import answers
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.json_bodies import read_json, read_json_or
from ingest_api.web.negotiation import plain_media_type
from ingest_api.web.parameters import Kind, Parameter, Text, decode_percent, parse_value
from ingest_api.web.request import Call, Reply
from ingest_api.web.route_spec import PATH_KINDS, Operation, ResponseSpec

ILLEGAL_STATE: Final = 40903
NOTHING_COMMITTED: Final = -1
_NO_BODY: Final = PartitionRefs([])


@dataclass(frozen=True, slots=True)
class Repeated:
    """A parameter that may be repeated; `parse` is for each value."""

    kind: Kind

    def parse(self, text: str) -> Any:
        return self.kind.parse(text)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.kind.schema()}

    def __str__(self) -> str:
        return f"{self.kind}, as often as is needed"


OF_TOPIC: Final = Parameter("topic", Repeated(Text(249)), "The topic of a partition that is asked for.")
OF_PARTITION: Final = Parameter(
    "partition", Repeated(PATH_KINDS["partition"][0]), "Its number: the first belongs to the first topic, and so on."
)


class InstanceOffsets:
    """Every method is one route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._in_time = InTime(tier)

    async def commit(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        keeps = call.query((KEEP,))["keep"]
        given = (await read_json_or(call, CommitRequest, CommitRequest(), types=BODY_TYPES)).offsets
        offsets = None
        if isinstance(given, list):
            offsets = {partition: _commitment(each) for partition, each in each_once(given).items()}
        command = Commit(who.member_id, offsets, *who[2:], keeps)
        return done(await self._in_time(self._tier.groups.commit(who.group, command)))

    async def committed(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        media = plain_media_type(call.list_header(b"accept"))
        wanted = await _read_wanted(call)
        await self._in_time(self._tier.groups.check(who.group, who.member_id, who.generation))
        answer = await self._in_time(self._tier.groups.committed(who.group, wanted))
        return told(CommittedOffsetsView(_show(wanted, answer.reply)), answer.generation, media)

    async def seek(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        call.query(())
        given = each_once((await read_json(call, PositionsRequest, types=BODY_TYPES)).offsets)
        asked = {partition: _position(each) for partition, each in given.items()}
        positions = {partition: where for partition, where in asked.items() if isinstance(where, int)}
        times = {partition: where.timestamp_ms for partition, where in asked.items() if isinstance(where, At)}
        with _not_assigned():
            if times:
                await self._in_time(self._tier.groups.check(who.group, who.member_id, who.generation))
                positions |= await self._tier.in_thread(self._find, times)
            command = Seek(who.member_id, positions, *who[2:])
            return done(await self._in_time(self._tier.groups.seek(who.group, command)))

    async def seek_to_beginning(self, call: Call) -> Reply:
        return await self._seek_to(call, "beginning")

    async def seek_to_end(self, call: Call) -> Reply:
        return await self._seek_to(call, "end")

    async def _seek_to(self, call: Call, where: Where) -> Reply:
        who = who_asks(self._tier, call)
        call.query(())
        given = await read_json(call, PartitionRefs, types=BODY_TYPES)
        command = Seek(who.member_id, dict.fromkeys((each.named for each in given.partitions), where), *who[2:])
        with _not_assigned():
            return done(await self._in_time(self._tier.groups.seek(who.group, command)))

    def _find(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Where]:
        """Find the first offset at or after each time; the end if there is none."""
        found: dict[TopicPartition, Where] = {}
        for partition, time in times.items():
            offset = self._tier.log.offset_at(*partition, time)
            found[partition] = "end" if offset is None else offset
        return found

    def operations(self) -> list[Operation]:
        return list(map(of_instance, (*self._commits(), *self._positions())))

    def _commits(self) -> tuple[Operation, ...]:
        offsets = "/offsets"
        return (
            Operation(
                "POST", offsets, "commit_offsets", "Commit offsets", self.commit, "consumers",
                (ResponseSpec(204, "They are stored."),), (KEEP,), body=takes(CommitRequest, required=False),
                doc="Without a body, or with `{}`, exactly what was delivered is committed, and nothing is lowered. An"
                " `offset` is that of the last record that was processed, so one more is stored; a `next_offset` is"
                " stored as it is. All or none.",
            ),
            Operation(
                "GET", offsets, "get_committed_offsets", "What the group has committed", self.committed, "consumers",
                (answers(CommittedOffsetsView, "Of each partition that was asked for the next offset to read."),),
                (OF_TOPIC, OF_PARTITION), body=takes(PartitionRefs, required=False),
                doc="The partitions are named in the body, or as pairs of `topic` and `partition` in the query.",
            ),
        )  # fmt: skip

    def _positions(self) -> tuple[Operation, ...]:
        positions, moved = "/positions", (ResponseSpec(204, "The next records that it is given are those."),)
        return (
            Operation(
                "POST", positions, "seek", "Read on elsewhere", self.seek, "consumers", moved,
                body=takes(PositionsRequest),
                doc="At an `offset`, or at the first record at or after a `timestamp`; behind the last one at the end.",
            ),
            Operation(
                "POST", f"{positions}/beginning", "seek_to_beginning", "Read on at the first record",
                self.seek_to_beginning, "consumers", moved, body=takes(PartitionRefs),
            ),
            Operation(
                "POST", f"{positions}/end", "seek_to_end", "Read on behind the last record", self.seek_to_end,
                "consumers", moved, body=takes(PartitionRefs),
            ),
        )  # fmt: skip


def _commitment(entry: CommitEntry) -> Commitment:
    where = f"{entry.topic}-{entry.partition}"
    if isinstance(entry.next_offset, int):
        if isinstance(entry.offset, int):
            raise Refusal(422, f"{where} has both an offset and a next_offset: give one of them")
        return Commitment(entry.next_offset, entry.metadata or "")
    if not isinstance(entry.offset, int):
        raise Refusal(422, f"{where} needs an offset, or a next_offset")
    return Commitment(entry.offset + 1, entry.metadata or "")


def _position(entry: PositionEntry) -> int | At:
    offset, time = entry.offset, entry.timestamp
    if isinstance(offset, int) and not isinstance(time, int):
        return offset
    if isinstance(time, int) and not isinstance(offset, int):
        return At(time)
    raise Refusal(422, f"{entry.topic}-{entry.partition} needs either an offset or a timestamp")


def _show(wanted: Sequence[TopicPartition], committed: Mapping[TopicPartition, OffsetRecord]) -> list[CommittedView]:
    """Show committed offsets in the order of the request."""
    views: list[CommittedView] = []
    for partition in wanted:
        record = committed.get(partition)
        known = (NOTHING_COMMITTED, "") if record is None else (record.next_offset, record.metadata)
        views.append(CommittedView(*partition, *known))
    return views


async def _read_wanted(call: Call) -> tuple[TopicPartition, ...]:
    named = _parse_pairs(call.scope["query_string"])
    given = await read_json_or(call, PartitionRefs, _NO_BODY, types=BODY_TYPES)
    if (given is _NO_BODY) == (not named):
        raise Refusal(422, "name the partitions either in the body or in the query: topic=…&partition=…")
    return named or tuple(each.named for each in given.partitions)


def _parse_pairs(query: bytes) -> tuple[TopicPartition, ...]:
    """Parse the topics and partitions of a query, in their order."""
    found: dict[str, list[Any]] = {OF_TOPIC.name: [], OF_PARTITION.name: []}
    declared = {each.name: each for each in (OF_TOPIC, OF_PARTITION)}
    for piece in filter(None, query.split(b"&")):
        raw_name, _, raw_text = piece.partition(b"=")
        name, text = decode_percent(raw_name, plus=True), decode_percent(raw_text, plus=True)
        if name not in declared:
            raise Refusal(422, f"there is no query parameter {quoted(name)}: this route knows topic, partition")
        found[name].append(parse_value(declared[name], text))
    topics, partitions = found[OF_TOPIC.name], found[OF_PARTITION.name]
    if len(topics) != len(partitions) or len(topics) > MOST_NAMED:
        raise Refusal(422, "each topic goes with a partition: topic=…&partition=…, as often as is needed")
    return tuple(map(TopicPartition, topics, partitions))


@contextmanager
def _not_assigned() -> Generator[None]:
    """Refuse to seek in an unknown partition as in one that is not assigned, as Karapace does."""
    try:
        yield
    except (UnknownTopic, UnknownPartition) as error:
        raise Refusal(409, f"{error}, so it is not assigned", code=ILLEGAL_STATE, outcome="not_attempted") from None
