"""At least once: process, then commit. What a crash interrupts is processed again, and nothing is ever lost.

    python at_least_once.py orders billing billed.txt one

For what must happen and may happen twice: an upsert, a file that is written again, anything idempotent.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lakelog import Consumer


def main(topic: str, group: str, output: str, instance: str) -> None:
    settings = {
        "bootstrap.servers": os.environ.get("LAKELOG_SERVER", "http://127.0.0.1:8082"),
        "group.id": group,
        "group.instance.id": instance,  # restarted under its name it goes on at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with Consumer(settings) as consumer, Path(output).open("ab", buffering=0) as processed:
        consumer.subscribe([topic])
        while True:
            for record in consumer.poll(1.0):
                processed.write((record.value or b"") + b"\n")
            os.fsync(processed.fileno())
            consumer.commit()  # last: until here, whoever reads next is given these records again


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
