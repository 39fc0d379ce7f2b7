"""Producers that send transaction after transaction, and tell a ledger what they were told of each.

Each brings numbered values to two topics, so that one is told from another; some are aborted by their own program.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from lakelog import LakelogError
from tests.support.client_kinds import KINDS, Kind
from tests.support.http_ledger import Broken, Held, HttpLedger, Place, Sent
from tests.support.serving import DEADLINE_S

TOPICS = {"t": 3, "u": 3}


class GivenUp(Exception):
    """By the program that sends, in the middle of a transaction."""


def _give_up() -> None:
    raise GivenUp


class Sending:
    """`tried` has what each transaction was to bring to each topic. A ledger takes the part of one for a request."""

    def __init__(self, kind: str, settings: Mapping[str, object]) -> None:
        self.ledger = HttpLedger()
        self.told: Counter[str] = Counter()
        self.tried: list[list[Sent]] = []
        self._kind = kind
        self._settings = settings
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failed: list[BaseException] = []

    def start(self, names: list[str], seed: object) -> None:
        for name in names:
            chance = random.Random(f"{seed} {name}")
            self._threads.append(threading.Thread(target=self._live, args=(name, chance), daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        if self._failed:
            raise self._failed[0]

    @property
    def committed(self) -> int:
        assert not self._failed, self._failed
        return self.told["committed"]

    def open(self, name: str) -> Kind:
        return KINDS[self._kind](dict(self._settings) | {"transactional.id": name}, None)

    def send(
        self, producer: Kind, name: str, chance: random.Random, *, then: Callable[[], object] | None = None
    ) -> str:
        """One transaction: what was told of it. `then` is called when all of it is with the server."""
        sent, futures = self._next(name, chance), dict[str, list[Any]]()
        if then is None and chance.random() < 0.1:
            then = _give_up
        try:
            with producer.transaction():
                for each in sent:
                    futures[each.topic] = [
                        producer.send(each.topic, value, key=b"%d" % chance.randrange(6)) for value in each.values
                    ]
                if then is not None or chance.random() < 0.5:
                    producer.flush()
                if then is not None:
                    then()
        except GivenUp:
            told = "given up"
        except LakelogError as error:
            told = "unknown" if error.outcome == "unknown" else "aborted"
        else:
            told = "committed"
        self._tell(sent, futures, told)
        return told

    def check(self, held: Held) -> None:
        """What was told of each is so, in every topic alike."""
        self.ledger.check(held, killed=False)
        there = {topic: {value for at, rows in held.items() if at[0] == topic for _, value in rows} for topic in TOPICS}
        for sent in self.tried:
            parts = {each.topic: each.values[0] in there[each.topic] for each in sent}
            if len(set(parts.values())) > 1:
                raise Broken(f"a transaction of {sent[0].by} is there by halves: {parts}")

    def _live(self, name: str, chance: random.Random) -> None:
        producer = self.open(name)
        try:
            while not self._stopped.is_set():
                self.send(producer, name, chance)
        except BaseException as error:  # noqa: BLE001 - whoever stops it is told
            self._failed.append(error)
        finally:
            producer.end()

    def _next(self, name: str, chance: random.Random) -> list[Sent]:
        with self._lock:
            sent = [
                self.ledger.sending(name, topic, [b"%d" % next(self._numbers) for _ in range(chance.randint(1, 8))])
                for topic in TOPICS
            ]
            self.tried.append(sent)
        return sent

    def _tell(self, sent: list[Sent], futures: Mapping[str, list[Any]], told: str) -> None:
        for each in sent:
            if told == "committed":
                known = [future.result(DEADLINE_S) for future in futures[each.topic]]
                places = [Place(one.partition, one.offset) for one in known if one.offset is not None]
                if len(places) == len(known):
                    self.ledger.answered(each, places)
                else:  # it is committed, and where was not told: the answer to its records was lost
                    self.ledger.accepted(each)
            elif told != "unknown":
                self.ledger.refused(each)
        with self._lock:
            self.told[told] += 1
