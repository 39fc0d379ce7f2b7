"""Answers that do not arrive are given again, and nothing of them is committed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.asgi_call import AsgiCall, soon
from tests.support.consuming import ARROW, JSON, NDJSON, Consumer, at, consumer, make, put
from tests.support.http_app import HttpApp
from tests.support.reading import nothing_is_left, waiters

ZERO = ("orders", 0)
PARTITIONS, EACH = 8, 400
WHOLE = [(partition, offset) for partition in range(PARTITIONS) for offset in range(EACH)]
EVERY = [("orders", partition) for partition in range(PARTITIONS)]
ALL = "/records?timeout=0&max_bytes=10000000"


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    make(app, "orders")
    return app


@pytest.fixture
def many(app: HttpApp) -> HttpApp:
    """So many records that an answer with them comes in pieces, in every format."""
    make(app, "orders", PARTITIONS)
    for partition in range(PARTITIONS):
        put(app, "orders", partition, *range(EACH))
    return app


@asynccontextmanager
async def asked(ann: Consumer, path: str, **headers: str) -> AsyncIterator[AsgiCall]:
    async with AsgiCall(ann.app.asgi, "GET", ann.path + path, headers=headers) as call:
        yield call


def given(records: list[Any]) -> list[tuple[int, int]]:
    return sorted((each["partition"], each["offset"]) for each in records)


def number(answer: Any) -> str:
    return answer.headers["lakelog-answer"]


# --- the server sees it


@pytest.mark.parametrize("accept", [JSON, NDJSON, ARROW])
def test_a_stream_that_is_broken_off_in_the_middle_is_given_again_from_its_beginning(many: HttpApp, accept: str):
    ann = consumer(many, "ann", "orders", auto_commit_enable=True, auto_commit_interval_ms=0)

    async def breaking_off() -> None:
        async with asked(ann, ALL, accept=accept) as call:
            assert (await call.head())[0] == 200
            assert await call.piece()
            assert await call.piece()
            assert many.tier.read_room.held > 0
            call.leave()
            await call.ended()
        await nothing_is_left(many)

    many.run(breaking_off())
    again = ann.poll(ALL.removeprefix("/records"))
    assert given(again.json()) == WHOLE
    assert number(again) == "2"
    assert ann.committed(*EVERY) == [-1] * PARTITIONS


def test_a_stream_whose_client_leaves_before_its_first_piece_is_given_again(many: HttpApp):
    ann = consumer(many, "ann", "orders")

    async def leaving() -> None:
        async with asked(ann, ALL) as call:
            await soon(lambda: call.pieces_made)
            call.leave()
            await call.ended()
        await nothing_is_left(many)

    many.run(leaving())
    assert given(ann.poll(ALL.removeprefix("/records")).json()) == WHOLE


def test_a_stream_that_is_cancelled_is_given_again(many: HttpApp):
    ann = consumer(many, "ann", "orders")

    async def cancelling() -> None:
        call = AsgiCall(many.asgi, "GET", ann.path + ALL)
        await call.__aenter__()
        await call.piece()
        call.task.cancel()
        await asyncio.wait({call.task})
        await nothing_is_left(many)

    many.run(cancelling())
    assert given(ann.poll(ALL.removeprefix("/records")).json()) == WHOLE


def test_what_comes_as_the_client_leaves_is_given_to_its_next_poll(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", auto_commit_enable=True, auto_commit_interval_ms=0)

    async def leaving() -> None:
        async with asked(ann, "/records?timeout=60000") as call:
            await soon(lambda: waiters(orders) == 1)
            put(orders, "orders", 0, 1, 2)
            call.leave()
            await call.ended()
        await nothing_is_left(orders)

    orders.run(leaving())
    assert ann.values() == [1, 2]
    assert ann.committed(ZERO) == [-1]
    assert orders.tier.watch.topics["orders"].records_out == 2


def test_who_polls_again_while_an_answer_is_on_its_way_does_not_wait_for_that_one(many: HttpApp):
    """Its connection is broken, and nobody has told us yet."""
    ann = consumer(many, "ann", "orders", auto_commit_enable=True, auto_commit_interval_ms=0)

    async def polling_twice() -> list[Any]:
        async with asked(ann, ALL) as first:
            await first.piece()
            async with asked(ann, ALL) as second:
                found = json.loads(await second.body())
            first.leave()
            await first.ended()
        await nothing_is_left(many)
        return found

    assert given(many.run(polling_twice())) == WHOLE
    assert ann.committed(*EVERY) == [-1] * PARTITIONS
    assert ann.values() == []
    assert ann.committed(*EVERY) == [EACH] * PARTITIONS


def test_who_says_that_the_answer_on_its_way_arrived_is_taken_at_its_word(many: HttpApp):
    ann = consumer(many, "ann", "orders")

    async def polling_twice() -> list[Any]:
        async with asked(ann, ALL) as first:
            await first.piece()
            given = (await first.head())[1]["lakelog-answer"]
            async with asked(ann, ALL, **{"lakelog-received": given}) as second:
                found = json.loads(await second.body())
            await first.body()
        return found

    assert many.run(polling_twice()) == []


# --- the client says it


def test_an_answer_that_the_client_did_not_receive_is_given_again(orders: HttpApp):
    put(orders, "orders", 0, 1, 2)
    ann = consumer(orders, "ann", "orders")
    first = ann.poll("?timeout=0&max_records=1")
    received = {"lakelog-received": number(first)}
    lost = ann.poll(headers=received)
    again = ann.poll(headers=received)
    assert [each["value"] for each in (*lost.json(), *again.json())] == [2, 2]
    assert (number(first), number(lost), number(again)) == ("1", "2", "3")
    assert ann.poll(headers={"lakelog-received": number(again)}).json() == []


def test_nothing_of_an_answer_that_was_not_received_is_committed(orders: HttpApp):
    put(orders, "orders", 0, 1, 2, 3)
    ann = consumer(orders, "ann", "orders", auto_commit_enable=True, auto_commit_interval_ms=0)
    ann.says = {"lakelog-received": number(ann.poll("?timeout=0&max_records=1"))}
    ann.poll("?timeout=0&max_records=1")
    assert ann.commit().status_code == 204
    assert ann.committed(ZERO) == [1]
    assert [each["value"] for each in ann.poll().json()] == [2, 3]
    assert ann.delete().status_code == 204
    assert consumer(orders, "bob", "orders").values() == [2, 3]


def test_who_never_says_what_it_received_is_trusted(orders: HttpApp):
    put(orders, "orders", 0, 1, 2)
    ann = consumer(orders, "ann", "orders")
    assert ann.values("?timeout=0&max_records=1") + ann.values("?timeout=0&max_records=1") == [1, 2]
    assert ann.commit().status_code == 204
    assert ann.committed(ZERO) == [2]


def test_a_seek_of_who_did_not_receive_the_last_answer_moves_only_what_it_names(orders: HttpApp):
    make(orders, "other")
    put(orders, "orders", 0, 1, 2)
    put(orders, "other", 0, 7)
    ann = consumer(orders, "ann", "orders", "other")
    ann.says = {"lakelog-received": "0"}
    assert ann.values() == [1, 2, 7]
    assert ann.post("/positions", json={"offsets": [at(*ZERO, offset=1)]}).status_code == 204
    ann.says = {}
    assert sorted(ann.values()) == [2, 7]
