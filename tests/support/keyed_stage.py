"""A topic with `cleanup.policy=compact` on a server that goes on writing, and what must be left of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delta_log.maintenance.compaction.passes import Marks
from delta_log.maintenance.jobs_api import Maintenance
from lakelog import Producer
from tests.support.job_stage import PARTITIONS, TOPIC, Held, Writer, create
from tests.support.serving import DEADLINE_S, Server

KEYS = 25
COMPACT = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}


def create_compacted(server: Server, topic: str = TOPIC, **configs: object) -> None:
    create(server, topic, **(COMPACT | configs))


class KeyedWriter(Writer):
    """Every record has one of a few keys, and every fifth takes its key away; `keys` has the keys of what was acked."""

    def __init__(self, topic: str = TOPIC) -> None:
        super().__init__(topic)
        self.keys: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
        self._random = random.Random(7)

    def put(self, url: str, rounds: int) -> None:
        """So many times some records to each partition, each acknowledged."""
        with Producer({"bootstrap.servers": url, "linger.ms": 0}) as producer:
            for _ in range(rounds):
                self._put(producer)

    def _put(self, producer: Producer) -> None:
        sent: list[tuple[bytes, bytes | None, Any]] = []
        for partition in self.acked:
            for _ in range(5):
                key = b"%d" % self._random.randrange(KEYS)
                value = None if self._random.randrange(5) == 0 else self._value()
                sent.append((key, value, producer.send(self.topic, value, key=key, partition=partition)))
        producer.flush()
        for key, value, future in sent:
            at = future.result(DEADLINE_S)
            self.keys[at.partition][at.offset] = key
            self.acked[at.partition][at.offset] = value


def marks(root: Path, topic: str = TOPIC) -> list[Marks]:
    snapshot = Maintenance.open(root).topic(topic).ground.table.snapshot
    return [Marks.of(snapshot, partition) for partition in range(PARTITIONS)]


def check_compacted(held: Held, writer: KeyedWriter, clean: Mapping[int, int]) -> None:
    """Below `clean` the last record of each key, above it every record, each at its offset, and nothing else.

    Tombstones are there as well, as no test takes as long as they stay.
    """
    for partition, rows in held.items():
        latest = {key: at for at, key in sorted(writer.keys[partition].items()) if at < clean[partition]}
        stays = {*latest.values(), *(at for at in writer.acked[partition] if at >= clean[partition])}
        assert rows == [(at, value) for at, value in sorted(writer.acked[partition].items()) if at in stays]


def check_compacted_so_far(held: Held, writer: KeyedWriter) -> None:
    """While it goes on: whoever reads now ends with what the last record of each key says that is there."""
    for partition, rows in held.items():
        known, keys = dict(writer.acked[partition]), dict(writer.keys[partition])
        end = max((at for at, _ in rows), default=-1)
        assert [at for at, _ in rows] == sorted({at for at, _ in rows})
        assert all(known.get(at, value) == value for at, value in rows)
        latest = {key: at for at, key in sorted(keys.items()) if at <= end}
        assert set(latest.values()) <= {at for at, _ in rows}
