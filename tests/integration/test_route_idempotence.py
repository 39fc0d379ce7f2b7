"""A producer that numbers its requests may send each as often as it likes: it is stored once and in order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.http_app import HttpApp, error_code
from tests.support.logs import Place, everything, replace_settings, values_of
from tests.support.producing import HeldWriter, place, stored
from tests.support.wire_serving import serve


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    app.log.create_topic("orders", 3)
    return app


def stamp(sequence: int | str, epoch: int | str = 0, producer: str = "p") -> dict[str, str]:
    return {"producer-id": producer, "producer-epoch": str(epoch), "producer-seq": str(sequence)}


def values(*given: Any, partition: int | None = 0) -> dict[str, Any]:
    return {"records": [{"value": each, "partition": partition} for each in given]}


def send(app: HttpApp, sequence: int, *given: Any, epoch: int = 0) -> httpx.Response:
    return app.post("/topics/orders", json=values(*given), headers=stamp(sequence, epoch))


def test_a_repeat_is_answered_as_the_first_was(orders: HttpApp):
    spread = {"records": [{"value": 1, "partition": 2}, {"value": 2, "partition": 0}, {"value": 3, "partition": 2}]}
    first = orders.post("/topics/orders", json=spread, headers=stamp(0))
    assert first.json()["offsets"] == [place(2, 0), place(0, 0), place(2, 1)]
    assert "duplicate" not in first.json()
    again = orders.post("/topics/orders", json=spread, headers=stamp(0))
    assert again.status_code == 200
    assert again.json() == {**first.json(), "duplicate": True}
    assert stored(orders) == 3


def test_the_numbers_of_a_connection_are_read_anew_each_time(orders: HttpApp):
    sent: tuple[tuple[str, bytes, int], ...] = (
        ("0", b"a", 200), ("1", b"b", 200), ("2", b"c", 200), ("2", b"c", 200), ("1", b"b", 200), ("01", b"d", 422),
        ("1", b"d", 409), ("9" * 19, b"d", 422), ("3", b"d", 200), ("3 ", b"d", 200), ("x", b"e", 422),
        ("4", b"e", 200),
    )  # fmt: skip
    with serve(orders.asgi) as served, served.client() as client:
        for sequence, value, status in sent:
            fields = f"Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: {sequence}\r\n"
            kind = "Content-Type: application/octet-stream\r\nContent-Length: 1\r\nLakelog-Partition: 0\r\n"
            head = f"POST /topics/orders HTTP/1.1\r\nHost: localhost\r\n{kind}{fields}\r\n"
            assert client.ask(head.encode() + value).status == status, sequence
    assert values_of(orders.log, "orders") == [b"a", b"b", b"c", b"d", b"e"]


def test_a_repeat_without_acks_stores_nothing_twice(orders: HttpApp):
    for _ in range(3):
        assert orders.post("/topics/orders?acks=0", json=values(1), headers=stamp(0)).status_code == 202
    assert send(orders, 1, 2).status_code == 200
    assert values_of(orders.log, "orders") == [b"1", b"2"]


def test_a_repeat_of_arrow_is_answered_with_its_ranges(orders: HttpApp):
    sink = pa.BufferOutputStream()
    table = pa.table({"value": [b"a", b"b"], "partition": [1, 1]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"content-type": "application/vnd.apache.arrow.stream", **stamp(0)}
    answers = [
        orders.post("/topics/orders", content=sink.getvalue().to_pybytes(), headers=headers).json() for _ in range(2)
    ]
    ranges = [{"partition": 1, "base_offset": 0, "count": 2}]
    assert answers == [{"ranges": ranges}, {"ranges": ranges, "duplicate": True}]


def test_one_that_is_too_old_to_be_remembered_is_known_to_be_stored(orders: HttpApp):
    for sequence in range(7):
        send(orders, sequence, sequence)
    for sequence in range(2, 7):
        assert send(orders, sequence, sequence).json()["offsets"] == [place(0, sequence)]
    old = orders.post("/topics/orders", json={"records": [{"value": 0, "partition": 0}]}, headers=stamp(0))
    assert old.status_code == 200
    assert old.json() == {
        "offsets": [place(None, None)], "key_schema_id": None, "value_schema_id": None, "duplicate": True,
    }  # fmt: skip
    assert stored(orders) == 7


def test_a_repeat_after_a_restart_is_answered_with_the_first_offsets(http_place: Place):
    for life in range(2):
        with HttpApp(http_place.open()) as app:
            if life == 0:
                app.log.create_topic("orders", 3)
            answer = send(app, 0, "a", "b")
            assert answer.json()["offsets"] == [place(0, 0), place(0, 1)]
            assert answer.json().get("duplicate", False) is (life == 1)
        http_place.close()


def test_other_content_under_the_same_sequence_is_refused(orders: HttpApp):
    send(orders, 0, "a")
    for other in (("b",), ("a", "b")):
        answer = send(orders, 0, *other)
        assert error_code(answer) == (409, 40913)
        assert answer.json()["outcome"] == "not_attempted"
        assert answer.json()["sequence"] == 0
    assert values_of(orders.log, "orders") == [b'"a"']


def test_one_ahead_of_its_predecessors_is_told_what_is_expected(orders: HttpApp):
    assert error_code(send(orders, 3, "x")) == (409, 40911)
    send(orders, 0, "a", "b")
    answer = send(orders, 5, "x")
    assert error_code(answer) == (409, 40911)
    assert (answer.json()["expected"], answer.json()["received"]) == (2, 5)
    assert stored(orders) == 2


def test_one_ahead_of_its_predecessor_waits_for_it(http_place: Place):
    with HttpApp(http_place.open(replace_settings(producer_wait_s=20.0))) as app:
        app.log.create_topic("orders", 3)

        async def overtaking() -> list[httpx.Response]:
            post = app.client.post
            tasks = []
            for sequence in (4, 3, 2, 1, 0):
                tasks.append(
                    asyncio.create_task(post("/topics/orders", json=values(sequence), headers=stamp(sequence)))
                )
                await asyncio.sleep(0.01)
            return await asyncio.gather(*tasks)

        assert [answer.status_code for answer in app.run(overtaking())] == [200] * 5
        assert [record.value for record in everything(app.log, "orders")] == [b"0", b"1", b"2", b"3", b"4"]


def test_one_whose_predecessor_does_not_come_is_refused_when_its_time_is_over(http_place: Place):
    with HttpApp(http_place.open(replace_settings(producer_wait_s=0.05))) as app:
        app.log.create_topic("orders", 3)
        answer = send(app, 1, "x")
        assert error_code(answer) == (409, 40911)
        assert (answer.json()["expected"], answer.json()["received"]) == (0, 1)
        assert send(app, 0, "a").status_code == 200


def test_an_old_epoch_is_told_the_present_one(orders: HttpApp):
    send(orders, 0, "a", epoch=2)
    answer = send(orders, 1, "b", epoch=1)
    assert error_code(answer) == (409, 40912)
    assert (answer.json()["current"], answer.json()["received"]) == (2, 1)
    assert send(orders, 0, "c", epoch=3).status_code == 200
    assert error_code(send(orders, 1, "b", epoch=2)) == (409, 40912)


def test_an_epoch_that_was_bumped_shuts_out_the_one_before(orders: HttpApp):
    for epoch in (0, 1):
        answer = orders.post("/producers", json={"transactional_id": "p"})
        assert answer.json()["producer_epoch" if "producer_epoch" in answer.json() else "epoch"] == epoch
        assert send(orders, 0, epoch, epoch=epoch).status_code == 200
    assert error_code(send(orders, 1, "x", epoch=0)) == (409, 40912)


@pytest.mark.parametrize("left_out", ["producer-id", "producer-epoch", "producer-seq"])
def test_a_stamp_is_whole_or_not_there(orders: HttpApp, left_out: str):
    headers = stamp(0)
    del headers[left_out]
    answer = orders.post("/topics/orders", json=values(1), headers=headers)
    assert error_code(answer) == (422, 422)
    assert left_out in answer.json()["message"].lower()
    assert stored(orders) == 0


def test_a_stamp_that_is_given_twice_is_refused(orders: HttpApp):
    twice = [("content-type", "application/json"), *stamp(0).items(), ("producer-seq", "1")]
    answer = orders.post("/topics/orders", content=json.dumps(values(1)), headers=twice)
    assert error_code(answer) == (400, 400)
    assert stored(orders) == 0


@pytest.mark.parametrize(
    "headers",
    [
        stamp(-1), stamp("+1"), stamp("01"), stamp("1.0"), stamp(""), stamp("x"), stamp(2**63), stamp("9" * 40),
        stamp(2**63 - 1), stamp(0, -1), stamp(0, 2**31), stamp(0, ""), stamp(0, 0, ""), stamp(0, 0, "x" * 256),
        stamp(0, 0, "a\tb"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("acks", ["0", "all"])
def test_a_stamp_that_cannot_be_one_is_refused(orders: HttpApp, headers: dict[str, str], acks: str):
    answer = orders.post(f"/topics/orders?acks={acks}", json=values(1), headers=headers)
    assert error_code(answer) == (422, 422)
    assert stored(orders) == 0


@pytest.mark.parametrize("name", [b"\xff", "e\u0301".encode()])
def test_a_producer_id_is_utf_8_in_normal_form(orders: HttpApp, name: bytes):
    headers = [(b"producer-id", name), (b"producer-epoch", b"0"), (b"producer-seq", b"0")]
    assert error_code(orders.post("/topics/orders", json=values(1), headers=headers)) == (422, 422)
    fine = [(b"producer-id", "é".encode()), *headers[1:]]
    assert orders.post("/topics/orders", json=values(1), headers=fine).status_code == 200


def test_sequences_are_64_bits_long(orders: HttpApp):
    assert error_code(send(orders, 2**63 - 3, "x")) == (409, 40911)


def test_a_request_whose_time_was_over_can_be_repeated_safely(http_place: Place):
    with HttpApp(http_place.open()) as app:
        app.log.create_topic("orders", 3)
        send(app, 0, "a")
        with HeldWriter(app), app.hurried(50):
            assert error_code(send(app, 1, "b")) == (504, 50401)
        assert send(app, 1, "b").json()["offsets"] == [place(0, 1)]
        assert values_of(app.log, "orders") == [b'"a"', b'"b"']


@pytest.mark.parametrize("made_up", [2**31 - 1, 2**31 - 2, 5])
def test_an_epoch_that_somebody_makes_up_shuts_its_owner_out_of_nothing(orders: HttpApp, made_up: int):
    orders.log.create_topic("other")
    assert send(orders, 0, "a", epoch=3).status_code == 200
    for sequence in (0, 1):
        answer = orders.post("/topics/other", json=values("x"), headers=stamp(sequence, made_up))
        assert error_code(answer) == (409, 40919)
        assert (answer.json()["current"], answer.json()["received"]) == (3, made_up)
    assert stored(orders) == 1
    assert orders.log.offsets("other", 0).end_offset == 0
    assert send(orders, 1, "b", epoch=3).status_code == 200
    assert orders.post("/producers", json={"transactional_id": "p"}).json()["epoch"] == 4
    assert orders.post("/transactions", json={"transactional_id": "p"}).json()["epoch"] == 5


def test_an_id_that_is_not_known_begins_in_no_epoch_that_it_could_not_have_counted_to(orders: HttpApp):
    answer = send(orders, 0, "a", epoch=32_768)
    assert error_code(answer) == (409, 40919)
    assert answer.json()["current"] == -1
    assert send(orders, 0, "a", epoch=32_767).status_code == 200
    assert send(orders, 0, "b", epoch=32_768).status_code == 200
