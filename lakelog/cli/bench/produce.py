"""`lakelog bench produce`: sends records as fast as it can, or at a rate, and reports how long they took."""

from __future__ import annotations

import argparse
import os
import sys
from array import array
from collections import deque
from collections.abc import Callable
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Final

from lakelog.cli.bench.figures import say_figures, sum_up
from lakelog.cli.kit.arguments import add_output, add_server, name_and_value, positive
from lakelog.cli.kit.clients import CLIENT_ID, open_admin
from lakelog.cli.kit.delivery import LOOK_MS, Watch, deliver
from lakelog.cli.kit.exit_codes import Failure, done_in_part
from lakelog.cli.kit.output import write_thing
from lakelog.cli.kit.progress import Progress

if TYPE_CHECKING:
    from lakelog.foundation.errors import LakelogError
    from lakelog.produce.batch import RecordMetadata
    from lakelog.producer import Producer

_MANY: Final = 100_000
_SIZE: Final = 100
#: Number of different values.
_VALUES: Final = 1_000
#: How long an interrupted run waits for records in flight.
_LAST_S: Final = 1.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send random records to a topic, and say how many a second and how long each took until it was durable. They "
        "stay in the topic."
    )
    parser.add_argument("topic", metavar="TOPIC", help="which one; it must be there")
    parser.add_argument(
        "--records", type=positive, metavar="N", default=_MANY, help=f"how many records (default {_MANY})"
    )
    parser.add_argument(
        "--record-size", type=positive, metavar="BYTES", default=_SIZE, help=f"bytes of a value (default {_SIZE})"
    )
    parser.add_argument(
        "--throughput",
        type=positive,
        metavar="N",
        help="so many records a second at most (default: as many as can be; latencies are those of a full queue then)",
    )
    parser.add_argument(
        "--property", type=name_and_value, metavar="NAME=VALUE", action="append", default=[],
        help="a setting of the Python Producer, as linger.ms=5; may be given many times",
    )  # fmt: skip
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        admin.describe_topic(args.topic)
    latencies, seconds = _send(args)
    figures = sum_up("a record", len(latencies), len(latencies) * args.record_size, seconds, latencies)
    if args.output == "json":
        write_thing("json", {"topic": args.topic, **figures}, sys.stdout)
    else:
        print(say_figures("sent", figures))
    return 0


def _send(args: argparse.Namespace) -> tuple[array[float], float]:
    from lakelog.foundation.errors import LakelogError
    from lakelog.producer import Producer

    progress, heard = Progress(args.records * args.record_size, sys.stderr), _Heard()
    watch = Watch("lakelog bench produce", args.server, args.topic, quiet=args.output == "json")

    def look() -> None:
        watch.look(heard.told, heard.told + len(heard.sent))

    settings = {"bootstrap.servers": args.server, "client.id": CLIENT_ID, "max.block.ms": LOOK_MS}
    producer = Producer(settings | dict(args.property))
    begun = perf_counter()
    try:
        _send_all(args, producer, heard, progress, look)
        deliver(producer, look)
        producer.close()
        seconds = perf_counter() - begun
    except KeyboardInterrupt:
        producer.close(_LAST_S)
        raise
    except LakelogError as error:
        # The server is gone: give up the records in flight.
        producer.close(0)
        heard.refused = heard.refused or error
        raise heard.failure(error) from error
    finally:
        producer.close(0)
        progress.end()
    if heard.refused is not None:
        raise heard.failure(heard.refused)
    return heard.latencies, seconds


def _send_all(
    args: argparse.Namespace, producer: Producer, heard: _Heard, progress: Progress, look: Callable[[], None]
) -> None:
    from lakelog.foundation.errors import BufferFull

    values = [os.urandom(args.record_size) for _ in range(min(_VALUES, args.records))]
    own_patience = any(name == "max.block.ms" for name, _ in args.property)
    begun, number = perf_counter(), 0
    while number < args.records and heard.refused is None:
        if args.throughput is not None:
            sleep(max(0.0, begun + number / args.throughput - perf_counter()))
            look()
        heard.sent.append(perf_counter())
        try:
            producer.send(args.topic, values[number % len(values)], on_delivery=heard)
        except BufferFull:
            heard.sent.pop()
            if own_patience:
                raise
            look()
            continue
        number += 1
        progress.tell(number * args.record_size, number)


class _Heard:
    """Delivery callback that measures latencies; it is called in the order of sending."""

    def __init__(self) -> None:
        self.sent: deque[float] = deque()
        self.told = 0
        self.latencies: array[float] = array("d")
        self.refused: LakelogError | None = None
        self._in_doubt = False

    def __call__(self, error: LakelogError | None, _: RecordMetadata | None) -> None:
        began = self.sent.popleft()
        self.told += 1
        if error is None:
            self.latencies.append(perf_counter() - began)
            return
        self.refused = self.refused or error
        self._in_doubt = self._in_doubt or error.outcome == "unknown"

    def failure(self, error: LakelogError) -> Failure | LakelogError:
        """The error, with the number of stored records if any may be stored."""
        stored, sent = len(self.latencies), self.told + len(self.sent)
        if not stored and not self._in_doubt:
            return error
        return done_in_part(error, f"{stored:,} of the {sent:,} records that were sent are stored for certain")
