"""A snapshot ⇄ one parquet blob, as every Delta reader understands it.

Written from what is in memory, so it costs no listing and no reading of the log, and works on every store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from delta_log.actions import (
    Action,
    Add,
    MetaData,
    Protocol,
    Remove,
    Txn,
    add_body,
    file_from_add,
    partition_values,
)
from delta_log.errors import Corruption
from delta_log.snapshot import Snapshot

_STRINGS: Final = pa.map_(pa.string(), pa.string())

_SCHEMA: Final = pa.schema(
    [
        pa.field("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        pa.field(
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", _STRINGS),
                ]
            ),
        ),
        pa.field(
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                ]
            ),
        ),
        pa.field(
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
                    ("configuration", _STRINGS),
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
    return f"_delta_log/{version:020d}.checkpoint.parquet"


def encode_checkpoint(snapshot: Snapshot) -> tuple[pa.Buffer, int]:
    """The blob and the number of actions in it."""
    rows = _rows(snapshot)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in _SCHEMA]
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(columns, schema=_SCHEMA)
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
    return sink.getvalue(), len(rows)


def decode_checkpoint(data: bytes, name: str) -> list[Action]:
    try:
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
        return [action for row in table.to_pylist() for action in _actions(row)]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise Corruption(name, f"not a checkpoint ({error})") from error


def _rows(snapshot: Snapshot) -> Sequence[dict[str, Any]]:
    protocol, metadata = snapshot.protocol, snapshot.metadata
    if protocol is None or metadata is None:
        raise ValueError("a snapshot without protocol or metadata cannot be checkpointed")
    rows: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": protocol.min_reader,
                "minWriterVersion": protocol.min_writer,
                "readerFeatures": None,
                "writerFeatures": list(protocol.writer_features),
            }
        },
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
    rows += [{"txn": {"appId": app, "version": version}} for app, version in snapshot.txns.items()]
    rows += [{"add": add_body(file, data_change=False)} for file in snapshot.all_files()]
    rows += [{"remove": _remove_body(tombstone)} for tombstone, _ in snapshot.removed.values()]
    return rows


def _remove_body(tombstone: Remove) -> dict[str, Any]:
    return {
        "path": tombstone.path,
        "deletionTimestamp": tombstone.deleted_ms,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": partition_values(tombstone.partition),
        "size": tombstone.size,
    }


def _actions(row: Mapping[str, Any]) -> Iterable[Action]:
    if add := row["add"]:
        yield Add(file_from_add({**add, "partitionValues": dict(add["partitionValues"] or ())}), data_change=False)
    elif remove := row["remove"]:
        values: dict[str, str] = dict(remove["partitionValues"] or ())
        partition = int(values.get("partition", -1))
        yield Remove(
            remove["path"],
            partition,
            remove["size"] or 0,
            remove["deletionTimestamp"] or 0,
            data_change=False,
        )
    elif txn := row["txn"]:
        yield Txn(txn["appId"], txn["version"])
    elif meta := row["metaData"]:
        yield MetaData(
            meta["id"],
            meta["schemaString"],
            tuple(meta["partitionColumns"]),
            dict(meta["configuration"]),
            meta["createdTime"] or 0,
        )
    elif protocol := row["protocol"]:
        yield Protocol(
            protocol["minReaderVersion"],
            protocol["minWriterVersion"],
            tuple(protocol["writerFeatures"] or ()),
            tuple(protocol["readerFeatures"]) if protocol.get("readerFeatures") else None,
        )
