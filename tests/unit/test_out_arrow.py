"""The Arrow stream, read by pyarrow."""

import pyarrow as pa

from delta_log.model.schema import HEADERS, TIMESTAMP
from ingest_api.formats.encode.arrow import ArrowWriter
from tests.support.fetched_batches import Stored, batch_of, numbered, written


def read(fetches):
    return pa.ipc.open_stream(written(ArrowWriter(), fetches)).read_all()


def test_the_stream_holds_the_records_with_their_partition():
    records = numbered([Stored(b"v", b"k", [("h", b"x"), ("n", None)]), Stored(None, None, None), Stored(b"", b"", [])])
    table = read([(5, [batch_of(records)])])
    assert table.schema.equals(
        pa.schema(
            [
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", TIMESTAMP),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", HEADERS),
            ]
        )
    )
    assert table.column("partition").to_pylist() == [5, 5, 5]
    assert table.drop_columns("partition").to_pylist() == batch_of(records).to_pylist()


def test_fetches_of_several_partitions_make_one_stream():
    fetches = [(0, [batch_of([Stored(b"a")])]), (1, []), (1, [batch_of([Stored(b"b")]), batch_of([Stored(b"c")])])]
    table = read(fetches)
    assert list(zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True)) == [
        (0, b"a"),
        (1, b"b"),
        (1, b"c"),
    ]


def test_a_stream_of_nothing_still_has_its_schema():
    table = read([(0, [])])
    assert table.num_rows == 0
    assert table.schema.names[0] == "partition"


def test_columns_that_are_not_of_a_record_stay_at_home():
    batch = batch_of([Stored(b"v")])
    wider = pa.RecordBatch.from_arrays(
        [*batch.columns, pa.array(["p"])], schema=batch.schema.append(pa.field("producer_id", pa.string()))
    )
    assert read([(0, [wider])]).schema.names == ["partition", "offset", "timestamp", "key", "value", "headers"]


def test_a_large_batch_is_sent_in_several_messages_that_hold_only_their_own_rows():
    records = numbered([Stored(bytes([at]) * 100_000, b"k%d" % at, [("h", b"x")]) for at in range(50)])
    body = written(ArrowWriter(), [(0, [batch_of(records)])])
    messages = list(pa.ipc.open_stream(body))
    assert [message.num_rows for message in messages] == [20, 20, 10]
    assert len(body) < 50 * 100_000 + 10_000
    assert pa.Table.from_batches(messages).drop_columns("partition").to_pylist() == batch_of(records).to_pylist()


def test_what_is_large_is_sent_as_it_lies_in_memory():
    batch = batch_of(numbered([Stored(b"x" * 100_000) for _ in range(10)]))
    values = batch.column("value").buffers()[2]
    assert values is not None
    pieces = list(ArrowWriter().rows(0, [batch]))
    assert any(isinstance(piece.obj, pa.Buffer) and piece.obj.address == values.address for piece in pieces)
    assert sum(map(len, pieces)) < 1_001_500


def test_large_and_small_batches_of_several_partitions_make_one_stream():
    large = batch_of(numbered([Stored(b"%05d" % at + b"x" * 995) for at in range(1000)]))
    small = batch_of([Stored(b"a")])
    sent = [(0, [small, large]), (1, [large, large.slice(500), large.slice(3, 700), small]), (0, [large])]
    table = read(sent)
    numbers = [partition for partition, batches in sent for batch in batches for _ in range(batch.num_rows)]
    assert table.column("partition").to_pylist() == numbers
    wanted = pa.Table.from_batches([batch for _, batches in sent for batch in batches])
    assert table.drop_columns("partition").equals(wanted)
