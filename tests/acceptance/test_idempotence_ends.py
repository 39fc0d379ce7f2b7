"""What becomes of producers that were silent for long, in a server that runs; and ids that are handed out but once."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakelog import AsyncProducer, Producer, RecordMetadata
from lakelog.foundation.errors import OutcomeUnknown
from tests.support.cutting_proxy import CuttingProxy
from tests.support.in_time import in_time
from tests.support.numbered import Numbered
from tests.support.serving import DEADLINE_S, Server, serving, wait_for

EXPIRATION = {"producer.id.expiration.ms": 1000}
#: Where what follows must come before it is over; what did not is done anew.
LONGER = {"producer.id.expiration.ms": 3000}
IN_TIME_S = 2.5


def remembered(server: Server) -> int:
    """How many producers the server knows."""
    (line,) = (
        line for line in httpx.get(f"{server.url}/metrics").text.splitlines() if line.startswith("lakelog_producers ")
    )
    return int(float(line.split()[1]))


def wait_until_forgotten(server: Server) -> None:
    wait_for(lambda: not remembered(server), "that the server forgets who is silent")


@contextmanager
def forgetful_server(root: Path, expiration: dict[str, int] = EXPIRATION) -> Generator[Server]:
    with serving(root, **expiration) as server:
        httpx.put(f"{server.url}/topics/orders").raise_for_status()
        yield server


def values_in(server: Server) -> list[int]:
    text = httpx.get(f"{server.url}/topics/orders/partitions/0/records?decode=json").text
    return [int(line.partition('"value":')[2].partition(",")[0]) for line in text.splitlines()]


def bump(client: httpx.Client, name: str) -> int:
    answer = client.post("/producers", json={"transactional_id": name})
    answer.raise_for_status()
    return answer.json()["epoch"]


def epoch_of(server: Server) -> int:
    """The next one of a name."""
    with httpx.Client(base_url=server.url) as client:
        return bump(client, "named")


def test_who_was_silent_for_long_is_unknown_to_the_running_server_and_begins_anew(tmp_path: Path):

    def begin(turn: int) -> Numbered:
        wait_until_forgotten(server)
        producer = Numbered("orders", f"p{turn}", epoch=3)
        producer.send(server.url)
        producer.check_repeats(server.url)
        assert [epoch_of(server) for _ in range(2)] == [0, 1]
        assert remembered(server) == 2
        return producer

    with forgetful_server(tmp_path, LONGER) as server:
        producer = in_time(IN_TIME_S, begin)
        wait_until_forgotten(server)
        with pytest.raises(AssertionError, match='"expected":0,"received":2'):
            producer.send(server.url)
        Numbered("orders", producer.name, epoch=0).send(server.url)  # an unknown one may begin in any epoch
        assert epoch_of(server) == 0
        held = values_in(server)
        assert held[-4:] == [0, 1, 0, 1]
        server.kill()
    with serving(tmp_path, **LONGER) as server:
        assert values_in(server) == held


def sends_by_thread(settings: dict[str, Any], server: Server) -> list[RecordMetadata]:
    """Records before and after the server has forgotten their producer, twice."""
    found: list[RecordMetadata] = []
    with Producer(settings) as producer:
        for number in range(6):
            if number in (2, 4):
                wait_until_forgotten(server)
            found.append(producer.send("orders", b"%d" % number).result(DEADLINE_S))
    return found


def sends_by_task(settings: dict[str, Any], server: Server) -> list[RecordMetadata]:
    async def send_all() -> list[RecordMetadata]:
        found: list[RecordMetadata] = []
        async with AsyncProducer(settings) as producer:
            for number in range(6):
                if number in (2, 4):
                    await asyncio.to_thread(wait_until_forgotten, server)
                found.append(await (await producer.send("orders", b"%d" % number)))
        return found

    return asyncio.run(send_all())


@pytest.mark.parametrize("sends", [sends_by_thread, sends_by_task])
def test_a_client_that_was_forgotten_goes_on_by_itself(tmp_path: Path, sends: Any):
    with forgetful_server(tmp_path) as server:
        places = sends({"bootstrap.servers": server.url}, server)
        assert [place.offset for place in places] == list(range(6))
        assert values_in(server) == list(range(6))


def test_what_is_in_doubt_when_its_producer_is_forgotten_is_said_to_be_unknown(tmp_path: Path):
    """And is not sent anew, as it is stored; what follows is."""
    with forgetful_server(tmp_path, LONGER) as server, CuttingProxy(random.Random(1)) as proxy:
        proxy.target = server.address

        def lose_an_answer(producer: Producer) -> tuple[int, Any]:
            """Where the next record is, and what is told of it."""
            proxy.trouble = {}
            before = producer.send("orders", b"0").result(DEADLINE_S).offset
            assert before is not None
            proxy.trouble = {"lose the answer": 1.0}
            doubtful = producer.send("orders", b"1")
            wait_for(lambda: values_in(server)[-2:] == [0, 1], "a record of which nothing is told", IN_TIME_S)
            return before + 1, doubtful

        with Producer({"bootstrap.servers": proxy.url, "retry.backoff.ms": 5}) as producer:
            at, doubtful = in_time(IN_TIME_S, lambda _: lose_an_answer(producer))
            wait_until_forgotten(server)
            proxy.trouble = {}
            with pytest.raises(OutcomeUnknown):
                doubtful.result(DEADLINE_S)
            assert producer.send("orders", b"2").result(DEADLINE_S).offset == at + 1
        assert values_in(server)[-3:] == [0, 1, 2]


def test_ids_are_handed_out_once_over_kills_amid_it_and_to_several_callers(tmp_path: Path):
    """Named ones only rise, whoever asks; those without a name are nobody else's."""
    epochs: list[int] = []
    fresh: list[str] = []
    lives: list[tuple[int, int]] = []

    def ask(url: str, stopped: threading.Event) -> None:
        with httpx.Client(base_url=url, timeout=DEADLINE_S) as client:
            for turn in itertools.count():
                try:
                    if turn % 4:
                        epochs.append(bump(client, "named"))
                    else:
                        fresh.append(client.post("/producers").json()["producer_id"])
                except httpx.TransportError:
                    stopped.wait(DEADLINE_S)
                if stopped.is_set():
                    return

    for life in range(3):
        with serving(tmp_path) as server, ThreadPoolExecutor(2) as callers:
            stopped, before = threading.Event(), len(epochs)
            asking = [callers.submit(ask, server.url, stopped) for _ in range(2)]
            try:
                wait_for(lambda before=before: len(epochs) >= before + 60, "epochs")
                if life < 2:
                    server.kill()
            finally:
                stopped.set()
            for each in asking:
                each.result(DEADLINE_S)
            lives.append((min(epochs[before:]), max(epochs[before:])))
    assert len(set(epochs)) == len(epochs)
    assert len(set(fresh)) == len(fresh) > 0
    assert all(ended[1] < begun[0] for ended, begun in itertools.pairwise(lives))
