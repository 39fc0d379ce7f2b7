"""Transactions are refused in their turn at the journal, again and again, and nobody else hears of it."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.support.serving import serving, wait_for

STREAM = {"content-type": "application/octet-stream"}
#: Each takes whatever is on its way behind it with it.
REFUSALS = 30
MOVED = [{"topic": "t", "partition": 0, "next_offset": 1}]


class Crowd:
    """Threads that do something again and again, and what they were told."""

    def __init__(self) -> None:
        self.told: dict[str, Counter[tuple[int, str]]] = {}
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, name: str, do: Callable[[], httpx.Response]) -> None:
        told = self.told.setdefault(name, Counter())

        def work() -> None:
            while not self._over.is_set():
                answer = do()
                told[answer.status_code, "" if answer.is_success else answer.text] += 1

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def move(client: httpx.Client, name: str, group: str, topic: str = "t") -> httpx.Response:
    """A whole transaction. A topic other than t is deleted before the end of it."""
    begun = client.post("/transactions", json={"transactional_id": name}).raise_for_status().json()["id"]
    client.put(f"/topics/{topic}").raise_for_status()
    headers = STREAM | {"Transaction-Id": begun}
    client.post(f"/topics/{topic}", content=b"one", headers=headers).raise_for_status()
    moved = {"group": group, "offsets": MOVED}
    client.post(f"/transactions/{begun}/offsets", json=moved).raise_for_status()
    if topic != "t":
        client.delete(f"/topics/{topic}").raise_for_status()
    return client.post(f"/transactions/{begun}/commit")


def test_a_transaction_that_is_refused_takes_nobody_else_with_it(tmp_path: Path):
    with serving(tmp_path) as server, ExitStack() as closing:
        client = closing.enter_context(httpx.Client(base_url=server.url))
        client.put("/topics/t").raise_for_status()
        client.post("/topics/t", content=b"one", headers=STREAM).raise_for_status()
        client.put("/groups/theirs/offsets", json={"offsets": MOVED}).raise_for_status()
        crowd, numbers = Crowd(), itertools.count()
        closing.callback(crowd.end)
        for name in ("mine", "yours"):
            crowd.add("transactions", lambda name=name: move(client, name, f"of-{name}"))
        for group in ("plain", "other", "third"):
            path = f"/groups/{group}/offsets"
            crowd.add("commits", lambda path=path: client.put(path, json={"offsets": MOVED}))
        crowd.add("looks", lambda: client.get("/groups/theirs/offsets"))
        crowd.add("refused", lambda: move(client, "refused", "theirs", f"gone-{next(numbers)}"))
        refused = crowd.told["refused"]
        wait_for(lambda: refused.total() >= REFUSALS, "transactions that are refused")
        crowd.end()
    assert {status for status, _ in refused} == {404}
    assert {name: [text for _, text in told if text] for name, told in crowd.told.items() if name != "refused"} == {
        "transactions": [],
        "commits": [],
        "looks": [],
    }
