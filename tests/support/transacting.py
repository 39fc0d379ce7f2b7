"""Transactions over HTTP on a server that dies at a step of one: what is there then is all of it, or nothing.

Each moves a group's offset and brings a numbered record to every partition of two topics, beside records of nobody's
transaction. `Story` outlives the servers; `check` compares all that can be seen with what was answered.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.http_ledger import Broken, read_lines
from tests.support.serving import Server

TOPICS, SOURCE, GROUP = {"t": 2, "u": 1}, "s", "g"
PLACES = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]
STREAM = {"content-type": "application/octet-stream"}
#: What may be found of a commit that was not answered, by the step of its death; at another both are right.
CERTAIN = {
    "journal.before_write": "aborted",
    "object.before_put": "aborted",
    "journal.synced": "committed",
    "journal.synced table.file_written": "committed",
    "journal.synced table.committed": "committed",
    "object.put": "committed",
}


@dataclass
class Left:
    """A transaction whose server died. `state` is what it must be, where that is sure; `others` were not committed."""

    begun: dict[str, Any]
    value: bytes
    others: list[dict[str, Any]]
    state: str | None
    answer: dict[str, Any] | None = None


class Story:
    def __init__(self) -> None:
        self.held: dict[tuple[str, int], list[bytes]] = {place: [] for place in PLACES}
        self.moved = 0
        self.decided: dict[str, dict[str, Any]] = {}
        self._count = 0

    def prepare(self, server: Server) -> None:
        for topic, partitions in {**TOPICS, SOURCE: 1}.items():
            asked = {"partitions": partitions, "configs": {"lakelog.commit.interval.ms": 100}}
            httpx.put(f"{server.url}/topics/{topic}", json=asked).raise_for_status()
        lines = {"content-type": "application/x-ndjson"}
        httpx.post(f"{server.url}/topics/{SOURCE}", content=b"1\n" * 100, headers=lines).raise_for_status()

    def die(self, server: Server, file: Path, step: str) -> Left:
        """Up to a death at a step of a commit."""
        left = Left(begin(server), self._next(), [begin(server, name) for name in ("open", "gone")], CERTAIN.get(step))
        for each in (left.begun, *left.others):
            fill(server, each["id"], left.value, self.moved + 1)
        httpx.post(f"{server.url}/transactions/{left.others[1]['id']}/abort").raise_for_status()
        file.write_text(step)
        with contextlib.suppress(httpx.TransportError):
            left.answer = _sure(commit(server, left.begun["id"]))
        assert server.wait() == -signal.SIGKILL, server.story
        file.unlink()
        return left

    def look_back(self, server: Server, left: Left) -> None:
        """On the next server: what became of it is said, and said again, and is what there is."""
        name, answer = left.begun["id"], commit(server, left.begun["id"])
        if left.answer is not None and answer.json() != left.answer:
            raise Broken(f"the commit was told {left.answer}, and later {answer.text}")
        state = "committed" if answer.status_code == 200 else "aborted"
        if left.state not in (None, state):
            raise Broken(f"{name} is {state}, and must be {left.state}")
        if state == "committed":
            self._committed(name, left.value, answer.json())
        elif answer.json()["error_code"] != 40916:
            raise Broken(f"{name} is refused with {answer.text}")
        for each in left.others:
            refused = commit(server, each["id"])
            if refused.json().get("error_code") != 40916:
                raise Broken(f"of one that nobody committed it is said {refused.text}")
        self.check(server)
        self._check_unknown(server, name)
        self._let_a_zombie_try(server, name, state)

    def go_on(self, server: Server) -> None:
        """A record of no transaction, and a whole transaction."""
        plain, value = self._next(), self._next()
        httpx.post(f"{server.url}/topics/u", content=plain, headers=STREAM).raise_for_status()
        self.held["u", 0].append(plain)
        begun = begin(server)
        fill(server, begun["id"], value, self.moved + 1)
        self._committed(begun["id"], value, _sure(commit(server, begun["id"])))
        self.check(server)

    def check(self, server: Server) -> None:
        held = {place: [value for _, value in rows] for place, rows in read_lines(server.url, TOPICS).items()}
        if held != self.held:
            raise Broken(f"what is visible is {held}, and not {self.held}")
        shown = httpx.get(f"{server.url}/groups/{GROUP}/offsets").json().get("offsets", [])
        if [each["next_offset"] for each in shown] != [self.moved] * bool(self.moved):
            raise Broken(f"the group is at {shown}, and not at {self.moved}")
        for name, answer in self.decided.items():
            known = httpx.get(f"{server.url}/transactions/{name}")
            if known.status_code == 200 and known.json() != answer:
                raise Broken(f"of {name} it is said {known.text}, and was said {answer}")

    def _check_unknown(self, server: Server, name: str) -> None:
        """Of an epoch that nobody opened yet."""
        transactional_id, epoch, nonce = name.split(".")
        never = commit(server, f"{transactional_id}.{int(epoch) + 100_000}.{nonce}")
        if never.json().get("error_code") != 40405:
            raise Broken(f"of a transaction that never was it is said {never.text}")

    def _committed(self, name: str, value: bytes, answer: dict[str, Any]) -> None:
        self.moved += 1
        self.decided[name] = answer
        for place in PLACES:
            self.held[place].append(value)
        told = {(each["topic"], at["partition"]): at for each in answer["ranges"] for at in each["ranges"]}
        for place in PLACES:
            if (told[place]["base_offset"], told[place]["count"]) != (len(self.held[place]) - 1, 1):
                raise Broken(f"{name} was told {told[place]} of {place}")

    def _let_a_zombie_try(self, server: Server, name: str, state: str) -> None:
        """Somebody has its name now: it is shut out, and what it had committed stays so."""
        begin(server)
        again = commit(server, name)
        if state == "committed" and again.json() != self.decided[name]:
            raise Broken(f"the commit was told {self.decided[name]}, and later {again.text}")
        if state == "aborted" and again.json().get("error_code") != 40914:
            raise Broken(f"a zombie was told {again.text}")
        self.check(server)

    def _next(self) -> bytes:
        self._count += 1
        return b"%d" % self._count


def begin(server: Server, name: str = "copier", **more: int) -> dict[str, Any]:
    return _sure(httpx.post(f"{server.url}/transactions", json={"transactional_id": name, **more}))


def fill(server: Server, transaction: str, value: bytes, offset: int) -> None:
    for topic, partition in PLACES:
        path, headers = f"/topics/{topic}/partitions/{partition}", STREAM | {"Transaction-Id": transaction}
        answer = httpx.post(f"{server.url}{path}", content=value, headers=headers)
        assert answer.status_code == 202, answer.text
    moved = {"group": GROUP, "offsets": [{"topic": SOURCE, "partition": 0, "next_offset": offset}]}
    httpx.post(f"{server.url}/transactions/{transaction}/offsets", json=moved).raise_for_status()


def commit(server: Server, transaction: str) -> httpx.Response:
    return httpx.post(f"{server.url}/transactions/{transaction}/commit")


def _sure(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return answer.json()
