"""Records in every format that they may come in, and where they come to."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pyarrow as pa
import pytest

from delta_log import ConsumedRecord
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW, everything
from tests.support.producing import stored

BINARY = "application/vnd.kafka.binary.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
NDJSON = "application/x-ndjson"
OCTETS = "application/octet-stream"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    app.log.create_topic("orders", 2)
    return app


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def record(partition: int, offset: int, value: bytes | None, **more: Any) -> ConsumedRecord:
    return ConsumedRecord(
        partition, offset, more.get("timestamp", NOW), more.get("key"), value, more.get("headers", ())
    )


def in_arrow(**columns: Any) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def send(app: HttpApp, media: str, body: bytes, path: str = "/topics/orders", **headers: str) -> Any:
    given = {name.replace("_", "-"): content for name, content in headers.items()}
    return app.post(path, content=body, headers={"content-type": media, **given})


FULL_BINARY = {
    "key": b64(b"k"), "value": b64(b"\xff\0"), "partition": 1, "timestamp": NOW - 1,
    "headers": [{"name": "h", "value": b64(b"\xfe")}, {"name": "h", "value": None}],
}  # fmt: skip
FULL = record(1, 0, b"\xff\0", key=b"k", timestamp=NOW - 1, headers=(("h", b"\xfe"), ("h", None)))


@pytest.mark.parametrize("media", [BINARY, "application/vnd.kafka.v2+json", "application/vnd.kafka.binary.v1+json"])
def test_a_binary_envelope_brings_bytes(orders: HttpApp, media: str):
    body = json.dumps({"records": [FULL_BINARY, {"partition": 1}], "key_schema_id": None}).encode()
    assert send(orders, media, body).status_code == 200
    assert everything(orders.log, "orders", 1) == [FULL, record(1, 1, None)]


@pytest.mark.parametrize("media", [JSON, "application/json", "application/vnd.kafka.json.v1+json", None])
def test_a_json_envelope_brings_json_as_it_was_sent(orders: HttpApp, media: str | None):
    body = b'{"records": [{"key": "k", "value": {"b": 1.0, "a" :2}, "partition": 1}, {"value": null, "partition": 1}]}'
    headers = {} if media is None else {"content-type": media}
    assert orders.post("/topics/orders", content=body, headers=headers).status_code == 200
    assert everything(orders.log, "orders", 1) == [record(1, 0, b'{"b": 1.0, "a" :2}', key=b'"k"'), record(1, 1, None)]


def test_lines_bring_values_as_they_were_sent(orders: HttpApp):
    answer = send(orders, NDJSON, b'{"id": "a"}\r\n17\n"x"\n', "/topics/orders/partitions/1")
    assert [place["offset"] for place in answer.json()["offsets"]] == [0, 1, 2]
    assert everything(orders.log, "orders", 1) == [
        record(1, 0, b'{"id": "a"}'), record(1, 1, b"17"), record(1, 2, b'"x"'),
    ]  # fmt: skip


def test_lines_may_have_their_keys_in_them(orders: HttpApp):
    send(orders, NDJSON, b'{"id": "a"}\n{"id": 7}\n', "/topics/orders/partitions/0?key=/id")
    assert [each.key for each in everything(orders.log, "orders")] == [b"a", b"7"]


def test_lines_may_be_record_objects(orders: HttpApp):
    body = b'{"key": "k", "value": {"a": 1}, "partition": 1, "timestamp": %d}\n{"value": 2, "partition": 1}' % (NOW - 9)
    assert send(orders, NDJSON, body, "/topics/orders?envelope=true").status_code == 200
    assert everything(orders.log, "orders", 1) == [
        record(1, 0, b'{"a": 1}', key=b'"k"', timestamp=NOW - 9), record(1, 1, b"2"),
    ]  # fmt: skip


def test_octets_are_one_value_and_the_rest_is_in_headers(orders: HttpApp):
    answer = send(
        orders, OCTETS, b"\xff\0", lakelog_key="k%C3%A9", lakelog_partition="1", lakelog_timestamp=str(NOW - 1),
        lakelog_header=f"h={b64(bytes([254]))}, h",
    )  # fmt: skip
    assert answer.json()["offsets"][0]["partition"] == 1
    found = everything(orders.log, "orders", 1)
    assert [(each.key, each.value, each.timestamp, each.headers) for each in found] == [
        ("ké".encode(), b"\xff\0", NOW - 1, (("h", b"\xfe"), ("h", None)))
    ]
    assert send(orders, OCTETS, b"", "/topics/orders/partitions/0").status_code == 200
    assert everything(orders.log, "orders") == [record(0, 0, b"")]


def test_arrow_is_answered_by_ranges(orders: HttpApp):
    body = in_arrow(value=[b"a", None, b"c"], key=["x", "y", None], partition=pa.array([1, 0, 1], pa.int32()))
    answer = send(orders, ARROW, body)
    assert answer.json() == {
        "ranges": [{"partition": 0, "base_offset": 0, "count": 1}, {"partition": 1, "base_offset": 0, "count": 2}]
    }
    assert everything(orders.log, "orders", 1) == [record(1, 0, b"a", key=b"x"), record(1, 1, b"c")]
    assert everything(orders.log, "orders", 0) == [record(0, 0, None, key=b"y")]
    assert send(orders, ARROW, body, "/topics/orders?acks=0").json() == {"ranges": None}


def test_arrow_may_be_for_one_partition(orders: HttpApp):
    answer = send(orders, ARROW, in_arrow(value=[b"a", b"b"]), "/topics/orders/partitions/1")
    assert answer.json() == {"ranges": [{"partition": 1, "base_offset": 0, "count": 2}]}


ELSEWHERE = [
    (BINARY, b'{"records": [{"partition": 0}, {"partition": 1}]}', "", {}),
    (JSON, b'{"records": [{"partition": 0}, {"partition": 1}]}', "", {}),
    (NDJSON, b'{"partition": 0}\n{"partition": 1}\n', "?envelope=true", {}),
    (OCTETS, b"a", "", {"lakelog_partition": "1"}),
    (ARROW, in_arrow(value=[b"a", b"b"], partition=[0, 1]), "", {}),
]


@pytest.mark.parametrize(("media", "body", "query", "headers"), ELSEWHERE, ids=[row[0] for row in ELSEWHERE])
def test_a_record_for_another_partition_than_the_route_is_refused(
    orders: HttpApp, media: str, body: bytes, query: str, headers: dict[str, str]
):
    answer = send(orders, media, body, f"/topics/orders/partitions/0{query}", **headers)
    assert error_code(answer) == (422, 422)
    assert stored(orders) == 0


BROKEN = [
    (JSON, b""), (JSON, b"{"), (JSON, b"[]"), (JSON, b'{"records": []}'), (JSON, b'{"records": null}'),
    (JSON, b'{"records": [{"value": 1}], "records": [{"value": 2}]}'), (JSON, b'{"records": [{"valeu": 1}]}'),
    (JSON, b'{"records": [{"value": NaN}]}'), (JSON, b'{"records": [{"value": "\\ud800"}]}'),
    (JSON, b'{"records": [{"value": "\xff"}]}'), (JSON, b'\xef\xbb\xbf{"records": [{"value": 1}]}'),
    (JSON, '{"records": [{"value": 1}]}'.encode("utf-16")), (JSON, b'{"records": [{"value": 1, "partition": "0"}]}'),
    (JSON, b'{"records": [{"value": 1, "partition": true}]}'), (JSON, b'{"records": [{"value": 1, "partition": 0.0}]}'),
    (JSON, b'{"records": [{"value": 1, "timestamp": 9223372036854775808}]}'),
    (JSON, b'{"records": [{"value": 1}], "value_schema_id": 1}'), (JSON, b'{"records": [{"value": ' + b"[" * 5000),
    (BINARY, b'{"records": [{"value": "YQ"}]}'), (BINARY, b'{"records": [{"value": "YR=="}]}'),
    (BINARY, b'{"records": [{"value": 1}]}'), (NDJSON, b""), (NDJSON, b"\n"), (NDJSON, b"1\n\n2"), (NDJSON, b"1\n{\n"),
    (NDJSON, b'"\xff"\n'), (ARROW, b""), (ARROW, b"no arrow"), (ARROW, in_arrow(value=[b"a"])[:-40]),
    (ARROW, in_arrow(key=[b"a"], other=[1])), (ARROW, in_arrow(value=pa.array([], pa.binary()))),
]  # fmt: skip


@pytest.mark.parametrize(("media", "body"), BROKEN)
def test_what_is_broken_is_refused_and_nothing_is_stored(orders: HttpApp, media: str, body: bytes):
    for query in ("", "?acks=0"):
        answer = send(orders, media, body, f"/topics/orders{query}")
        assert error_code(answer) == (422, 422)
        assert "Traceback" not in answer.text
    assert stored(orders) == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"lakelog_key": "a", "lakelog_key_base64": "YQ=="}, {"lakelog_partition": "x"}, {"lakelog_timestamp": "-1"},
        {"lakelog_kye": "a"}, {"lakelog_header": "h=YR=="},
    ],
)  # fmt: skip
def test_a_bad_header_of_octets_is_refused(orders: HttpApp, headers: dict[str, str]):
    assert error_code(send(orders, OCTETS, b"a", **headers)) == (422, 422)
    assert stored(orders) == 0


@pytest.mark.parametrize("media", [JSON, NDJSON])
def test_a_large_request_of_many_partitions_is_stored_in_order(orders: HttpApp, media: str):
    """So large that a thread decodes it."""
    values = [b'{"n": %d, "filler": "%s"}' % (n, b"x" * 200) for n in range(5000)]
    body = (
        b"\n".join(values)
        if media == NDJSON
        else b'{"records": [%b]}' % b",".join(b'{"value": %b}' % value for value in values)
    )
    answer = send(orders, media, body)
    places = answer.json()["offsets"]
    assert len(places) == 5000
    found = {
        (partition, each.offset): each.value
        for partition in (0, 1)
        for each in everything(orders.log, "orders", partition)
    }
    assert [found[place["partition"], place["offset"]] for place in places] == values


@pytest.mark.parametrize("media", [BINARY, JSON, NDJSON, OCTETS, ARROW])
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_every_format_may_be_compressed(orders: HttpApp, media: str, coding: str):
    bodies = {
        BINARY: b'{"records": [{"value": "YQ=="}]}', JSON: b'{"records": [{"value": 1}]}', NDJSON: b"1\n",
        OCTETS: b"a" * 100_000, ARROW: in_arrow(value=[b"a"]),
    }  # fmt: skip
    coded = gzip.compress(bodies[media]) if coding == "gzip" else pa.compress(bodies[media], "zstd", asbytes=True)
    assert send(orders, media, coded, content_encoding=coding).status_code == 200
    assert stored(orders) == 1


def test_what_is_compressed_otherwise_is_refused(orders: HttpApp):
    answer = send(orders, JSON, b"x", content_encoding="br")
    assert error_code(answer) == (415, 415)
    assert "gzip" in answer.json()["message"]
    assert error_code(send(orders, JSON, b"x", content_encoding="gzip")) == (422, 422)
    assert stored(orders) == 0
