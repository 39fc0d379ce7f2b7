"""Request bodies that must be refused, as data: the decoders' tests and those of the server read the same table.

A server that has the topic, with one partition, must answer `status` to each, and nothing may be stored. It is
long, as a table is.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

import pyarrow as pa

BINARY = "application/vnd.kafka.binary.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
NDJSON = "application/x-ndjson"
OCTETS = "application/octet-stream"
ARROW = "application/vnd.apache.arrow.stream"

#: What the decoders' tests allow; a server with its own limits is no less strict with these cases.
MOST_RECORDS = 1_000
MOST_BYTES = 1_000_000


class Hostile(NamedTuple):
    name: str
    content_type: str
    body: bytes
    status: int = 422
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def arrow_stream(table: pa.Table, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _envelope(*records: str, more: str = "") -> bytes:
    return ('{"records":[' + ",".join(records) + "]" + more + "}").encode()


_SOUND = '{"value":"YQ=="}'

#: Not even an envelope, in whichever format its values are.
_BROKEN: dict[str, bytes] = {
    "empty": b"",
    "white space": b" \r\n\t ",
    "a byte order mark": b"\xef\xbb\xbf" + _envelope(_SOUND),
    "UTF-16": _envelope(_SOUND).decode().encode("utf-16"),
    "UTF-16 without a mark": _envelope(_SOUND).decode().encode("utf-16-le"),
    "UTF-32": _envelope(_SOUND).decode().encode("utf-32"),
    "Latin-1": b'{"records":[{"value":"\xe9"}]}',
    "a surrogate as UTF-8": b'{"records":[{"headers":[{"name":"\xed\xa0\x80"}]}]}',
    "an overlong slash": b'{"records":[{"value":"\xc0\xaf"}]}',
    "half a character": b'{"records":[{"headers":[{"name":"\xc3"}]}]}',
    "NUL": b"\0",
    "NUL after the body": _envelope(_SOUND) + b"\0",
    "something after the body": _envelope(_SOUND) + b"{}",
    "cut off": _envelope(_SOUND)[:-1],
    "a comment": b"/**/" + _envelope(_SOUND),
    "a trailing comma": b'{"records":[{"value":null},]}',
    "single quotes": b"{'records':[{}]}",
    "an unquoted name": b"{records:[{}]}",
    "a control character in a string": b'{"records":[{"headers":[{"name":"\x01"}]}]}',
    "a raw line break in a string": b'{"records":[{"headers":[{"name":"\n"}]}]}',
    "an array": b"[]",
    "a string": b'"records"',
    "null": b"null",
    "no records": b"{}",
    "records null": b'{"records":null}',
    "records an object": b'{"records":{}}',
    "records empty": b'{"records":[]}',
    "records twice": b'{"records":[{"value":null}],"records":[{"value":null}]}',
    "records twice, once escaped": b'{"records":[{"value":null}],"\\u0072ecords":[{"value":null}]}',
    "an unknown member": _envelope(_SOUND, more=',"acks":1'),
    "an unknown member with a long name": _envelope(_SOUND, more=',"' + "x" * 100_000 + '":1'),
    "a schema": _envelope(_SOUND, more=',"value_schema":"{}"'),
    "a schema's id": _envelope(_SOUND, more=',"key_schema_id":1'),
    "a schema that is false": _envelope(_SOUND, more=',"key_schema":false'),
    "a schema twice": _envelope(_SOUND, more=',"key_schema":null,"key_schema":null'),
    "too many records": _envelope(*["{}"] * (MOST_RECORDS + 1)),
    "far too many records": _envelope(*["{}"] * 200_001),
    "far too many that are no records": _envelope(*["1"] * 200_001),
    "nested without end": b'{"records":' + b"[" * 200_000,
    "objects nested without end": b'{"records":[{"value":' + b'{"a":' * 200_000,
    "deep and closed": b'{"records":[{"value":' + b"[" * 20_000 + b"]" * 20_000 + b"}]}",
}

#: Of these one record is bad.
_BAD_RECORDS: dict[str, str] = {
    "null": "null",
    "an array": "[]",
    "a number": "1",
    "an unknown member": '{"value":null,"offset":1}',
    "a member in capitals": '{"Value":null}',
    "a value twice": '{"value":null,"value":null}',
    "a value twice, once escaped": '{"value":null,"\\u0076alue":null}',
    "a key twice": '{"key":"YQ==","value":"YQ==","key":"YQ=="}',
    "a partition twice": '{"partition":0,"partition":0}',
    "a timestamp twice": '{"timestamp":1,"timestamp":1}',
    "headers twice": '{"headers":[],"headers":[]}',
    "a header's name twice": '{"headers":[{"name":"a","name":"a"}]}',
    "a header's value twice": '{"headers":[{"name":"a","value":null,"value":null}]}',
    "a value twice behind an escaped colon": '{"headers":[{"name":"\\u003a"}],"value":null,"value":null}',
    "a value twice behind a colon": '{"headers":[{"name":":"}],"value":null,"value":null}',
    "a partition true": '{"partition":true}',
    "a partition as text": '{"partition":"0"}',
    "a partition 0.0": '{"partition":0.0}',
    "a partition 0e0": '{"partition":0e0}',
    "a partition 2**63": '{"partition":9223372036854775808}',
    "a partition of 5000 digits": '{"partition":' + "1" * 5000 + "}",
    "a partition in an array": '{"partition":[0]}',
    "a timestamp 1e3": '{"timestamp":1e3}',
    "a timestamp 1.5": '{"timestamp":1.5}',
    "a timestamp -1": '{"timestamp":-1}',
    "a timestamp in the year 10000": '{"timestamp":253402300800000}',
    "a timestamp as text": '{"timestamp":"2024-01-01T00:00:00Z"}',
    "headers an object": '{"headers":{"a":"YQ=="}}',
    "a header a pair": '{"headers":[["a","YQ=="]]}',
    "a header null": '{"headers":[null]}',
    "a header without name": '{"headers":[{"value":"YQ=="}]}',
    "a header's name null": '{"headers":[{"name":null}]}',
    "a header's name a number": '{"headers":[{"name":1}]}',
    "a header's unknown member": '{"headers":[{"key":"a","value":"YQ=="}]}',
    "a header's value unpadded": '{"headers":[{"name":"a","value":"YQ"}]}',
    "a header's value not canonical": '{"headers":[{"name":"a","value":"YR=="}]}',
    "a header's value a number": '{"headers":[{"name":"a","value":1}]}',
    "a lone surrogate in a header's name": '{"headers":[{"name":"\\ud800"}]}',
    "101 headers": '{"headers":[' + ",".join(['{"name":"a"}'] * 101) + "]}",
    "65 KiB of headers": '{"headers":[{"name":"' + "a" * 66_000 + '"}]}',
    "NaN": '{"value":NaN}',
    "Infinity": '{"value":-Infinity}',
    "a lone high surrogate": '{"value":"\\ud800"}',
    "a lone low surrogate": '{"value":"\\udc00 and more"}',
    "surrogates the wrong way round": '{"value":"\\udc00\\ud800"}',
    "a number with a leading zero": '{"value":01}',
    "an unknown escape": '{"value":"\\x41"}',
}

#: The value of the only record.
_NOT_BASE64: dict[str, str] = {
    "unpadded": '"YQ"',
    "half padded": '"YQ="',
    "padded too much": '"YWJj="',
    "only padding": '"===="',
    "one digit": '"Y"',
    "unused bits set behind two digits": '"YR=="',
    "unused bits set behind three digits": '"YWJ="',
    "unused bits set, padding escaped": '"YR\\u003d\\u003d"',
    "padding inside": '"YQ==YQ=="',
    "white space inside": '"YWJj YWJj"',
    "a line break at the end": '"YWJj\\n"',
    "the URL alphabet": '"-_-_"',
    "no ASCII": '"\u00e9\u00e9\u00e9\u00e9"',
    "a number": "1",
    "true": "true",
    "an object": "{}",
    "an array": '["YQ=="]',
}

_NOT_JSON: dict[str, str] = {
    "101 arrays": "[" * 101 + "]" * 101,
    "101 objects": '{"a":' * 101 + "1" + "}" * 101,
    "101 levels of both": '[{"a":' * 51 + "1" + "}]" * 51,
    "a lone surrogate deep inside": '{"a":[{"b":"\\ud83d"}]}',
    "a lone surrogate in a name": '{"\\ude00":1}',
    "NaN inside": "[1,NaN]",
    "a cut literal": "tru",
    "hexadecimal": "0x10",
    "a plus sign": "+1",
    "a missing digit": "1.",
}

_LINES: dict[str, bytes] = {
    "empty": b"",
    "only line breaks": b"\n\r\n\n",
    "an empty line in front": b"\n1",
    "an empty line between": b"1\n\n2",
    "white space between": b"1\n \t\r\n2",
    "two values in a line": b"1 2",
    "two values and a comma": b"1,2",
    "a value on two lines": b"[1,\n2]",
    "lines that only together are two values": b"[1\n2],3",
    "no JSON": b"1\nhello\n2",
    "NaN": b"NaN",
    "a lone surrogate": b'"\\ud800"',
    "no UTF-8": b'1\n"\xff"',
    "a byte order mark": b"\xef\xbb\xbf1",
    "UTF-16": "1\n2".encode("utf-16"),
    "a form feed": b"1\x0c\n2",
    "a line separator of Unicode": b"1\xe2\x80\xa82",
    "cut off": b'{"a":1}\n{"a":',
    "nested too deep": b"[" * 101 + b"]" * 101,
    "nested without end": b"[" * 200_000,
    "too many": b"1\n" * 200_001,
}

_ROWS: dict[str, bytes] = {
    "no object": b"5",
    "an offset": b'{"value":1,"offset":0}',
    "a value twice": b'{"value":1,"value":1}',
    "bytes not canonical": b'{"value":{"base64":"YR=="}}',
    "bytes unpadded": b'{"key":{"base64":"YQ"}}',
    "a partition as text": b'{"partition":"0"}',
    "two records in a line": b'{"value":1} {"value":2}',
    "a record on two lines": b'{"value":\n1}',
}

_HEADERS: dict[str, tuple[tuple[str, str], ...]] = {
    "an unknown one": (("Lakelog-Offset", "1"),),
    "a key twice": (("Lakelog-Key", "a"), ("Lakelog-Key", "a")),
    "two kinds of key": (("Lakelog-Key", "a"), ("Lakelog-Key-Base64", "YQ==")),
    "a stray percent sign": (("Lakelog-Key", "100%"),),
    "a percent sign and no digits": (("Lakelog-Key", "%zz"),),
    "a key that is no UTF-8": (("Lakelog-Key", "%ff"),),
    "a key that is no base64": (("Lakelog-Key-Base64", "YQ"),),
    "a key that is not canonical": (("Lakelog-Key-Base64", "YR=="),),
    "a partition with a sign": (("Lakelog-Partition", "+0"),),
    "a partition with a zero in front": (("Lakelog-Partition", "00"),),
    "a partition that is empty": (("Lakelog-Partition", ""),),
    "a partition 2**63": (("Lakelog-Partition", "9223372036854775808"),),
    "a timestamp 1e3": (("Lakelog-Timestamp", "1e3"),),
    "a timestamp in the year 10000": (("Lakelog-Timestamp", "253402300800000"),),
    "a header that is empty": (("Lakelog-Header", ""),),
    "a header between two commas": (("Lakelog-Header", "a=YQ==,,b=YQ=="),),
    "a header's value not canonical": (("Lakelog-Header", "a=YR=="),),
    "101 headers": (("Lakelog-Header", ",".join(["a"] * 101)),),
}

_TABLE = pa.table({"value": pa.array([b"x" * 100] * 10)})
_STREAM = arrow_stream(_TABLE)
_LONG = b"x" * 200_000
_UUIDS = pa.array([b"x" * 16], pa.binary(16))


def _lying(**options: object) -> bytes:
    """A compressed stream whose first buffer says that it becomes a terabyte."""
    stream = bytearray(arrow_stream(_TABLE, compression="zstd", **options))
    place = stream.index((1000).to_bytes(8, "little") + b"\x28\xb5\x2f\xfd")
    struct.pack_into("<q", stream, place, 2**40)
    return bytes(stream)


def _views(rows: int) -> pa.Array:
    _, views, *shown = pa.array([_LONG]).cast(pa.binary_view()).buffers()
    return pa.Array.from_buffers(pa.binary_view(), rows, [None, pa.py_buffer(bytes(views)[:16] * rows), *shown])


def unread_view(length: int) -> pa.Array:
    """Two rows of views, the second of which is null, and so nothing that Arrow's own checks look at."""
    views = struct.pack("<i12s", 1, b"a") + struct.pack("<iiii", length, 0, 0, 0)
    return pa.Array.from_buffers(pa.binary_view(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(views)])


def _unread_list_view() -> pa.Array:
    """The same of a list: its second row, which is null, begins nowhere and has less than nothing."""
    kind = pa.list_view(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    inside = pa.array([{"key": "a", "value": b"b"}], kind.value_type)
    begins, sizes = (pa.py_buffer(struct.pack("<ii", *pair)) for pair in ((0, 2**30), (1, -1)))
    return pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\x01"), begins, sizes], children=[inside])


def _nulls(rows: int) -> bytes:
    return arrow_stream(pa.table({"value": pa.nulls(rows)}))


_STREAMS: dict[str, bytes] = {
    "empty": b"",
    "no Arrow": b"hello, world; this is no Arrow",
    "JSON": b'{"records":[]}',
    "a file instead of a stream": b"ARROW1\0\0" + _STREAM + b"ARROW1",
    "only the end": _STREAM[-8:],
    "without the end": _STREAM[:-8],
    "half of the end": _STREAM[:-4],
    "cut in the body": _STREAM[: len(_STREAM) // 2],
    "something after the end": _STREAM + b"\0",
    "two streams": _STREAM + _STREAM,
    "a schema twice": _STREAM[: _STREAM.index(b"\xff\xff\xff\xff", 8)] + _STREAM,
    "no rows": arrow_stream(_TABLE.slice(0, 0)),
    "no columns": arrow_stream(pa.table({})),
    "too many rows": arrow_stream(pa.table({"value": pa.array([b""] * 200_001)})),
    "too many rows that take no bytes": _nulls(10_000_000),
    "six columns": arrow_stream(pa.table({name: pa.array([b""]) for name in "abcdef"})),
    "a negative length": b"\xff\xff\xff\xff\xff\xff\xff\xff" + _STREAM[8:],
    "a length of 2 GiB": b"\xff\xff\xff\xff\xff\xff\xff\x7f" + _STREAM[8:],
    "a buffer that becomes a terabyte": _lying(),
    "two megabytes of zeros": arrow_stream(pa.table({"value": pa.array([bytes(2_000_000)])}), compression="zstd"),
    "a dictionary that every row repeats": arrow_stream(
        pa.table({"value": pa.DictionaryArray.from_arrays(pa.array([0] * 1_000), pa.array([_LONG]))})
    ),
    "a view that every row repeats": arrow_stream(pa.table({"value": _views(1_000)})),
    "a run that every row repeats": arrow_stream(
        pa.table({"value": pa.RunEndEncodedArray.from_arrays(pa.array([1_000], pa.int32()), pa.array([_LONG]))})
    ),
    "a view of negative length below a null": arrow_stream(pa.table({"value": unread_view(-1)})),
    "a view of 2 GiB below a null": arrow_stream(pa.table({"value": unread_view(2**31 - 1)})),
    "a key that is such a view": arrow_stream(pa.table({"key": unread_view(-1), "value": [b"", b""]})),
    "such a view, compressed": arrow_stream(pa.table({"value": unread_view(-1)}), compression="zstd"),
    "headers that are list views": arrow_stream(pa.table({"value": [b"", b""], "headers": _unread_list_view()})),
    "an extension type": arrow_stream(pa.table({"value": pa.ExtensionArray.from_storage(pa.uuid(), _UUIDS)})),
}


def _cases() -> list[Hostile]:
    cases = [
        Hostile(f"{name}, {kind.split('.')[2]}", kind, body)
        for kind in (BINARY, JSON)
        for name, body in _BROKEN.items()
    ]
    for kind in (BINARY, JSON):
        cases += [
            Hostile(f"record: {name}, {kind.split('.')[2]}", kind, _envelope("{}", record))
            for name, record in _BAD_RECORDS.items()
        ]
    for member in ("key", "value"):
        cases += [
            Hostile(f"{member}: {name}, binary", BINARY, f'{{"records":[{{"{member}":{text}}}]}}'.encode())
            for name, text in _NOT_BASE64.items()
        ]
        cases += [
            Hostile(f"{member}: {name}, json", JSON, f'{{"records":[{{"{member}":{text}}}]}}'.encode())
            for name, text in _NOT_JSON.items()
        ]
    cases += [Hostile(f"large body: {name}", BINARY, body) for name, body in _large().items()]
    cases += [Hostile(f"lines: {name}", NDJSON, body) for name, body in _LINES.items()]
    cases += [Hostile(f"record lines: {name}", NDJSON, body, query="envelope=true") for name, body in _ROWS.items()]
    cases += [Hostile(f"pointer {pointer}", NDJSON, b"1", query=f"key={pointer}") for pointer in ("id", "/~2", "/~")]
    cases.append(Hostile("a pointer and an envelope", NDJSON, b"{}", query="key=/a&envelope=true"))
    cases += [Hostile(f"octets: {name}", OCTETS, b"x", headers=given) for name, given in _HEADERS.items()]
    cases += [Hostile(f"arrow: {name}", ARROW, body) for name, body in _STREAMS.items()]
    return cases


def _large() -> dict[str, bytes]:
    """One thing wrong far inside a body of the size that takes the quick way."""
    sound = ['{"key":"YQ==","value":"' + "YWJj" * 25 + '"}'] * 500
    wrong = {
        "a value twice": '{"key":"YQ==","value":"YQ==","value":"YQ=="}',
        "a value twice and a key absent": '{"value":"YQ==","value":"YQ=="}',
        "unused bits set": '{"key":"YQ==","value":"YR=="}',
        "unused bits set that three digits could have": '{"key":"YE==","value":"YQ=="}',
        "unused bits set, escaped": '{"key":"YQ==","value":"YR=\\u003d"}',
        "an unknown member": '{"key":"YQ==","value":"YQ==","x":null}',
        "a name that could be taken for absence": '{"key":"YQ==","value":"YQ==","no headers":null}',
        "a timestamp as text": '{"key":"YQ==","value":"YQ==","timestamp":"1"}',
        "null for a record": "null",
    }
    bodies = {name: _envelope(*sound, record, *sound[:300]) for name, record in wrong.items()}
    whole = json.dumps([json.loads(record) for record in sound])
    return bodies | {"records twice, empty the second time": f'{{"records":{whole},"records":[]}}'.encode()}


CASES: list[Hostile] = _cases()
