"""What records look like in every format that a read may ask for."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from delta_log import Record
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW
from tests.support.reading import RECORDS

BINARY = "application/vnd.kafka.binary.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"
GIVEN = [
    Record(b'{"a": 1}', key=b"k", partition=0, timestamp=NOW, headers=(("h", b"\xfe"), ("h", None))),
    Record(b"text", partition=0, timestamp=NOW + 1),
    Record(b"\xff", key=b"", partition=0, timestamp=NOW + 2),
    Record(None, partition=0, timestamp=NOW + 3),
]


@pytest.fixture(params=[False, True], ids=["tail", "files"])
def orders(app: HttpApp, request: pytest.FixtureRequest) -> HttpApp:
    """With records of every kind, in memory or in the table's files."""
    app.log.create_topic("orders", 2)
    app.log.append("orders", GIVEN)
    if request.param:
        app.log.flush("orders")
    return app


def b64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def read(app: HttpApp, accept: str | None, query: str = "") -> httpx.Response:
    return app.get(RECORDS + query, headers={} if accept is None else {"accept": accept})


@pytest.mark.parametrize("accept", [None, "*/*", NDJSON, "application/*;q=0.1, application/x-ndjson"])
def test_lines_are_what_is_given_where_nothing_else_is_wanted(orders: HttpApp, accept: str | None):
    answer = read(orders, accept)
    assert answer.headers["content-type"] == NDJSON
    assert [json.loads(line) for line in answer.text.splitlines()] == [
        {"partition": 0, "offset": 0, "timestamp": NOW, "key": "k", "value": {"a": 1},
         "headers": [{"name": "h", "value": "/g=="}, {"name": "h", "value": None}]},
        {"partition": 0, "offset": 1, "timestamp": NOW + 1, "key": None, "value": "text", "headers": []},
        {"partition": 0, "offset": 2, "timestamp": NOW + 2, "key": "", "value": {"base64": "/w=="}, "headers": []},
        {"partition": 0, "offset": 3, "timestamp": NOW + 3, "key": None, "value": None, "headers": []},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("decode", "shown"),
    [
        ("auto", [{"a": 1}, "text", {"base64": "/w=="}, None]), ("json", [{"a": 1}, "text", {"base64": "/w=="}, None]),
        ("string", ['{"a": 1}', "text", {"base64": "/w=="}, None]), ("base64", [b64(each.value) for each in GIVEN]),
    ],
)  # fmt: skip
def test_lines_may_be_decoded_in_one_way(orders: HttpApp, decode: str, shown: list[Any]):
    lines = read(orders, NDJSON, f"?decode={decode}").text.splitlines()
    assert [json.loads(line)["value"] for line in lines] == shown


@pytest.mark.parametrize("accept", [BINARY, "application/vnd.kafka.v2+json", "application/vnd.kafka.binary.v1+json"])
def test_a_binary_envelope_shows_base64(orders: HttpApp, accept: str):
    answer = read(orders, accept)
    assert answer.headers["content-type"] == BINARY
    assert [(each["topic"], each["key"], each["value"], each["offset"]) for each in answer.json()] == [
        ("orders", b64(each.key), b64(each.value), offset) for offset, each in enumerate(GIVEN)
    ]
    assert answer.json()[0]["headers"] == [{"name": "h", "value": "/g=="}, {"name": "h", "value": None}]


@pytest.mark.parametrize("accept", [JSON, "application/json", "application/json;q=0.9, text/html"])
def test_a_json_envelope_shows_json(orders: HttpApp, accept: str):
    answer = read(orders, accept)
    assert answer.headers["content-type"] == JSON
    assert [each["value"] for each in answer.json()] == [{"a": 1}, "text", {"base64": "/w=="}, None]
    assert answer.json()[0]["timestamp"] == NOW


def test_arrow_shows_the_columns_of_the_table(orders: HttpApp):
    answer = read(orders, ARROW)
    assert answer.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.column("value").to_pylist() == [each.value for each in GIVEN]
    assert table.column("key").to_pylist() == [each.key for each in GIVEN]
    assert table.column("partition").to_pylist() == [0] * 4
    assert table.column("offset").to_pylist() == [0, 1, 2, 3]


@pytest.mark.parametrize("accept", [NDJSON, BINARY, JSON, ARROW])
def test_an_empty_answer_is_one_of_its_format(orders: HttpApp, accept: str):
    answer = read(orders, accept, "?offset=latest")
    assert answer.status_code == 200
    if accept in (BINARY, JSON):
        assert answer.json() == []
    elif accept == ARROW:
        assert pa.ipc.open_stream(answer.content).read_all().num_rows == 0
    else:
        assert answer.content == b""


@pytest.mark.parametrize("accept", ["text/html", "application/octet-stream", "application/x-ndjson;q=0", "image/*"])
def test_what_is_not_offered_is_refused_and_says_what_is(orders: HttpApp, accept: str):
    answer = read(orders, accept)
    assert error_code(answer) == (406, 406)
    for media in (NDJSON, BINARY, JSON, ARROW, EVENTS):
        assert media in answer.json()["message"]
    assert orders.tier.read_room.held == 0


@pytest.mark.parametrize("accept", [NDJSON, BINARY, JSON, ARROW])
def test_what_was_produced_in_a_format_comes_back_in_it(app: HttpApp, accept: str):
    app.log.create_topic("orders")
    app.log.create_topic("copy")
    app.log.append("orders", [Record(b'{"n": %d}' % n, key=b'"k"', timestamp=NOW + n) for n in range(2000)])
    answer = app.get(f"{RECORDS}?max_bytes=67108864", headers={"accept": accept})
    body, query = answer.content, ""
    if accept in (BINARY, JSON):
        kept = ("key", "value", "timestamp", "headers")
        records = [{name: each[name] for name in kept} for each in answer.json()]
        body = json.dumps({"records": records}).encode()
    elif accept == NDJSON:
        query = "?envelope=true"
        kept = ("key", "value", "timestamp", "headers")
        lines = [{name: json.loads(line)[name] for name in kept} for line in answer.text.splitlines()]
        body = "\n".join(map(json.dumps, lines)).encode()
    else:
        table = pa.ipc.open_stream(body).read_all().drop_columns(["offset"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
    stored = app.post(f"/topics/copy{query}", content=body, headers={"content-type": accept})
    assert stored.status_code == 200, stored.text
    copy = app.get("/topics/copy/partitions/0/records?max_bytes=67108864")
    same = app.get(f"{RECORDS}?max_bytes=67108864")
    assert copy.text == same.text
    assert copy.text.count("\n") == 2000
