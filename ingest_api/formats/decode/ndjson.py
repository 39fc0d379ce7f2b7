"""NDJSON: a record for each line. Pure.

A line ends with LF or CRLF; the last one need not. Blank lines may follow the last record, but none may precede it: a
gap suggests a lost record. Every line is one JSON value; white space around it is not part of it.

Plain: the value of a record is the line as sent, even if it is `null` or a string; its key is found in it by a JSON
pointer, or is null.

As envelope: a line is a record object `{key?, value?, partition?, timestamp?, headers?}`. Its key and value are JSON as
sent, so a string is stored with its quotes; `null` or absent is null; `{"base64": "…"}` stands for bytes that are not
JSON, as in answers to reads, if it is spelled so and has no other member. An `offset` is refused, as a client cannot
choose it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from delta_log.records.record_columns import RecordColumns
from ingest_api.formats.decode.json_pointer import find_key, parse_pointer
from ingest_api.formats.decode.record_errors import MOST_NAMED, Fault, Faults, refuse_count, refuse_records
from ingest_api.formats.decode.record_object import check_record
from ingest_api.formats.decode.rows import JsonRow, are_shallow, read_json
from ingest_api.formats.decode.strict_json import (
    MOST_NESTED,
    UNREADABLE,
    WHITE,
    check_text,
    count_colons,
    count_octet,
    decode_base64,
    find_bad_utf8,
    is_shallow,
)
from ingest_api.web.errors import Refusal


class _Bytes(msgspec.Struct, forbid_unknown_fields=True):
    base64: str


_LIKE_BYTES: Final = re.compile(rb'\{[ \t\r]*"base64"[ \t\r]*:[^:]*\Z')
_as_bytes: Final = msgspec.json.Decoder(_Bytes).decode
_as_row: Final = msgspec.json.Decoder(JsonRow).decode
_skip: Final = msgspec.json.Decoder(Raw).decode


def decode_lines(
    body: bytes, *, key_pointer: str | None, envelope: bool, most_records: int, partition: int | None = None
) -> RecordColumns:
    """Decode the records of a request, all for `partition` if given. A Refusal names each bad line."""
    if envelope and key_pointer is not None:
        raise Refusal(422, "key and envelope exclude each other: a record object has its own key")
    steps = None if key_pointer is None else parse_pointer(key_pointer)
    lines = _split(body, most_records)
    try:
        read = _read_rows(lines, partition) if envelope else _read_values(lines, steps, partition)
    except (*UNREADABLE, Fault):
        read = None
    if read is None or find_bad_utf8(body) is not None:
        faults = _find_faults(lines, envelope=envelope, partition=partition)
        raise refuse_records(faults, len(lines), unit="line", first=1) if faults else Refusal(422, "unreadable lines")
    return read


def _split(body: bytes, most: int) -> list[bytes]:
    content = body.rstrip(WHITE)
    if not content:
        raise Refusal(422, "the body is empty")
    count = count_octet(content, b"\n") + 1
    if count > most:
        raise refuse_count(count, most)
    return [line.strip(WHITE) for line in content.split(b"\n")]


def _read_values(lines: list[bytes], steps: tuple[str, ...] | None, partition: int | None) -> RecordColumns | None:
    for line in lines:
        _skip(line)
    if not are_shallow(lines):
        return None
    keys = None if steps is None else [find_key(line, steps) for line in lines]
    return RecordColumns([*lines], keys, partitions=None if partition is None else [partition] * len(lines))


def _read_rows(lines: list[bytes], partition: int | None) -> RecordColumns | None:
    records, colons, clear = read_json([_as_row(line) for line in lines], partition)
    if (not clear or count_colons(b"".join(lines)) != colons) and _find_faults(
        lines, envelope=True, partition=partition
    ):
        return None
    return _with_bytes(RecordColumns.of(records))


def _with_bytes(records: RecordColumns) -> RecordColumns:
    keys = records.keys if records.keys is None else list(map(_unwrap, records.keys))
    values = list(map(_unwrap, records.values))
    return RecordColumns(values, keys, records.timestamps, records.headers, records.partitions)


def _unwrap(text: bytes | None) -> bytes | None:
    if text is None or not _LIKE_BYTES.match(text):
        return text
    try:
        given = _as_bytes(text)
    except msgspec.ValidationError:
        return text
    return decode_base64(given.base64)


def _find_faults(lines: Sequence[bytes], *, envelope: bool, partition: int | None) -> Faults:
    faults: Faults = []
    for index, line in enumerate(lines):
        try:
            _check_line(line, envelope=envelope, partition=partition)
        except Fault as fault:
            faults.append((index, str(fault)))
            if len(faults) == MOST_NAMED:
                break
    return faults


def _check_line(line: bytes, *, envelope: bool, partition: int | None) -> None:
    try:
        check_text(line)
    except Fault as fault:
        raise Fault(f"it is {fault}") from None
    if not envelope:
        if not is_shallow(line):
            raise Fault(f"it is nested deeper than {MOST_NESTED} levels")
        return
    check_record(Raw(line), "json", partition)
    _with_bytes(RecordColumns.of(read_json([_as_row(line)], None)[0]))
