"""Numbered requests in every format, to both routes, with every kind of acknowledgement: one law for all of them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.http_app import HttpApp, error_code
from tests.support.logs import Place, everything, replace_settings
from tests.support.producing import stored

Values = list[bytes]
Body = tuple[dict[str, str], bytes]
TOPIC, PARTITIONS = "orders", 3
#: In turn: however the first waited, its repeat is answered alike.
ACKS = ("", "acks=1", "wait=table", "acks=all")


def binary(values: Values) -> Body:
    records = [{"value": base64.b64encode(value).decode()} for value in values]
    return {"content-type": "application/vnd.kafka.binary.v2+json"}, json.dumps({"records": records}).encode()


def embedded(values: Values) -> Body:
    records = b",".join(b'{"key":%b,"value":%b}' % (value, value) for value in values)
    return {"content-type": "application/vnd.kafka.json.v2+json"}, b'{"records":[%b]}' % records


def lines(values: Values) -> Body:
    return {"content-type": "application/x-ndjson"}, b"\n".join(values)


def zipped(values: Values) -> Body:
    headers, body = lines(values)
    return headers | {"content-encoding": "gzip"}, gzip.compress(body, 1, mtime=0)


def enveloped(values: Values) -> Body:
    return {"content-type": "application/x-ndjson"}, b"\n".join(b'{"key":"k","value":%b}' % value for value in values)


def octets(values: Values) -> Body:
    (value,) = values
    return {"content-type": "application/octet-stream", "lakelog-key": "k"}, value


def arrow(values: Values) -> Body:
    table = pa.table({"value": pa.array(values, pa.binary())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return {"content-type": "application/vnd.apache.arrow.stream"}, sink.getvalue().to_pybytes()


@dataclass(frozen=True)
class Form:
    encode: Callable[[Values], Body]
    count: int
    query: tuple[str, ...] = ()

    @property
    def media(self) -> str:
        return self.encode([b"0"])[0]["content-type"]


FORMS = {
    "binary": Form(binary, 2),
    "json": Form(embedded, 3),
    "lines": Form(lines, 2),
    "one line": Form(lines, 1),
    "zipped lines": Form(zipped, 4),
    "keyed lines": Form(lines, 2, ("key=",)),
    "envelopes in lines": Form(enveloped, 2, ("envelope=true",)),
    "octets": Form(octets, 1),
    "arrow": Form(arrow, 2),
}
ROUTES = {"topic": f"/topics/{TOPIC}", "partition": f"/topics/{TOPIC}/partitions/2"}


@dataclass(frozen=True)
class Sender:
    """A producer of one form on one route."""

    form: Form
    path: str

    def send(self, app: HttpApp, number: int, *, epoch: int = 0, ack: str = "", other: bool = False) -> httpx.Response:
        """The request with this number; `other` has other content in it."""
        count = self.form.count
        values = [b"%d" % (number * count + each + 1000 * other) for each in range(count)]
        headers, body = self.form.encode(values)
        stamp = {"producer-id": "p", "producer-epoch": str(epoch), "producer-seq": str(number * count)}
        query = "&".join((*self.form.query, *((ack,) if ack else ())))
        return app.post(f"{self.path}?{query}" if query else self.path, content=body, headers=headers | stamp)

    def values(self, requests: int) -> list[bytes]:
        return sorted(b"%d" % number for number in range(requests * self.form.count))


@pytest.fixture
def http_place(tmp_path: Path) -> Iterator[Place]:
    """On a disk alone: what is tried here is the way to the log."""
    made = Place(tmp_path / "root")
    yield made
    made.close()


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    return FORMS[request.param]


@pytest.fixture(params=ROUTES)
def sender(request: pytest.FixtureRequest, form: Form) -> Sender:
    return Sender(form, ROUTES[request.param])


def all_values(app: HttpApp) -> list[bytes]:
    found = [record.value or b"" for each in range(PARTITIONS) for record in everything(app.log, TOPIC, each)]
    return sorted(found)


def places(answer: httpx.Response) -> Any:
    said = answer.json()
    return said["ranges"] if "ranges" in said else [(each["partition"], each["offset"]) for each in said["offsets"]]


def test_each_is_stored_once_and_answered_alike_after_a_crash_too(http_place: Place, sender: Sender):
    def send_seven(first_ack: int) -> list[httpx.Response]:
        return [sender.send(app, number, ack=ACKS[(first_ack + number) % len(ACKS)]) for number in range(7)]

    with HttpApp(http_place.open()) as app:
        app.log.create_topic(TOPIC, PARTITIONS)
        first, again = send_seven(0), send_seven(1)
        http_place.crash()
    with HttpApp(http_place.open()) as app:
        later = send_seven(2)
        assert [answer.status_code for answer in (*first, *again, *later)] == [200] * 21
        assert not any("duplicate" in answer.json() for answer in first)
        for repeats in (again, later):
            assert all(answer.json()["duplicate"] is True for answer in repeats)
            assert [places(answer) for answer in repeats[2:]] == [places(answer) for answer in first[2:]]
            unknown = None if "ranges" in first[0].json() else [(None, None)] * sender.form.count
            assert [places(answer) for answer in repeats[:2]] == [unknown] * 2
        for answer in (*first, *again, *later):
            waited = "wait=table" in str(answer.request.url)
            assert answer.headers.get("lakelog-table-version", "").isdigit() is waited
        assert all_values(app) == sender.values(7)


def test_without_acks_each_is_stored_once_and_in_order(app: HttpApp, sender: Sender):
    app.log.create_topic(TOPIC, PARTITIONS)
    for number in (0, 0, 1, 0, 1, 2):
        answer = sender.send(app, number, ack="acks=0")
        assert answer.status_code == 202
        assert places(answer) is None or set(places(answer)) == {(None, None)}
    assert sender.send(app, 3).status_code == 200
    assert all_values(app) == sender.values(4)


def test_other_content_gaps_and_old_epochs_are_refused_and_nothing_is_stored(http_place: Place, sender: Sender):
    with HttpApp(http_place.open(replace_settings(producer_wait_s=0.01))) as app:
        app.log.create_topic(TOPIC, PARTITIONS)
        assert error_code(sender.send(app, 1)) == (409, 40911)
        assert sender.send(app, 0).status_code == 200
        assert error_code(sender.send(app, 0, other=True)) == (409, 40913)
        early = sender.send(app, 2)
        assert error_code(early) == (409, 40911)
        assert (early.json()["expected"], early.json()["received"]) == (sender.form.count, 2 * sender.form.count)
        assert sender.send(app, 0, epoch=1, other=True).status_code == 200
        assert error_code(sender.send(app, 1)) == (409, 40912)
        assert stored(app) == 2 * sender.form.count


def test_the_same_request_by_another_route_or_query_has_other_content(app: HttpApp):
    """What is stored would differ, so it is no repeat."""
    app.log.create_topic(TOPIC, PARTITIONS)
    to_topic, to_partition = (Sender(FORMS["lines"], path) for path in ROUTES.values())
    assert to_topic.send(app, 0).status_code == 200
    assert error_code(to_partition.send(app, 0)) == (409, 40913)
    assert error_code(Sender(FORMS["keyed lines"], ROUTES["topic"]).send(app, 0)) == (409, 40913)


V3_ONE = {"value": {"type": "JSON", "data": 1}}
V3 = {"records": V3_ONE, "records:batch": {"entries": [{"id": "a", **V3_ONE}]}}


@pytest.mark.parametrize("route", V3)
@pytest.mark.parametrize("name", ["Producer-Id", "producer-epoch", "Producer-Seq"])
def test_v3_takes_no_numbers_and_says_so(app: HttpApp, route: str, name: str):
    """Each of its records is a unit of its own, so a number would promise what is not kept."""
    app.log.create_topic(TOPIC, PARTITIONS)
    path = f"/v3/clusters/{app.log.cluster_id}/topics/{TOPIC}/{route}"
    answer = app.post(path, json=V3[route], headers={name: "0"})
    assert error_code(answer) == (400, 40002)
    assert name.lower() in answer.json()["message"].lower()
    assert stored(app) == 0
    assert app.post(path, json=V3[route]).status_code in (200, 207)
