"""A producer's deciding part, a model server and a network between them that does whatever a test chooses.

A request may be delivered at any time, also long after its sender gave it up, or never; an answer may be lost; a server
may say no, refuse a record, or forget everybody. The laws, checked at every step and at the end of a play:

- each record is resolved; what is said to be stored is there, at its place; what is said not to be stored is not there
  and never comes; nothing is there twice;
- a topic's records are in the order in which they were sent, those of unknown outcome too;
- callers hear of a topic's batches in their order; bounds are kept, and no memory is held at the end.

Without idempotence repeats may be stored twice and out of order, but everybody is still told the truth.
"""

from __future__ import annotations

import itertools
from typing import Literal

from lakelog.foundation.errors import Closed, InvalidRecord, LakelogError, NotAvailable, OutcomeUnknown, UnknownTopic
from lakelog.produce.batch import Batch, RecordMetadata
from lakelog.produce.outbox import Attempt, Outbox
from lakelog.produce.rows import Row
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.verdict import Later, Refused, Skipped, TooLarge, Unknown, Verdict
from tests.support.client_model import BAD, ModelServer

#: One topic more often than the other, so that more happens in one lane.
TOPICS = ("a", "a", "a", "b")
Refusal = Literal["later", "closed", "absent", "too large", "bad", "unreachable"]
REFUSALS: tuple[Refusal, ...] = ("later", "later", "closed", "absent", "too large", "bad", "unreachable")
PAUSES_S = (0.02, 0.15, 0.15, 1.1, 9.0, 12.0, 31.0)
_MEMORY = 2_000
_RECORD = 100


class Play:
    """Choices of what is under way are numbers, taken modulo how much there is."""

    def __init__(self, *, idempotent: bool, linger_ms: int, batch_size: int, in_flight: int, retries: int) -> None:
        given = {
            "bootstrap.servers": "model:1",
            "linger.ms": linger_ms,
            "batch.size": batch_size,
            "max.in.flight.requests.per.connection": in_flight,
            "retries": retries,
            "delivery.timeout.ms": 20_000,
            "buffer.memory": _MEMORY,
            "enable.idempotence": idempotent,
        }
        ids = itertools.count()
        self.outbox = Outbox(
            ProducerSettings.of(given), new_batch=Batch, new_id=lambda: f"producer {next(ids)}", chance=lambda: 0.5
        )
        self.server = ModelServer()
        self.now = 100.0
        self._idempotent = idempotent
        self._most_in_flight = in_flight
        self._numbers = itertools.count()
        #: Of each record that was sent: its topic, its batch and its index there.
        self._sent: dict[bytes, tuple[str, Batch, int]] = {}
        self.under_way: list[Attempt] = []
        #: Requests that may still reach the server, whether their sender waits or not.
        self.on_the_network: list[Attempt] = []
        self._heard: list[Batch] = []

    def send(self, topic: str, count: int, bad: int) -> None:
        for index in range(count):
            value = (BAD if bad == index else b"") + b"%d" % next(self._numbers)
            batch = self.outbox.add(topic, Row(value), _RECORD, self.now)
            if batch is not None:
                self._sent[value] = (topic, batch, len(batch.rows) - 1)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def act(self, most: int) -> None:
        """The producer does what there is to do."""
        for _ in range(most):
            step = self.outbox.next(self.now)
            if isinstance(step, Attempt):
                self.under_way.append(step)
                self.on_the_network.append(step)
        self._hear()

    def answer(self, number: int) -> None:
        if self.under_way:
            attempt = self.under_way[number % len(self.under_way)]
            if attempt in self.on_the_network:
                self._tell(attempt, self._deliver(attempt))

    def lose(self, number: int, *, delivered: bool) -> None:
        """The client hears nothing; the request came through, or may still."""
        if self.under_way:
            attempt = self.under_way[number % len(self.under_way)]
            if delivered and attempt in self.on_the_network:
                self._deliver(attempt)
            self._tell(attempt, Unknown(OutcomeUnknown("storing", "cut"), 0.0))

    def refuse(self, number: int, what: Refusal) -> None:
        """Without a look at it."""
        attempt = self.under_way[number % len(self.under_way)] if self.under_way else None
        if attempt not in self.on_the_network:
            return
        self.on_the_network.remove(attempt)
        match what:
            case "closed":
                self._tell(attempt, Refused(NotAvailable("closed", retriable=False), {}))
            case "absent":
                self._tell(attempt, Refused(UnknownTopic("absent"), {}))
            case "bad":
                error = InvalidRecord(attempt.topic, "the topic's rules were changed")
                self._tell(attempt, Refused(error, {0: error}))
            case "too large":
                self._tell(attempt, TooLarge(UnknownTopic("too large")))
            case _:
                self._tell(attempt, Later(NotAvailable(what), 0.5))

    def arrive_late(self, number: int) -> None:
        """Something that nobody waits for any more."""
        given_up = [attempt for attempt in self.on_the_network if attempt not in self.under_way]
        if given_up:
            self._deliver(given_up[number % len(given_up)])

    def make_anew(self, topic: str) -> None:
        """Everything that was there is gone, and so is what the server knew of its producers."""
        self.server.make_anew(topic)

    def end(self, *, cut_short: bool = False) -> None:
        """The network is sound until everything is decided, or the producer is closed at once; then the laws."""
        if cut_short:
            self.outbox.abort(Closed())
        self._finish()
        while self.on_the_network:
            self._deliver(self.on_the_network[0])
        assert self.outbox.held == 0
        self._check_end()

    def check(self) -> None:
        """What holds at every moment."""
        assert self.outbox.in_flight == len(self.under_way) <= self._most_in_flight
        assert 0 <= self.outbox.held <= _MEMORY
        if self._idempotent:
            for log in self.server.logs.values():
                assert len(set(log)) == len(log), "something is stored twice"

    def _finish(self) -> None:
        self._hear()
        self.outbox.flush()
        while self.outbox.outstanding:
            step = self.outbox.next(self.now)
            if isinstance(step, Attempt):
                self.under_way.append(step)
                self._tell(step, self.server.receive(step))
            elif self.under_way:
                attempt = self.under_way[0]
                if attempt in self.on_the_network:
                    self._tell(attempt, self._deliver(attempt))
                else:
                    self._tell(attempt, Unknown(OutcomeUnknown("storing", "cut"), 0.0))
            else:
                self._hear()
                self.now = max(self.now + 0.001, step or 0.0)

    def _deliver(self, attempt: Attempt) -> Verdict:
        self.on_the_network.remove(attempt)
        return self.server.receive(attempt)

    def _tell(self, attempt: Attempt, verdict: Verdict) -> None:
        self.under_way.remove(attempt)
        if isinstance(verdict, Skipped) and attempt.stamp is not None:
            self.server.hand_out_before(attempt.stamp)
        self.outbox.told(attempt, verdict, self.now)
        self._hear()

    def _hear(self) -> None:
        while self.outbox.decided:
            batch = self.outbox.decided.popleft()
            self._heard.append(batch)
            self.outbox.announced(batch)

    def _check_end(self) -> None:
        for topic in TOPICS:
            numbers = [batch.number for batch in self._heard if batch.topic == topic]
            assert numbers == sorted(numbers), "somebody heard of a later batch first"
        for value, (topic, batch, index) in self._sent.items():
            assert batch.settled, f"{value!r} is not resolved"
            self._check_outcome(value, self.server.logs.get(topic, []), batch.outcome(index))
        for log in self.server.logs.values() if self._idempotent else ():
            assert len(set(log)) == len(log), "something is stored twice"
            stored = [int(value.removeprefix(BAD)) for value in log]
            assert stored == sorted(stored), "the order of sending is broken"

    def _check_outcome(self, value: bytes, log: list[bytes], outcome: RecordMetadata | LakelogError) -> None:
        stored = value in log or value in self.server.gone
        if isinstance(outcome, RecordMetadata):
            assert stored, f"{value!r} is lost"
            at = outcome.offset
            placed = at is None or log[at : at + 1] == [value] or value in self.server.gone
            assert placed, f"{value!r} is not where it is said to be"
        elif outcome.outcome == "not_attempted":
            assert not stored, f"{value!r} is stored, and was said not to be"
