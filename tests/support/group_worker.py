"""A member of a group in a process of its own, that writes down what it was given and what became of its commits.

    python group_worker.py KIND URL GROUP NAME TOPIC OUTPUT SESSION_MS REBALANCE_MS SLOW_MS

KIND is `rest`, plain requests as any client of a REST proxy makes them, or `client`, our own Consumer. SIGTERM ends it
cleanly: what it was given is committed, and it leaves. Its lines are

    given PARTITION OFFSET VALUE
    committed PARTITION NEXT …      by one commit, as pairs
    refused CODE                    of a commit
    left                            the last one of a clean end
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import httpx

from lakelog import Consumer, LakelogError, TopicPartition
from lakelog.foundation.errors import Fenced

POLL_MS: Final = 500
PAUSE_S: Final = 0.02
GONE: Final = 404
FENCED: Final = 409


class Given(NamedTuple):
    partition: int
    offset: int
    value: str


class Lines:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, *words: object) -> None:
        """One write a line: a kill leaves no half of it."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def took(self, given: Iterable[Given]) -> dict[int, int]:
        """Where the partitions go on behind these."""
        following: dict[int, int] = {}
        for each in given:
            self.add("given", *each)
            following[each.partition] = each.offset + 1
        return following

    def committed(self, following: dict[int, int]) -> None:
        self.add("committed", *(word for pair in following.items() for word in pair))


class Rest:
    """Joins again whenever it is told that it is no member; a broken request is made again."""

    def __init__(self, url: str, group: str, name: str, topic: str, session_ms: int, rebalance_ms: int) -> None:
        self._client = httpx.Client(base_url=url, timeout=5, headers={"content-type": "application/vnd.kafka.v2+json"})
        self._group, self._name, self._topic = group, name, topic
        self._session_ms, self._rebalance_ms = session_ms, rebalance_ms
        self._path = f"/consumers/{group}/instances/{name}"
        self._generation = self._answer = 0
        self._joined = False

    def poll(self) -> list[Given]:
        if not self._joined:
            self._join()
        accept = {"accept": "application/vnd.kafka.binary.v2+json"}
        received = {"lakelog-received": str(self._answer)}
        answer = self._ask("GET", f"{self._path}/records?timeout={POLL_MS}&max_records=5000", headers=accept | received)
        if answer.status_code == GONE:
            self._joined = False
            return []
        answer.raise_for_status()
        self._generation = int(answer.headers["lakelog-generation"])
        self._answer = int(answer.headers["lakelog-answer"])
        return [
            Given(each["partition"], each["offset"], base64.b64decode(each["value"]).decode()) for each in answer.json()
        ]

    def commit(self, following: dict[int, int], lines: Lines) -> None:
        offsets = [
            {"topic": self._topic, "partition": partition, "next_offset": offset}
            for partition, offset in following.items()
        ]
        generation = {"lakelog-generation": str(self._generation)}
        answer = self._ask("POST", f"{self._path}/offsets", json={"offsets": offsets}, headers=generation)
        if answer.status_code in (GONE, FENCED):
            lines.add("refused", answer.json()["error_code"])
            self._joined = self._joined and answer.status_code != GONE
            return
        answer.raise_for_status()
        lines.committed(following)

    def leave(self) -> None:
        self._ask("DELETE", self._path)
        self._client.close()

    def _join(self) -> None:
        options = {
            "name": self._name,
            "auto.offset.reset": "earliest",
            "auto.commit.enable": "false",
            "session.timeout.ms": str(self._session_ms),
            "rebalance.timeout.ms": str(self._rebalance_ms),
        }
        answer = self._ask("POST", f"/consumers/{self._group}", json=options)
        if answer.status_code != FENCED:  # by its own first attempt
            answer.raise_for_status()
        answer = self._ask("POST", f"{self._path}/subscription", json={"topics": [self._topic]})
        self._joined, self._answer = answer.status_code != GONE, 0

    def _ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = self._client.request(method, path, **given)
                if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                    return answer
            time.sleep(PAUSE_S)


class Client:
    """Our own Consumer."""

    def __init__(self, url: str, group: str, name: str, topic: str, session_ms: int, rebalance_ms: int) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": url,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": session_ms,
                "rebalance.timeout.ms": rebalance_ms,
                "heartbeat.interval.ms": session_ms // 5,
                "max.poll.records": 5_000,
                "default.api.timeout.ms": 30_000,
                "retry.backoff.ms": 10,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Given]:
        return [
            Given(record.partition, record.offset, (record.value or b"").decode())
            for record in self._consumer.poll(POLL_MS / 1000)
        ]

    def commit(self, following: dict[int, int], lines: Lines) -> None:
        try:
            self._consumer.commit({TopicPartition(self._topic, partition): at for partition, at in following.items()})
        except Fenced as error:
            lines.add("refused", type(error).__name__)
        else:
            lines.committed(following)

    def leave(self) -> None:
        self._consumer.close()


KINDS: Final = {"rest": Rest, "client": Client}


def main(kind: str, url: str, group: str, name: str, topic: str, output: str, *numbers: str) -> None:
    session_ms, rebalance_ms, slow_ms = map(int, numbers)
    lines, stopping = Lines(output), list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    member = KINDS[kind](url, group, name, topic, session_ms, rebalance_ms)
    while not stopping:
        try:
            following = lines.took(member.poll())
            time.sleep(slow_ms / 1000 if following else 0)
            if following:
                member.commit(following, lines)
        except LakelogError as error:
            if not getattr(error, "retriable", False):
                raise
    member.leave()
    lines.add("left")


if __name__ == "__main__":
    main(*sys.argv[1:])
