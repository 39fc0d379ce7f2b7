"""Partition counts of topics, for producers with a partitioner of their own. Pure: requests are yielded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lakelog.foundation.errors import InvalidRecord, LakelogError, OutcomeUnknown
from lakelog.foundation.names import check_topic
from lakelog.foundation.partitioners import partitioner_of
from lakelog.produce.rows import Row, check_partition
from lakelog.produce.settings import ProducerSettings
from lakelog.transport.exchange import Request
from lakelog.transport.retry import Asking, Patience, Question, Rejected, ask

Choose = Callable[[str, bytes | None, int], Any]


class Partitions:
    """Chooses the partition of a row; caches partition counts for `metadata.max.age.ms`."""

    def __init__(self, settings: ProducerSettings, choose: Choose) -> None:
        self._choose = choose
        self._known: dict[str, tuple[int, float]] = {}
        self._age_s = settings.metadata_max_age_ms / 1000
        self._patience = Patience(
            settings.bootstrap_servers,
            settings.max_block_ms / 1000,
            settings.request_timeout_ms / 1000,
            settings.retries,
            settings.backoff,
        )

    def place(self, topic: str, row: Row, now: float) -> bool:
        """Set the partition of a row; False if `learn` must be called first."""
        known = self._known.get(topic)
        if known is None or known[1] <= now:
            return False
        self.place_anyhow(topic, row)
        return True

    def place_anyhow(self, topic: str, row: Row) -> None:
        """Set the partition of a row by the cached count, however old it is."""
        known = self._known[topic]
        partition = self._choose(topic, row.key, known[0])
        if partition is not None:
            check_partition(topic, partition)
            if partition >= known[0]:
                raise InvalidRecord(topic, f"the partitioner chose {partition}, and there are {known[0]} partitions")
            row.partition = partition

    def learn(self, topic: str, now: float) -> Asking[None]:
        """Fetch the partition count of a topic; without an answer, go on with the old count if there is one."""
        check_topic(topic)
        what = f"asking for the partitions of {topic}"
        try:
            answer, _ = yield from ask(Question(what, Request("GET", f"/topics/{topic}/partitions")), self._patience)
            count = len(msgspec.json.decode(answer.body, type=list[Any]))
        except Rejected as declined:
            raise declined.fault.error from None
        except msgspec.MsgspecError as error:
            raise OutcomeUnknown(what, f"the answer cannot be read: {error}") from None
        except LakelogError:
            if topic not in self._known:
                raise
            count = self._known[topic][0]
        self._known[topic] = (count, now + self._age_s)


def partitions_of(settings: ProducerSettings) -> Partitions | None:
    """Partition chooser of a producer; None if the server chooses."""
    if settings.partitioner == "server":
        return None
    choose = settings.partitioner
    return Partitions(settings, partitioner_of(choose) if isinstance(choose, str) else choose)
