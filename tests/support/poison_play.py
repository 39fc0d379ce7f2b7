"""Consumers whose callers die of some records, again and again, against the model server: until there is nothing left.

The laws: every record that kills becomes a letter, so all others come to somebody; and whatever becomes a letter was in
the hands of somebody who died, alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from consumer_groups.model.assignment import TopicPartition
from lakelog.consume.shapes import ConsumerRecord
from tests.support.consumer_play import Play, Reader

Spot = tuple[TopicPartition, int]
_STEPS = 40_000
#: So many records a caller handles before he commits; None: he never does.
COMMITS: dict[str, int | None] = {"each poll": 1, "now and then": 7, "never": None, "by itself": None}


class Victim(Reader):
    """It stops at the first record that kills; what is behind that in its hands it never handles."""

    play: PoisonPlay
    struck = False
    handled = 0

    def _handed(self, records: list[ConsumerRecord]) -> None:
        super()._handed(records)
        for record in records:
            spot = TopicPartition(record.topic, record.partition), record.offset
            if spot in self.play.poison:
                self.struck = True
                return
            self.play.handled.add(spot)
            self.handled += 1

    @property
    def hand(self) -> set[Spot]:
        """What it was given and did not come back from."""
        return {(partition, offset) for partition, _, offset in self.play.not_done[self]}


class PoisonPlay(Play):
    def __init__(self, chance: random.Random, commits: str, attempts: int, *, deploys: int = 0) -> None:
        super().__init__(chance, partitions=chance.choice((1, 2)), hostile=False, patient=False)
        self.server.most = chance.choice((1, 3, 4, 100))
        spots = [(each, offset) for each, known in self.server.ends.items() for offset in range(known.end_offset)]
        self.poison = set(chance.sample(spots, chance.choice((1, 1, 2, 3))))
        self.innocents = set(spots) - self.poison
        self.handled: set[Spot] = set()
        self.hands: list[set[Spot]] = []
        self._deploys, self._exact = deploys, not deploys
        self._commits = COMMITS[commits]
        self._settings = {"max.delivery.attempts": attempts, "enable.auto.commit": commits == "by itself"}
        #: so that what a caller committed tells what he is done with
        self.sought = True

    def open(self) -> Reader:
        reader = Victim(self, f"reader{next(self.names)}-", **self._settings)
        self.readers.append(reader)
        return reader

    def run(self) -> None:
        for _ in range(_STEPS):
            if self._is_over():
                break
            self._strike()
            self._go_on()
        assert self._is_over(), "what kills becomes a letter, and all else comes to somebody"
        self._check_letters()

    def _is_over(self) -> bool:
        letters = set(self.server.letters)
        return self.poison <= letters and self.innocents <= self.handled | letters

    def _check_letters(self) -> None:
        assert len(self.server.letters) == len(set(self.server.letters)), "a letter is written once"
        for spot in self.server.letters:
            assert any(hand <= {spot} for hand in self.hands), f"{spot} was never alone with somebody who died"
        if self._exact:
            assert set(self.server.letters) == self.poison, "an innocent was given up"

    def _strike(self) -> None:
        """Whoever holds what kills dies; and now and then somebody else does."""
        able = [each for each in self.able_readers() if isinstance(each, Victim) and not each.closing]
        for reader in able:
            if reader.struck and not reader.calling:
                self._die(reader)
            elif self._deploys and self.chance.random() < 0.01:
                self._deploys -= 1
                self._die(reader)
        if self.chance.random() < 0.002:
            self.server.restart()
        if not any(not each.closing for each in self.able_readers()) or (
            self.chance.random() < 0.01 and len(self.able_readers()) < 2
        ):
            self.open()

    def _die(self, reader: Victim) -> None:
        self.hands.append(reader.hand)
        way = "kill" if reader.calling else self.chance.choice(("kill", "fail", "hang"))
        if way == "kill":
            self.kill(reader)
            return
        self.not_done[reader].clear()
        reader.closing = True
        if way == "fail":  # else its lanes go on without it
            reader.call(reader.calls.close(None, commit=False, failing=True), self._closed(reader))

    def _closed(self, reader: Victim) -> Callable[[object], None]:
        def end(_: object) -> None:
            reader.closed = True

        return end

    def _go_on(self) -> None:
        for reader in self.idle_readers():
            assert isinstance(reader, Victim)
            if reader.struck or reader.closing:
                continue
            if self._commits is not None and reader.handled >= self._commits:
                reader.handled = 0
                reader.commit()
            else:
                reader.poll(self.chance.choice((0.0, 0.05, 1.0)))
        if not self.act():
            self.idle()
