"""Checkpoints: a snapshot ⇄ one parquet blob, readable by every Delta reader.

Written from the state in memory, so it needs no listing and no reading of the log, and works on every store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from delta_log.delta.actions import (
    Action,
    Add,
    MetaData,
    Protocol,
    Remove,
    Txn,
    file_from_add,
    protocol_body,
)
from delta_log.delta.checkpoint_columns import ADD, REMOVE, STRINGS, add_columns, remove_columns
from delta_log.delta.checksums import seal, sealed_footer
from delta_log.delta.snapshot import Snapshot
from delta_log.model.errors import Corruption

_DIGITS: Final = 20

_SCHEMA: Final = pa.schema(
    [
        pa.field("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        pa.field("add", ADD),
        pa.field("remove", REMOVE),
        pa.field(
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", STRINGS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
                    ("configuration", STRINGS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        pa.field(
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.field("element", pa.string()))),
                    ("writerFeatures", pa.list_(pa.field("element", pa.string()))),
                ]
            ),
        ),
    ]
)


def checkpoint_path(version: int) -> str:
    return f"_delta_log/{version:0{_DIGITS}d}.checkpoint.parquet"


def log_versions(names: Iterable[str], suffix: str) -> list[int]:
    """The versions in the names of a `_delta_log` that consist of a version number and `suffix`."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal()]


def encode_checkpoint(snapshot: Snapshot) -> tuple[pa.Buffer, int]:
    """Returns the blob and the number of actions in it."""
    return encode_pieces(list(checkpoint_pieces(snapshot)))


def checkpoint_pieces(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """The actions of a checkpoint, in pieces, so that background work can yield the GIL between them."""
    yield pa.RecordBatch.from_pylist(_single_rows(snapshot), schema=_SCHEMA)
    for adds in add_columns(snapshot.all_files()):
        yield _alone("add", adds)
    for removes in remove_columns(tombstone for tombstone, _ in snapshot.removed.values()):
        yield _alone("remove", removes)


def encode_pieces(pieces: Sequence[pa.RecordBatch]) -> tuple[pa.Buffer, int]:
    """Encode all pieces; returns the blob and the number of actions in it."""
    table = pa.Table.from_batches(pieces, _SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
    return seal(sink.getvalue()), table.num_rows


def decode_checkpoint(data: bytes, name: str) -> list[Action]:
    """Decode the actions of a checkpoint, by any writer; Corruption if it is incomplete or damaged."""
    try:
        sealed_footer(pa.BufferReader(data), whole=True, needed=False)
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
        actions = [action for row in table.to_pylist() for action in _actions(row)]
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise Corruption(name, f"not a checkpoint ({error})") from error
    if not {Protocol, MetaData} <= set(map(type, actions)):
        raise Corruption(name, "a checkpoint without protocol or metadata")
    return actions


def _single_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The rows for protocol, metadata and transactions, of which a table has few."""
    protocol, metadata = snapshot.protocol, snapshot.metadata
    if protocol is None or metadata is None:
        raise ValueError("a snapshot without protocol or metadata cannot be checkpointed")
    rows: list[dict[str, Any]] = [
        {"protocol": protocol_body(protocol)},
        {
            "metaData": {
                "id": metadata.id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": metadata.schema,
                "partitionColumns": list(metadata.partition_columns),
                "configuration": metadata.configuration,
                "createdTime": metadata.created_ms,
            }
        },
    ]
    return rows + [{"txn": {"appId": app, "version": version}} for app, version in snapshot.txns.items()]


def _alone(name: str, column: pa.StructArray) -> pa.RecordBatch:
    """Rows of one kind: a row has one column that is not null."""
    rows = len(column)
    columns = [column if field.name == name else pa.nulls(rows, field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _actions(row: Mapping[str, Any]) -> Iterable[Action]:
    """The action of a row, if known: a row has one column that is not null."""
    if add := row.get("add"):
        yield Add(file_from_add(add), data_change=False)
    elif remove := row.get("remove"):
        values: dict[str, str] = dict(remove["partitionValues"] or ())
        partition = int(values.get("partition", -1))
        size, deleted_ms = remove.get("size") or 0, remove.get("deletionTimestamp") or 0
        yield Remove(remove["path"], partition, size, deleted_ms, data_change=False)
    elif txn := row.get("txn"):
        yield Txn(txn["appId"], txn["version"])
    elif meta := row.get("metaData"):
        columns: tuple[str, ...] = tuple(meta["partitionColumns"] or ())
        properties: dict[str, str] = dict(meta["configuration"] or ())
        yield MetaData(meta["id"], meta["schemaString"], columns, properties, meta.get("createdTime") or 0)
    elif protocol := row.get("protocol"):
        reader, writer = protocol.get("readerFeatures"), protocol.get("writerFeatures")
        yield Protocol(
            protocol["minReaderVersion"],
            protocol["minWriterVersion"],
            tuple(writer or ()),
            None if reader is None else tuple(reader),
        )
