"""At most once: commit, then process. What a crash interrupts is lost, and nothing is ever processed twice.

    python at_most_once.py orders mailer sent.txt one

For what must not happen twice and may fail to happen: a notification, a sample, a metric.
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
            records = consumer.poll(1.0)
            consumer.commit()  # first: whatever happens from here on, nobody is given these records again
            for record in records:
                processed.write((record.value or b"") + b"\n")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
