"""A producer's deciding part on a desk: a test adds, takes, tells, and sets the time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from lakelog.foundation.errors import LakelogError
from lakelog.produce.batch import Batch, Place, RecordMetadata
from lakelog.produce.outbox import Attempt, Outbox
from lakelog.produce.rows import Row
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.verdict import Stored, Verdict

Sent = tuple[Batch, int]


class Desk:
    """Waits between attempts are of no chance: exactly what the settings say."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        ids = itertools.count()
        self.settings = ProducerSettings.of({"bootstrap.servers": "desk:1"} | dict(settings or {}))
        self.outbox = Outbox(self.settings, new_batch=Batch, new_id=lambda: f"producer {next(ids)}", chance=lambda: 0.5)
        self.now = 1_000.0
        self.heard: list[Batch] = []

    def add(self, topic: str, *values: bytes, size: int = 100, timestamp: int | None = None) -> Sent:
        """The last one of them."""
        batch = None
        for value in values:
            batch = self.outbox.add(topic, Row(value, timestamp=timestamp), size, self.now)
            assert batch is not None, "there is no room"
        assert batch is not None
        return batch, len(batch.rows) - 1

    def try_add(self, topic: str, value: bytes, size: int) -> bool:
        return self.outbox.add(topic, Row(value), size, self.now) is not None

    def next(self) -> Attempt | float | None:
        return self.outbox.next(self.now)

    def take(self) -> Attempt:
        step = self.next()
        assert isinstance(step, Attempt), f"there is nothing to send before {step}"
        return step

    def take_all(self) -> list[Attempt]:
        return list(itertools.takewhile(lambda step: isinstance(step, Attempt), iter(self.next, object())))  # type: ignore[arg-type]

    def tell(self, attempt: Attempt, verdict: Verdict) -> None:
        self.outbox.told(attempt, verdict, self.now)
        self.hear()

    def store(self, attempt: Attempt, *, base: int = 0) -> None:
        self.tell(attempt, Stored([Place(0, base + index) for index in range(len(attempt.payload.rows))]))

    def hear(self) -> None:
        while self.outbox.decided:
            batch = self.outbox.decided.popleft()
            self.heard.append(batch)
            self.outbox.announced(batch)

    def outcome(self, sent: Sent) -> RecordMetadata | LakelogError:
        batch, index = sent
        assert batch.settled, "it is not decided"
        return batch.outcome(index)

    def error(self, sent: Sent) -> LakelogError:
        outcome = self.outcome(sent)
        assert isinstance(outcome, LakelogError), outcome
        return outcome

    def deadline(self, attempt: Attempt) -> float:
        return attempt.unit.batch.born + self.settings.delivery_timeout_ms / 1000

    @staticmethod
    def values(attempt: Attempt) -> list[bytes | None]:
        return [row.value for row in attempt.payload.rows]
