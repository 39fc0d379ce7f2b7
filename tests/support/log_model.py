"""What a log must be, said in plain lists."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import strategies as st

from delta_log import Appended, LogReader, Record
from delta_log.fetch.fetch_result import ConsumedRecord
from delta_log.model.schema import HEADERS
from tests.support.logs import everything

#: What a record is made of: key, partition, how far from now, headers, and whether its value is null.
KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"c"])
HEADER_LISTS = st.none() | st.lists(st.tuples(st.sampled_from("hi"), st.none() | st.just(b"x")), max_size=2).map(tuple)
SHAPES = st.lists(
    st.tuples(KEYS, st.none() | st.integers(0, 9), st.none() | st.integers(-50, 50), HEADER_LISTS, st.booleans()),
    min_size=1,
    max_size=6,
)


@dataclass
class Sent:
    """A request of an idempotent producer, and its answer."""

    sequence: int
    records: list[Record]
    answer: Appended
    arrow: bool


@dataclass
class PartitionModel:
    """Every record that there ever was; those below `start` are gone."""

    records: list[ConsumedRecord] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def visible(self) -> list[ConsumedRecord]:
        return self.records[self.start :]

    def first_at(self, timestamp_ms: int) -> int | None:
        return next((record.offset for record in self.visible() if record.timestamp >= timestamp_ms), None)


@dataclass
class TopicModel:
    id: str
    partitions: list[PartitionModel]
    sent: dict[str, list[Sent]] = field(default_factory=dict)

    def appended(self, records: list[Record], answer: Appended, now_ms: int) -> None:
        """Check an answer against what was there, and take the records over."""
        assert len(answer.partitions) == len(records)
        assert not answer.duplicate
        assert answer.timestamp == now_ms
        assert [r.partition for r in answer.ranges] == sorted(set(answer.partitions))
        for record, partition, offset in zip(records, answer.partitions, answer.offsets(), strict=True):
            assert record.partition in (None, partition)
            model = self.partitions[partition]
            assert offset == model.end, "offsets are dense"
            time_ms = now_ms if record.timestamp is None else record.timestamp
            headers = record.headers or ()
            model.records.append(ConsumedRecord(partition, offset, time_ms, record.key, record.value, headers))

    def next_sequence(self, producer: str) -> int:
        sent = self.sent.get(producer)
        return sent[-1].sequence + len(sent[-1].records) if sent else 0

    def is_remembered(self, producer: str, back: int) -> bool:
        return back < 5


def as_arrow(records: list[Record]) -> pa.Table:
    headers = [None if r.headers is None else [{"key": k, "value": v} for k, v in r.headers] for r in records]
    return pa.table(
        {
            "key": pa.array([r.key for r in records], pa.binary()),
            "value": pa.array([r.value for r in records], pa.binary()),
            "partition": pa.array([r.partition for r in records], pa.int32()),
            "timestamp": pa.array([r.timestamp for r in records], pa.int64()),
            "headers": pa.array(headers, HEADERS),
        }
    )


def read_with_delta_rs(location: str, model: TopicModel) -> list[ConsumedRecord]:
    order = [("partition", "ascending"), ("offset", "ascending")]
    rows = DeltaTable(location).to_pyarrow_table().sort_by(order)
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        ConsumedRecord(
            row["partition"],
            row["offset"],
            time // 1000,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row, time in zip(rows.to_pylist(), times, strict=True)
        if row["offset"] >= model.partitions[row["partition"]].start
    ]


def check_at_rest(reader: LogReader, topics: dict[str, TopicModel], *, with_delta_rs: bool) -> None:
    """Closed, the tables alone say all there is to say, to us and to other readers of Delta tables."""
    for topic, model in topics.items():
        for index, partition in enumerate(model.partitions):
            assert everything(reader, topic, index) == partition.visible()
        if with_delta_rs:
            expected = [record for partition in model.partitions for record in partition.visible()]
            assert read_with_delta_rs(reader.table_location(topic), model) == expected
