"""Exactly once from topic to topic: what was made of records, and how far the group is, in one transaction.

    python exactly_once_loop.py orders bills billing one

As many of these as there are partitions may share the work, each under a name of its own. Whatever dies, of them or
of the server, and whenever: each record of the first topic has one in the second, and the order of a key stays.
"""

from __future__ import annotations

import os
import sys
import time

from lakelog import Consumer, LakelogError, Producer
from lakelog.foundation import errors

#: What another transaction may do better. Beginning anew reads on behind what is committed.
ANEW = (errors.NotAvailable, errors.OutcomeUnknown, errors.TransactionError, errors.CommitFailed)


def copy(source: str, target: str, group: str, instance: str) -> None:
    server = {"bootstrap.servers": os.environ.get("LAKELOG_SERVER", "http://127.0.0.1:8082")}
    reading = {
        "group.id": group,
        "group.instance.id": instance,  # restarted under its name it goes on at once
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.delivery.attempts": -1,  # however often processes die of something else, no record is a dead letter
    }
    writing = {"transactional.id": f"{group}-{instance}"}
    with Consumer(server | reading) as consumer, Producer(server | writing) as producer:
        consumer.subscribe([source])
        while True:
            records = consumer.poll(1.0)
            if not records:
                continue
            with producer.transaction() as transaction:
                for record in records:
                    producer.send(target, b"bill of " + record.value, key=record.key)
                transaction.send_offsets(consumer)


def main(source: str, target: str, group: str, instance: str) -> None:
    while True:
        try:
            copy(source, target, group, instance)
        except errors.TransactionFenced:  # another process has our name: it is not for us to go on
            raise
        except ANEW as error:
            report(error)
            time.sleep(0.1)


def report(error: LakelogError) -> None:
    print(f"begins anew: {error}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
