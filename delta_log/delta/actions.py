"""A Delta commit as values, and as the JSON lines that are stored.

Only the parts that lakelog's tables use are modelled; unknown actions and fields of other writers are ignored by
`decode_commit`, never misread.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from delta_log.model.errors import Corruption
from delta_log.model.types import DataFile

EXCLUSIVE_FEATURE: Final = "lakelog.exclusive"
#: End of a line with lakelog's commitInfo.
_INFO_END: Final = b"}}}"
_SEAL: Final = re.compile(rb',"crc":(\d+)\}\}\}$')


@dataclass(frozen=True, slots=True)
class Protocol:
    min_reader: int = 1
    min_writer: int = 7
    writer_features: tuple[str, ...] = ("appendOnly", "invariants", EXCLUSIVE_FEATURE)
    reader_features: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MetaData:
    id: str
    schema: str
    partition_columns: tuple[str, ...]
    configuration: dict[str, str]
    created_ms: int


@dataclass(frozen=True, slots=True)
class Add:
    file: DataFile
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class Remove:
    """A tombstone: the file is no longer part of the table, but readers of older snapshots may still read it."""

    path: str
    partition: int
    size: int
    deleted_ms: int
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class Txn:
    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Author and operation of a commit. By `commit_id` a writer recognises its own commit, even after a restart."""

    commit_id: str
    timestamp_ms: int
    operation: str
    blind_append: bool = False
    read_version: int = -1
    epoch: int = -1
    facts: dict[str, Any] = field(default_factory=dict[str, Any])


Action = Protocol | MetaData | Add | Remove | Txn | CommitInfo


def encode_commit(actions: Iterable[Action]) -> bytes:
    """Encode one JSON object per line; commitInfo first, as Delta requires, with a checksum of all other bytes."""
    ordered = sorted(actions, key=lambda action: not isinstance(action, CommitInfo))
    data = b"\n".join(msgspec.json.encode(_to_json(action)) for action in ordered) + b"\n"
    first, end, rest = data.partition(_INFO_END + b"\n")
    if b"\n" in first or not end:
        return data
    return b'%b,"crc":%d%b%b' % (first, zlib.crc32(data), end, rest)


def is_sealed(data: bytes) -> bool:
    """True if a commit has a checksum, as lakelog's commits do."""
    return _SEAL.search(data.partition(b"\n")[0]) is not None


def without_seal(line: bytes) -> bytes:
    """The first line of a commit without its checksum, which also covers the other lines."""
    return _SEAL.sub(_INFO_END, line)


def _is_intact(data: bytes) -> bool:
    """True if a commit's checksum is correct, or it has none."""
    first = data.partition(b"\n")[0]
    seal = _SEAL.search(first)
    return seal is None or zlib.crc32(first[: seal.start()] + _INFO_END + data[len(first) :]) == int(seal[1])


def decode_commit(data: bytes, name: str) -> list[Action]:
    """Decode the actions of a commit; Corruption if it is empty, damaged or no commit."""
    actions: list[Action] = []
    if not _is_intact(data):
        raise Corruption(name, "it is not what was written: its checksum is wrong")
    try:
        for line in data.splitlines():
            if line.strip():
                (kind, body), *_ = msgspec.json.decode(line).items()
                if kind in _DECODERS:
                    actions.append(_DECODERS[kind](body))
    except (ValueError, KeyError, TypeError, AttributeError, msgspec.DecodeError) as error:
        raise Corruption(name, f"not a commit ({error})") from error
    if not actions:
        raise Corruption(name, "an empty commit")
    return actions


def iso_ms(milliseconds: int) -> str:
    """Format a timestamp as in the statistics of a Delta file."""
    seconds, rest = divmod(milliseconds, 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.strftime('%Y').zfill(4)}{moment.strftime('-%m-%dT%H:%M:%S')}.{rest:03d}Z"


def parse_iso_ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    whole = moment.replace(microsecond=0, tzinfo=moment.tzinfo or UTC)
    return int(whole.timestamp()) * 1000 + moment.microsecond // 1000


def file_stats(file: DataFile) -> str:
    """The statistics string of a file: readers use it for counts and to skip files."""
    low: dict[str, object] = {order_column(file.partition): file.base_offset}
    high: dict[str, object] = {order_column(file.partition): file.last_offset}
    if file.partition >= 0:
        low["timestamp"], high["timestamp"] = iso_ms(file.min_timestamp_ms), iso_ms(file.max_timestamp_ms)
    stats = {
        "numRecords": file.count,
        "minValues": low,
        "maxValues": high,
        "nullCount": dict.fromkeys(low, 0),
    }
    return msgspec.json.encode(stats).decode()


def order_column(partition: int) -> str:
    """The column that numbers the rows: offsets in a topic, the commit sequence in an internal table."""
    return "offset" if partition >= 0 else "commit_seq"


def protocol_body(protocol: Protocol) -> dict[str, Any]:
    """The body of a protocol action; features are named only if the protocol's version has named features."""
    body: dict[str, Any] = {"minReaderVersion": protocol.min_reader, "minWriterVersion": protocol.min_writer}
    if protocol.reader_features is not None:
        body["readerFeatures"] = list(protocol.reader_features)
    if protocol.writer_features:
        body["writerFeatures"] = list(protocol.writer_features)
    return body


def _add_body(file: DataFile, *, data_change: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "partitionValues": _partition_values(file.partition),
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": data_change,
        "stats": file_stats(file),
    }


def _partition_values(partition: int) -> dict[str, str]:
    """The partition values of a file; none in an unpartitioned table."""
    return {"partition": str(partition)} if partition >= 0 else {}


def _partition(body: dict[str, Any]) -> int:
    values: dict[str, str] = dict(body.get("partitionValues") or ())
    return int(values.get("partition", -1))


def file_from_add(body: dict[str, Any]) -> DataFile:
    """Decode the file of an add. Its statistics are required: without them the file has no place in its partition."""
    stats = msgspec.json.decode(body["stats"])
    low, high = stats["minValues"], stats["maxValues"]
    partition = _partition(body)
    order = order_column(partition)
    return DataFile(
        path=body["path"],
        partition=partition,
        base_offset=low[order],
        last_offset=high[order],
        count=stats["numRecords"],
        size=body["size"],
        min_timestamp_ms=parse_iso_ms(low["timestamp"]) if partition >= 0 else 0,
        max_timestamp_ms=parse_iso_ms(high["timestamp"]) if partition >= 0 else 0,
        modified_ms=body["modificationTime"],
    )


def _to_json(action: Action) -> dict[str, Any]:
    match action:
        case Protocol():
            return {"protocol": protocol_body(action)}
        case MetaData():
            return {
                "metaData": {
                    "id": action.id,
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": action.schema,
                    "partitionColumns": list(action.partition_columns),
                    "configuration": action.configuration,
                    "createdTime": action.created_ms,
                }
            }
        case Add():
            return {"add": _add_body(action.file, data_change=action.data_change)}
        case Remove():
            return {
                "remove": {
                    "path": action.path,
                    "deletionTimestamp": action.deleted_ms,
                    "dataChange": action.data_change,
                    "extendedFileMetadata": True,
                    "partitionValues": _partition_values(action.partition),
                    "size": action.size,
                }
            }
        case Txn():
            return {"txn": {"appId": action.app_id, "version": action.version}}
        case CommitInfo():
            return {
                "commitInfo": {
                    "timestamp": action.timestamp_ms,
                    "operation": action.operation,
                    "operationParameters": {},
                    "isBlindAppend": action.blind_append,
                    "readVersion": action.read_version,
                    "engineInfo": "lakelog",
                    "lakelog": {"commitId": action.commit_id, "epoch": action.epoch, **action.facts},
                }
            }


def _decode_protocol(body: dict[str, Any]) -> Protocol:
    reader = body.get("readerFeatures")
    return Protocol(
        body["minReaderVersion"],
        body["minWriterVersion"],
        tuple(body.get("writerFeatures") or ()),
        None if reader is None else tuple(reader),
    )


def _decode_metadata(body: dict[str, Any]) -> MetaData:
    return MetaData(
        body["id"],
        body["schemaString"],
        tuple(body["partitionColumns"]),
        dict(body["configuration"]),
        body.get("createdTime") or 0,
    )


def _decode_remove(body: dict[str, Any]) -> Remove:
    return Remove(
        body["path"],
        _partition(body),
        body.get("size") or 0,
        body.get("deletionTimestamp") or 0,
        body.get("dataChange", True),
    )


def _decode_commit_info(body: dict[str, Any]) -> CommitInfo:
    ours = dict(body.get("lakelog") or {})
    ours.pop("crc", None)
    return CommitInfo(
        commit_id=str(ours.pop("commitId", "")),
        timestamp_ms=body.get("timestamp", 0),
        operation=body.get("operation", ""),
        blind_append=body.get("isBlindAppend", False),
        read_version=body.get("readVersion", -1),
        epoch=ours.pop("epoch", -1),
        facts=ours,
    )


_DECODERS: Final[dict[str, Callable[[dict[str, Any]], Action]]] = {
    "protocol": _decode_protocol,
    "metaData": _decode_metadata,
    "add": lambda body: Add(file_from_add(body), body.get("dataChange", True)),
    "remove": _decode_remove,
    "txn": lambda body: Txn(body["appId"], body["version"]),
    "commitInfo": _decode_commit_info,
}
