"""A consumer for tests, as a process: it prints what it reads, and dies of the value `2`, by the way it is told.

arguments: the kind of consumer, its settings as JSON, a topic, and how it dies
"""

import json
import os
import signal
import sys

from tests.support.consumer_kinds import KINDS


def main(kind: str, settings: str, topic: str, way: str) -> None:
    with KINDS[kind](json.loads(settings)) as consumer:
        consumer.subscribe([topic])
        last = None
        while last != "5":
            for record in consumer.poll(1.0):
                last = record.value.decode()
                if last == "2":
                    die(way)
                sys.stdout.write(f"{last}\n")
                sys.stdout.flush()


def die(way: str) -> None:
    if way == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "exit":
        os._exit(3)
    raise ZeroDivisionError


if __name__ == "__main__":
    main(*sys.argv[1:])
