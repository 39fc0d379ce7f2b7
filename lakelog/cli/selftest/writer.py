"""The process that `lakelog selftest` kills: appends forever and prints each acknowledged record as a JSON line."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading

from delta_log import Log, Record
from lakelog.cli.selftest.command import PARTITIONS, TOPIC


def main(root: str) -> None:
    log = Log.open(root)
    log.create_topic(TOPIC, PARTITIONS)
    writers = [threading.Thread(target=_append, args=(log, number), daemon=True) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def _append(log: Log, number: int) -> None:
    for batch in itertools.count():
        values = [f"writer {number} record {batch}.{place}" for place in range(1 + batch % 7)]
        stored = log.append(TOPIC, [Record(value.encode(), key=f"key-{value}".encode()) for value in values])
        lines = [json.dumps(place) for place in zip(stored.partitions, stored.offsets(), values, strict=True)]
        os.write(sys.stdout.fileno(), "".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    main(sys.argv[1])
