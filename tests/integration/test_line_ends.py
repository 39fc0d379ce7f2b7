"""Every answer of JSON ends with a line feed and has no other, so that a shell's prompt stands on its own line."""

from __future__ import annotations

import httpx
import pyarrow as pa
import pytest

from tests.support.http_app import HttpApp

NUMBERED = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def arrow_stream() -> bytes:
    table = pa.table({"value": [b"a", b"b"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def check_one_line(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status
    assert answer.content.endswith(b"}\n") or answer.content.endswith(b"]\n")
    assert answer.content.count(b"\n") == 1
    assert answer.headers["content-length"] == str(len(answer.content))


@pytest.mark.parametrize("path", ["/topics", "/topics/orders", "/brokers", "/healthz", "/readyz", "/", "/v3/clusters"])
def test_what_is_described_is_one_line(app: HttpApp, path: str):
    app.log.create_topic("orders")
    check_one_line(app.get(path), 200)


@pytest.mark.parametrize("values", [1, 2])
def test_what_a_producer_is_told_is_one_line(app: HttpApp, values: int):
    app.log.create_topic("orders")
    records = {"records": [{"value": n} for n in range(values)]}
    check_one_line(app.post("/topics/orders", json=records), 200)
    check_one_line(app.post("/topics/orders?acks=0", json=records), 202)
    for _ in range(2):
        check_one_line(app.post("/topics/orders", json=records, headers=NUMBERED), 200)


def test_what_a_producer_is_told_of_arrow_is_one_line(app: HttpApp):
    app.log.create_topic("orders")
    check_one_line(app.post("/topics/orders", content=arrow_stream(), headers=ARROW), 200)
    check_one_line(app.post("/topics/orders?acks=0", content=arrow_stream(), headers=ARROW), 202)


def test_what_a_producer_of_v3_is_told_is_one_line(app: HttpApp):
    app.log.create_topic("orders")
    path = f"/v3/clusters/{app.log.cluster_id}/topics/orders/records"
    check_one_line(app.post(path, json={"value": {"type": "JSON", "data": 1}}), 200)
    check_one_line(app.post(f"{path}:batch", json={"entries": [{"id": "a"}]}), 207)


@pytest.mark.parametrize(
    ("path", "status"), [("/topics/none", 404), ("/none", 404), ("/topics?x=1", 422), ("/v3/clusters/none", 404)]
)
def test_an_error_is_one_line(app: HttpApp, path: str, status: int):
    check_one_line(app.get(path), status)
