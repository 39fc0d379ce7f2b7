"""The declarations of the routes that take records."""

from __future__ import annotations

from typing import Any, Final

from delta_log.records.validation import LATEST_TIMESTAMP
from ingest_api.routes.records.produce import PARAMETERS, Produce
from ingest_api.routes.records.receipts import Offsets, Ranges
from ingest_api.web.context import ServerContext
from ingest_api.web.negotiation import Format
from ingest_api.web.parameters import INT64_MAX, Parameter, Text, Whole
from ingest_api.web.route_spec import Content, Operation, ResponseSpec

_INTEGER: Final[dict[str, Any]] = {"type": "integer", "format": "int64"}
_BASE64: Final[dict[str, Any]] = {
    "type": ["string", "null"],
    "contentEncoding": "base64",
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
_HEADERS: Final[dict[str, Any]] = {
    "type": ["array", "null"],
    "maxItems": 100,
    "items": {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "value": _BASE64},
    },
}


def envelope_schema(embedded: dict[str, Any]) -> dict[str, Any]:
    """Schema of v2's envelope, with keys and values of the schema `embedded`."""
    record = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "key": embedded,
            "value": embedded,
            "partition": _INTEGER | {"type": ["integer", "null"], "minimum": 0, "maximum": 2**31 - 1},
            "timestamp": _INTEGER | {"type": ["integer", "null"], "minimum": 0, "maximum": LATEST_TIMESTAMP},
            "headers": _HEADERS,
        },
    }
    absent = {name: {"type": "null"} for name in ("key_schema", "key_schema_id", "value_schema", "value_schema_id")}
    return {
        "type": "object",
        "required": ["records"],
        "additionalProperties": False,
        "properties": {"records": {"type": "array", "minItems": 1, "items": record}, **absent},
    }


BODY: Final = Content(
    {
        Format.BINARY: envelope_schema(_BASE64),
        Format.JSON: envelope_schema({}),
        "application/json": envelope_schema({}),
        Format.NDJSON: {"type": "string", "contentMediaType": Format.NDJSON},
        Format.OCTETS: {"type": "string", "format": "binary"},
        Format.ARROW: {"type": "string", "format": "binary"},
    },
    doc="Records, in one of many formats. All of them are stored, or none.",
)
HEADERS: Final = (
    Parameter("Producer-Id", Text(255), "Of an idempotent request: who sends it.", "header"),
    Parameter("Producer-Epoch", Whole(0, 2**31 - 1), "Of an idempotent request: the producer's epoch.", "header"),
    Parameter(
        "Producer-Seq", Whole(0, INT64_MAX), "Of an idempotent request: the sequence of its first record.", "header"
    ),
    Parameter(
        "Transaction-Id", Text(512), "The transaction that the records are part of: they are stored with it.", "header"
    ),
    Parameter("Transaction-Stage", Text(255), "The part of the transaction: its commit says which count.", "header"),
    Parameter("Lakelog-Key", Text(), "Of octets: the key as UTF-8; `%xx` stands for a byte.", "header"),
    Parameter("Lakelog-Key-Base64", Text(), "Of octets: the key as base64.", "header"),
    Parameter("Lakelog-Partition", Whole(0, 2**31 - 1), "Of octets: the partition.", "header"),
    Parameter("Lakelog-Timestamp", Whole(0, LATEST_TIMESTAMP), "Of octets: milliseconds since 1970.", "header"),
    Parameter("Lakelog-Header", Text(), "Of octets: the record's headers, each `name=base64`.", "header"),
)
_SHAPES: Final[dict[str, Any]] = {
    "application/vnd.kafka.v2+json": {"oneOf": [Offsets, Ranges]},
    "application/json": {"oneOf": [Offsets, Ranges]},
    "application/vnd.kafka+json": {"oneOf": [Offsets, Ranges]},
}
_ANSWERS: Final = (
    ResponseSpec(
        200,
        "Stored: an entry for each record, or for Arrow a range for each partition.",
        Content(_SHAPES),
        {"Lakelog-Table-Version": "With `wait=table`: the version of the table that holds the records, or `pending`."},
    ),
    ResponseSpec(
        202, "With `acks=0`: accepted, and not yet stored. In a transaction: kept until that ends.", Content(_SHAPES)
    ),
)
_REFUSES: Final = (404, 409, 413, 415)


def operations(tier: ServerContext) -> list[Operation]:
    produce = Produce(tier)
    return [
        Operation(
            "POST", "/topics/{topic}", "produce", "Append records to a topic", produce.to_topic, "records", _ANSWERS,
            (*PARAMETERS, *HEADERS), BODY, _REFUSES,
        ),
        Operation(
            "POST", "/topics/{topic}/partitions/{partition}", "produce_to_partition",
            "Append records to one partition of a topic", produce.to_partition, "records", _ANSWERS,
            (*PARAMETERS, *HEADERS), BODY, _REFUSES,
        ),
    ]  # fmt: skip
