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
    protocol_body,
)
from delta_log.errors import Corruption
from delta_log.parquet import seal, sealed_footer
from delta_log.snapshot import Snapshot

_DIGITS: Final = 20
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
    return f"_delta_log/{version:0{_DIGITS}d}.checkpoint.parquet"


def log_versions(names: Iterable[str], suffix: str) -> list[int]:
    """The versions of the names in a `_delta_log` that are a version's number and `suffix`."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal()]


def encode_checkpoint(snapshot: Snapshot) -> tuple[pa.Buffer, int]:
    """The blob and the number of actions in it."""
    rows = _rows(snapshot)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in _SCHEMA]
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays(columns, schema=_SCHEMA)
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
    return seal(sink.getvalue()), len(rows)


def decode_checkpoint(data: bytes, name: str) -> list[Action]:
    """The actions of a checkpoint, ours or another writer's; Corruption when it is not a whole one."""
    try:
        sealed_footer(pa.BufferReader(data), needed=False)
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
        actions = [action for row in table.to_pylist() for action in _actions(row)]
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise Corruption(name, f"not a checkpoint ({error})") from error
    if not {Protocol, MetaData} <= set(map(type, actions)):
        raise Corruption(name, "a checkpoint without protocol or metadata")
    return actions


def _rows(snapshot: Snapshot) -> Sequence[dict[str, Any]]:
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
    """At most one: a row has one column that is not null."""
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
