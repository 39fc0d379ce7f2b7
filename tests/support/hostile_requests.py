"""Requests that a server must refuse, as bytes: what each is answered, and what becomes of its connection.

The server has the topic `one` with one partition and no record, makes topics by itself, and allows bodies of
`MOST_BYTES` and `MOST_RECORDS`. Nothing may be stored by any of them, and no topic made. The file is long as its tables
are.
"""

from __future__ import annotations

import gzip
from typing import NamedTuple

from tests.support.hostile_bodies import CASES, MOST_BYTES, Hostile
from tests.support.http_producers import frame

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
RECORDS = "/topics/one/partitions/0/records"
PRODUCE = b'{"records":[{"value":1}]}'


class Row(NamedTuple):
    """`code` is its error_code where that is not the status; a connection that `closes` does so after the answer."""

    name: str
    request: bytes
    status: int
    code: int | None = None
    closes: bool = False


def _head(*lines: bytes, first: bytes = b"POST /topics/one HTTP/1.1", host: bytes = b"Host: localhost") -> bytes:
    return b"\r\n".join([first, host, b"Content-Type: application/x-ndjson", *lines, b"", b""])


_CHUNKED = _head(b"Transfer-Encoding: chunked")
_WHOLE = b"2\r\n12\r\n0\r\n\r\n"

#: Not sound as HTTP: nothing behind them can be told apart, so the connection ends. Each would store the line `12`.
_WIRE: dict[str, bytes] = {
    "length and coding": _head(b"Content-Length: 2", b"Transfer-Encoding: chunked") + _WHOLE,
    "coding and length": _head(b"Transfer-Encoding: chunked", b"Content-Length: 12") + _WHOLE,
    "two lengths": _head(b"Content-Length: 2", b"Content-Length: 1") + b"12",
    "the same length twice": _head(b"Content-Length: 2", b"Content-Length: 2") + b"12",
    "a list of lengths": _head(b"Content-Length: 2, 2") + b"12",
    "a signed length": _head(b"Content-Length: +2") + b"12",
    "a negative length": _head(b"Content-Length: -2") + b"12",
    "a length past 64 bits": _head(b"Content-Length: 99999999999999999999999") + b"12",
    "another coding": _head(b"Transfer-Encoding: gzip, chunked") + _WHOLE,
    "chunked twice": _head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + _WHOLE,
    "chunked in HTTP/1.0": _head(b"Transfer-Encoding: chunked", first=b"POST /topics/one HTTP/1.0") + _WHOLE,
    "bare line feeds": _head(b"Content-Length: 2").replace(b"\r\n", b"\n") + b"12",
    "a bare line feed between fields": _head(b"A: b\nContent-Length: 2") + b"12",
    "a bare carriage return": _head(b"A: b\rc", b"Content-Length: 2") + b"12",
    "a folded field": _head(b"A: b", b" c", b"Content-Length: 2") + b"12",
    "a space before a colon": _head(b"Content-Length : 2") + b"12",
    "NUL in a field": _head(b"A: \0", b"Content-Length: 2") + b"12",
    "no Host": b"POST /topics/one HTTP/1.1\r\nContent-Length: 2\r\n\r\n12",
    "two Hosts": _head(b"Host: y", b"Content-Length: 2") + b"12",
    "an unknown method": _head(b"Content-Length: 2", first=b"FETCH /topics/one HTTP/1.1") + b"12",
    "a method in small letters": _head(b"Content-Length: 2", first=b"post /topics/one HTTP/1.1") + b"12",
    "a space in the target": _head(b"Content-Length: 2", first=b"POST /topics/one two HTTP/1.1") + b"12",
    "a byte past ASCII in the target": _head(b"Content-Length: 2", first=b"POST /topics/\xc3\xa9 HTTP/1.1") + b"12",
    "a control character in the target": _head(b"Content-Length: 2", first=b"POST /topics/\x01 HTTP/1.1") + b"12",
    "a fragment": _head(b"Content-Length: 2", first=b"POST /topics/one#a HTTP/1.1") + b"12",
    "HTTP/0.9": b"POST /topics/one\r\n\r\n",
    "HTTP/2 by its preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a chunk size that is none": _CHUNKED + b"x\r\n",
    "a chunk size with a prefix": _CHUNKED + b"0x2\r\n12\r\n0\r\n\r\n",
    "a chunk that is longer": _CHUNKED + b"2\r\n123\r\n0\r\n\r\n",
    "a chunk ended by a line feed": _CHUNKED + b"2\r\n12\n0\r\n\r\n",
    "a trailer without a colon": _CHUNKED + b"2\r\n12\r\n0\r\nA\r\n\r\n",
}
#: In place of a topic's name in a URL, where the topic is to be made or written to.
_NAMES: dict[str, str] = {
    "two dots": "..",
    "two dots, encoded": "%2e%2e",
    "one dot, encoded": "%2E",
    "a way out": "..%2f..%2fetc%2fpasswd",
    "a slash": "a%2fb",
    "a backslash": "a%5cb",
    "NUL": "a%00",
    "a carriage return": "a%0d",
    "a line feed within": "a%0ab",
    "a trailing line feed": "a%0a",
    "CR, LF and a field": "a%0d%0aX-Injected:%20yes",
    "250 characters": "a" * 250,
    "300 characters": "a" * 300,
    "invalid UTF-8": "%ff%fe",
    "an overlong slash": "%c0%af",
    "half an escape": "a%2",
    "an escape that is none": "a%zz",
    "a letter past ASCII": "caf%c3%a9",
    "full-width letters": "%ef%bd%81",
    "an invisible character": "a%e2%80%8b",
    "a space": "a%20b",
    "a plus": "a+b",
    "the log of a table": "_delta_log",
    "an internal topic": "__producers",
    "another internal topic": "__anything",
    "a leading dot": ".hidden",
    "a leading hyphen": "-rf",
    "a trailing dot": "a.",
}
_MANY = "9" * 400
#: Of a read. Numbers that only limit are clamped, and are not here.
_QUERIES: dict[str, tuple[str, int, int | None]] = {
    "an offset twice": ("offset=0&offset=0", 422, None),
    "a limit twice": ("max_records=1&max_records=1", 422, None),
    "a parameter twice, once encoded": ("offset=0&%6fffset=0", 422, None),
    "an unknown parameter": ("offste=0", 422, None),
    "an unknown parameter of 20,000 characters": ("x" * 20_000 + "=0", 422, None),
    "a parameter in capitals": ("Offset=0", 422, None),
    "a negative offset": ("offset=-1", 422, None),
    "the smallest offset": (f"offset=-{2**63}", 422, None),
    "an offset past the end": ("offset=1", 416, 41601),
    "the largest offset": (f"offset={2**63 - 1}", 416, 41601),
    "an offset past 64 bits": (f"offset={2**63}", 422, None),
    "an astronomical offset": (f"offset={_MANY}", 422, None),
    "a negative astronomical offset": (f"offset=-{_MANY}", 422, None),
    "a hexadecimal offset": ("offset=0x0", 422, None),
    "an offset with an exponent": ("offset=1e3", 422, None),
    "an offset with a point": ("offset=0.0", 422, None),
    "an offset with a sign": ("offset=%2b0", 422, None),
    "an offset with a space": ("offset=+0", 422, None),
    "an offset with a leading zero": ("offset=00", 422, None),
    "an offset with an underscore": ("offset=1_0", 422, None),
    "an offset in other digits": ("offset=%d9%a0", 422, None),
    "an offset with a line feed": ("offset=0%0a", 422, None),
    "an empty offset": ("offset=", 422, None),
    "an offset without a value": ("offset", 422, None),
    "an unknown word": ("offset=newest", 422, None),
    "offset and timestamp": ("offset=0&timestamp=0", 422, None),
    "a negative timestamp": ("timestamp=-1", 422, None),
    "a timestamp after the year 9999": ("timestamp=253402300800000", 422, None),
    "an astronomical timestamp": (f"timestamp={_MANY}", 422, None),
    "a negative timeout": ("timeout=-1", 422, None),
    "a negative astronomical timeout": (f"timeout=-{_MANY}", 422, None),
    "a timeout that is no number": ("timeout=NaN", 422, None),
    "an endless timeout": ("timeout=Infinity", 422, None),
    "a negative limit": ("max_records=-1", 422, None),
    "a negative limit of bytes": ("max_bytes=-1", 422, None),
    "a limit that is no number": ("max_bytes=1k", 422, None),
    "an unknown decoding": ("decode=avro", 422, None),
    "invalid UTF-8": ("offset=%ff", 422, None),
    "NUL": ("offset=0%00", 422, None),
}
_PARTITIONS: dict[str, str] = {
    "that is not there": "1",
    "past 32 bits": "2147483648",
    "past 64 bits": "99999999999999999999",
    "of 400 digits": _MANY,
    "below zero": "-1",
    "with a sign": "+0",
    "with a leading zero": "00",
    "with an exponent": "1e0",
    "with a line feed": "0%0a",
    "with NUL": "0%00",
    "that is a word": "first",
    "with a space": "%200",
}
#: Of a topic that shall be made, and so of every short body in JSON.
_TOPIC_BODIES: dict[str, bytes] = {
    "no JSON": b"partitions=1",
    "a list": b"[]",
    "null": b"null",
    "a boolean for a number": b'{"partitions":true}',
    "text for a number": b'{"partitions":"12"}',
    "an exponent": b'{"partitions":1e3}',
    "a point": b'{"partitions":1.5}',
    "NaN": b'{"partitions":NaN}',
    "Infinity": b'{"partitions":Infinity}',
    "past 64 bits": b'{"partitions":9223372036854775808}',
    "of 400 digits": b'{"partitions":%b}' % _MANY.encode(),
    "zero": b'{"partitions":0}',
    "below zero": b'{"partitions":-1}',
    "one too many": b'{"partitions":10001}',
    "an unknown member": b'{"partition":1}',
    "a member twice": b'{"partitions":1,"partitions":1}',
    "a member twice, once escaped": b'{"partitions":1,"\\u0070artitions":1}',
    "a setting twice": b'{"configs":{"retention.ms":1,"retention.ms":2}}',
    "an unknown setting": b'{"configs":{"retention.years":1}}',
    "a setting that is a list": b'{"configs":{"retention.ms":[1]}}',
    "a setting out of its range": b'{"configs":{"max.message.bytes":-1}}',
    "a lone surrogate": b'{"configs":{"cleanup.policy":"\\ud800"}}',
    "a raw surrogate": b'{"configs":{"cleanup.policy":"\xed\xa0\x80"}}',
    "UTF-16": '{"partitions":1}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"partitions":1}',
    "Latin-1": b'{"configs":{"\xe9":1}}',
    "something behind": b'{"partitions":1}{}',
    "cut off": b'{"partitions":1',
    "a trailing comma": b'{"partitions":1,}',
    "100,000 brackets": b"[" * 100_000,
    "100,000 braces": b'{"configs":' * 10_000,
    "a control character": b'{"configs":{"cleanup.policy":"\x01"}}',
}
_STAMPS: dict[str, tuple[dict[str, str], int]] = {
    "no epoch": ({"Producer-Id": "p", "Producer-Seq": "0"}, 422),
    "no sequence": ({"Producer-Id": "p", "Producer-Epoch": "0"}, 422),
    "no id": ({"Producer-Epoch": "0", "Producer-Seq": "0"}, 422),
    "an empty id": ({"Producer-Id": "", "Producer-Epoch": "0", "Producer-Seq": "0"}, 422),
    "an id of 256 bytes": ({"Producer-Id": "p" * 256, "Producer-Epoch": "0", "Producer-Seq": "0"}, 422),
    "a negative epoch": ({"Producer-Id": "p", "Producer-Epoch": "-1", "Producer-Seq": "0"}, 422),
    "an epoch past 32 bits": ({"Producer-Id": "p", "Producer-Epoch": "2147483648", "Producer-Seq": "0"}, 422),
    "a negative sequence": ({"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "-1"}, 422),
    "a sequence past 64 bits": ({"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(2**63)}, 422),
    "an astronomical sequence": ({"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": _MANY}, 422),
    "a sequence with a leading zero": ({"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "00"}, 422),
    "an unknown id in its middle": ({"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "7"}, 409),
}
_NOT_OFFERED = ("text/html", "application/vnd.kafka.avro.v2+json", "*/*;q=0", "nonsense", "image/*, text/html")
_NOT_TAKEN = ("text/plain", "application/vnd.kafka.avro.v2+json", "application/json; charset=utf-16", "x", "")
_CODINGS = ("br", "deflate", "gzip, gzip", "compress", "gzip;q=1")
_EVENT_IDS = ("x", "0", "0:", ":0", "0:-1", "0:" + _MANY, "0:0,0:0", "0:0;1:0", "0:0,")
_OPTIONS = ("acks=2", "acks=", "acks=all&acks=all", "wait=log", "sync=true", "envelope=1", "key=a&key=b")


def _wire_rows() -> list[Row]:
    rows = [Row(name, request, 400, closes=True) for name, request in _WIRE.items()]
    fields = [b"A%d: b" % number for number in range(101)]
    long = b"POST /topics/one?" + b"a" * 40_000 + b" HTTP/1.1"
    return [
        *rows,
        Row("a head of 40,000 bytes", _head(b"A: " + b"a" * 40_000), 431, closes=True),
        Row("101 fields", _head(*fields), 431, closes=True),
        Row("a URL of 40,000 bytes", _head(first=long), 414, closes=True),
        Row("another expectation", _head(b"Expect: wonders", b"Content-Length: 2"), 417, closes=True),
        Row("a tunnel", _head(first=b"CONNECT x:443 HTTP/1.1"), 501, closes=True),
    ]


def _name_rows() -> list[Row]:
    rows: list[Row] = []
    for name, given in _NAMES.items():
        rows.append(Row(f"made: {name}", frame("PUT", f"/topics/{given}", JSON, b"{}"), 422))
        rows.append(Row(f"written to: {name}", frame("POST", f"/topics/{given}", JSON, PRODUCE), 422))
        place = f"/topics/{given}/partitions/0"
        rows.append(Row(f"a partition written to: {name}", frame("POST", place, JSON, PRODUCE), 422))
    return [
        *rows,
        Row("made: a name of other case", frame("PUT", "/topics/ONE", JSON, b"{}"), 409, 40901),
        Row("written to: a name of other case", frame("POST", "/topics/One", JSON, PRODUCE), 409, 40901),
        Row("an empty name", frame("PUT", "/topics//", JSON, b"{}"), 404),
        Row("an unknown topic", frame("GET", "/topics/nobody"), 404, 40403),
        Row("an unknown topic's records", frame("GET", "/topics/nobody/partitions/0/records"), 404, 40401),
        Row("an unknown topic deleted", frame("DELETE", "/topics/nobody"), 404, 40403),
        Row("a way out of the routes", frame("GET", "/topics/../../etc/passwd"), 404),
        Row("a way out, encoded", frame("GET", "/topics/%2e%2e%2f%2e%2e%2flakelog.json"), 422),
        Row("no route", frame("GET", "/nothing/here"), 404),
        Row("no such method", frame("PATCH", "/topics/one", JSON, b"{}"), 405),
        Row("two slashes", frame("GET", "//topics"), 404),
    ]


def _read_rows() -> list[Row]:
    rows = [
        Row(f"read: {name}", frame("GET", f"{RECORDS}?{query}"), status, code)
        for name, (query, status, code) in _QUERIES.items()
    ]
    for name, given in _PARTITIONS.items():
        place = f"/topics/one/partitions/{given}"
        rows.append(Row(f"read from a partition {name}", frame("GET", f"{place}/records"), 404, 40402))
        rows.append(Row(f"offsets of a partition {name}", frame("GET", f"{place}/offsets"), 404, 40402))
        rows.append(Row(f"a partition {name}", frame("GET", place), 404, 40402))
        rows.append(Row(f"written to a partition {name}", frame("POST", place, JSON, PRODUCE), 404, 40402))
    events = {"Accept": "text/event-stream"}
    return [
        *rows,
        *(Row(f"read as {given}", frame("GET", RECORDS, {"Accept": given}), 406) for given in _NOT_OFFERED),
        *(
            Row(f"events after {last[:20]}", frame("GET", RECORDS, events | {"Last-Event-ID": last}), 400)
            for last in _EVENT_IDS
        ),
    ]


def _body_rows() -> list[Row]:
    rows: list[Row] = []
    for case in CASES:
        request = frame("POST", f"/topics/one?{case.query}", _with_type(case), case.body)
        large = len(case.body) > MOST_BYTES
        rows.append(Row(f"body: {case.name}", request, 413 if large else case.status, closes=large))
    for name, body in _TOPIC_BODIES.items():
        rows.append(Row(f"topic: {name}", frame("PUT", "/topics/made", JSON, body), 422))
    for name, (stamp, status) in _STAMPS.items():
        code = 40911 if status == 409 else None
        rows.append(Row(f"stamp: {name}", frame("POST", "/topics/one", JSON | stamp, PRODUCE), status, code))
    zipped = JSON | {"Content-Encoding": "gzip"}
    bomb = gzip.compress(b" " * (50 * MOST_BYTES))
    most = b"Content-Length: %d" % (MOST_BYTES + 1)
    chunk = b"%x\r\n" % MOST_BYTES + b"1" * MOST_BYTES + b"\r\n"
    delete = RECORDS + ":delete"
    return [
        *rows,
        *(
            Row(f"produce with {query}", frame("POST", f"/topics/one?{query}", JSON, PRODUCE), 422)
            for query in _OPTIONS
        ),
        *(
            Row(f"of type {given}", frame("POST", "/topics/one", {"Content-Type": given}, PRODUCE), 415)
            for given in _NOT_TAKEN
        ),
        *(
            Row(f"coded as {given}", frame("POST", "/topics/one", JSON | {"Content-Encoding": given}, PRODUCE), 415)
            for given in _CODINGS
        ),
        Row("a bomb", frame("POST", "/topics/one", zipped, bomb), 413),
        Row("not gzip", frame("POST", "/topics/one", zipped, PRODUCE), 422),
        Row("gzip cut off", frame("POST", "/topics/one", zipped, gzip.compress(PRODUCE)[:-1]), 422),
        Row("not zstd", frame("POST", "/topics/one", JSON | {"Content-Encoding": "zstd"}, PRODUCE), 422),
        Row("a body too large by a byte", _head(most), 413, closes=True),
        Row("an astronomical body", _head(b"Content-Length: 999999999999999999"), 413, closes=True),
        Row("chunks too large by a byte", _CHUNKED + chunk + b"1\r\n1", 413, closes=True),
        Row("below the start", frame("POST", delete, JSON, b'{"before_offset":-2}'), 422),
        Row("records past the end deleted", frame("POST", delete, JSON, b'{"before_offset":1}'), 416, 41601),
        Row("no body", frame("POST", delete, JSON), 422),
        Row("a producer's name of the wrong kind", frame("POST", "/producers", JSON, b'{"transactional_id":1}'), 422),
        Row("an empty producer's name", frame("POST", "/producers", JSON, b'{"transactional_id":""}'), 422),
        Row("a stamp twice", _twice(), 400),
        Row(
            "a record for a cluster that is none",
            frame("POST", "/v3/clusters/x/topics/one/records", JSON, PRODUCE),
            404,
        ),
    ]


def _with_type(case: Hostile) -> dict[str, str]:
    headers = {"Content-Type": case.content_type}
    for name, value in case.headers:
        headers[name] = f"{headers[name]}\r\n{name}: {value}" if name in headers else value
    return headers


def _twice() -> bytes:
    stamp = {"Producer-Id": "p\r\nProducer-Id: p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    return frame("POST", "/topics/one", JSON | stamp, PRODUCE)


ROWS: list[Row] = [*_wire_rows(), *_name_rows(), *_read_rows(), *_body_rows()]
#: Odd, and answered all the same: what only limits is clamped, and a slash at the end means nothing.
TAKEN: dict[str, bytes] = {
    "an astronomical timeout": frame("GET", f"{RECORDS}?timeout={_MANY}"),
    "astronomical limits": frame("GET", f"{RECORDS}?max_records={_MANY}&max_bytes={_MANY}"),
    "limits of nothing": frame("GET", f"{RECORDS}?max_records=0&max_bytes=0&timeout=0"),
    "a slash at the end": frame("GET", "/topics/one/"),
    "a slash at the end of a read": frame("GET", f"{RECORDS}/"),
    "every format": frame("GET", RECORDS, {"Accept": "application/vnd.apache.arrow.stream;q=0.1, */*;q=0.01"}),
    "an empty range among others": frame("GET", RECORDS, {"Accept": ",,*/*,"}),
    "empty lines before": b"\r\n\r\n" + frame("GET", "/topics/one"),
    "an encoded name": frame("GET", "/topics/%6fne"),
    "a name of anything else": frame("GET", RECORDS, {"If-None-Match": '"' + "x" * 4000 + '"'}),
}
