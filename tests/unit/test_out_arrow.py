"""The Arrow stream, read by pyarrow."""

import pyarrow as pa

from delta_log.schema import HEADERS, TIMESTAMP
from ingest_api.formats_out.arrow import ArrowWriter
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
    records = numbered([Stored(bytes([at]) * 100_000) for at in range(50)])
    pieces = list(ArrowWriter().rows(0, [batch_of(records)]))
    assert len(pieces) == 5
    assert max(map(len, pieces)) < 1_100_000
    assert read([(0, [batch_of(records)])])["value"].to_pylist() == [record.value for record in records]
