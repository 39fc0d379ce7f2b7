"""Exactly once into a database: the offset is stored with the output, in one transaction of the database.

    python offset_with_output.py orders totals totals.db one

The database says where to go on; the group shares the partitions out. A crash takes the output and the offset back
together. A consumer that lost a partition without knowing it finds that the offset is no longer where it left it, and
changes nothing.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Sequence
from itertools import groupby

from lakelog import Consumer, ConsumerRecord, TopicPartition

TABLES = """
CREATE TABLE IF NOT EXISTS orders (line TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition)
);
"""


class Output:
    """What was made of the records, and how far that is."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._database.executescript(TABLES)

    def next_offset(self, partition: TopicPartition) -> int | None:
        sought = self._database.execute(
            "SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?", (partition.topic, partition.partition)
        )
        found = sought.fetchone()
        return None if found is None else found[0]

    def store(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> bool:
        """The output of these records and where to go on, or, if somebody else went on meanwhile, nothing."""
        self._database.execute("BEGIN IMMEDIATE")
        if self.next_offset(partition) not in (None, records[0].offset):
            self._database.execute("ROLLBACK")
            return False
        for record in records:
            self._database.execute("INSERT INTO orders VALUES (?)", ((record.value or b"").decode(),))
        self._database.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", (*partition, records[-1].offset + 1))
        self._database.execute("COMMIT")
        return True


def main(topic: str, group: str, output: str, instance: str) -> None:
    settings = {
        "bootstrap.servers": os.environ.get("LAKELOG_SERVER", "http://127.0.0.1:8082"),
        "group.id": group,
        "group.instance.id": instance,  # restarted under its name it goes on at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    stored = Output(output)
    with Consumer(settings) as consumer:

        def go_on(partitions: Sequence[TopicPartition]) -> None:
            for partition in partitions:
                offset = stored.next_offset(partition)
                if offset is not None:
                    consumer.seek(partition, offset)

        consumer.subscribe([topic], on_assign=go_on)
        while True:
            records = consumer.poll(1.0)
            for (name, number), its in groupby(records, key=lambda record: (record.topic, record.partition)):
                partition = TopicPartition(name, number)
                if not stored.store(partition, list(its)):
                    go_on([partition])
            consumer.commit()  # only so that the lag can be seen: the database is what counts


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
