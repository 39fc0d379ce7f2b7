"""`lakelog consume`: writes the records of topics to standard output, by hand or as a member of a group.

Records are written before they are committed. Ctrl-C ends it cleanly: it commits what was written and leaves the group,
and the exit code shows the interrupt.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from lakelog.cli.consume.plan import Aim, Begin, Misuse, decide_begin
from lakelog.cli.kit.arguments import add_server, moment_ms, name_and_value, positive, separator, whole
from lakelog.cli.kit.clients import open_admin, open_consumer, reading_by_hand
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, DONE, INTERRUPTED, Failure
from lakelog.cli.kit.stop_signals import Interrupts, noticing

if TYPE_CHECKING:
    from lakelog.admin import Admin
    from lakelog.cli.consume.output import Take
    from lakelog.consumer import Consumer
    from lakelog.foundation.topic_partition import TopicPartition

#: After this many polls without a record, check whether the server is alive.
_QUIET: Final = 8
#: After this many polls without a partition, other members may have all of them.
_JOINING: Final = 24
#: Limits of the last commit; and of the last commit and the leaving after an interrupt.
_LAST_S: Final = 5.0
_SOON_S: Final = 1.0
_OFFSET: Final = re.compile(r"earliest|latest|[0-9]{1,18}")
_EXAMPLES: Final = """
examples:
  lakelog consume orders                               all that there is
  lakelog consume orders --follow                      what comes from now on
  lakelog consume orders --group billing --max 100     the next hundred of a group
  lakelog consume orders --partition 0 --offset 1000 --output json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Write the records of topics to standard output: all that there are by now, or with --follow also what comes."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="which ones")
    begin = parser.add_argument_group("where to begin (default: the beginning; with --follow the end)")
    begin.add_argument(
        "--group", metavar="GROUP", help="read on where this group is, as a member of it, and commit what was written"
    )
    begin.add_argument(
        "--from-beginning",
        action="store_true",
        help="begin at the first record: the default but with --follow, which begins at the end",
    )
    begin.add_argument(
        "--offset", type=_offset, metavar="N", help="begin at this offset of one partition; or earliest, latest of all"
    )
    begin.add_argument(
        "--timestamp",
        type=moment_ms,
        metavar="TIME",
        help="begin at the first record at or after a time, as 2026-01-31T12:00:00Z, or in milliseconds since 1970",
    )
    begin.add_argument(
        "--partition", type=whole, metavar="N", action="append",
        help="read this partition; may be given many times (default: all)",
    )  # fmt: skip
    end = parser.add_argument_group("when to end (default: behind the last record that there is at the start)")
    end.add_argument("--follow", action="store_true", help="wait for more, until Ctrl-C")
    end.add_argument("--max", type=positive, metavar="N", help="end after so many records")
    end.add_argument("--timeout", type=positive, metavar="SECONDS", help="end when no record came for so long")
    form = parser.add_argument_group("how to show them")
    form.add_argument(
        "--output", choices=("text", "json", "table"), default="text",
        help="values as they are, a line each; an object a line; or a table, which has an end (default text)",
    )  # fmt: skip
    form.add_argument("--key-separator", type=separator, metavar="TEXT", help="of text: the key and this come first")
    form.add_argument("--headers", action="store_true", help="of text: headers come first, as `produce` reads them")
    parser.add_argument(
        "--property", type=name_and_value, metavar="NAME=VALUE", action="append", default=[],
        help="a setting of the Python Consumer, as fetch.max.bytes=65536; may be given many times",
    )  # fmt: skip
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.cli.consume.output import taking
    from lakelog.foundation.topic_partition import TopicPartition

    if args.output == "table" and args.follow:
        raise Failure("a table has an end", "leave --follow out, or choose another --output", exit_code=CALLED_WRONGLY)
    if args.group is not None and args.partition:
        why = "a group gives its members their partitions"
        raise Failure(why, "leave --partition or --group out", exit_code=CALLED_WRONGLY)
    with open_admin(args.server) as admin:
        counts = {topic: admin.describe_topic(topic).partitions for topic in dict.fromkeys(args.topics)}
        places = [
            TopicPartition(topic, number)
            for topic, count in counts.items()
            for number in (dict.fromkeys(args.partition) if args.partition else range(count))
        ]
        if args.group is None:
            _check(places, counts)
        begin = _begin(args, len(places))
        with noticing() as interrupts, _opened(args) as consumer:
            try:
                interrupts.ask(partial(_start, consumer, admin, args, begin, places))
                with taking(args) as take:
                    code = _read(consumer, admin, args, take, interrupts)
                if args.group is not None and consumer.assignment():
                    consumer.commit(timeout=_LAST_S if code == DONE else _SOON_S)
            finally:
                if interrupts.seen:
                    consumer.close(_SOON_S)
            return code


def _check(places: Iterable[TopicPartition], counts: dict[str, int]) -> None:
    from lakelog.foundation.errors import UnknownPartition

    for topic, number in places:
        if number >= counts[topic]:
            raise UnknownPartition(f"{topic} has no partition {number}: it has 0 to {counts[topic] - 1}")


def _begin(args: argparse.Namespace, partitions: int) -> Begin:
    try:
        return decide_begin(
            group=args.group, beginning=args.from_beginning, follow=args.follow, timestamp=args.timestamp,
            offset=args.offset, partitions=partitions,
        )  # fmt: skip
    except Misuse as error:
        raise Failure(str(error), exit_code=CALLED_WRONGLY) from None


def _opened(args: argparse.Namespace) -> AbstractContextManager[Consumer]:
    given = dict(args.property)
    if args.group is None:
        return reading_by_hand(args.server, given)
    # A table is written at the end, so its records are committed only then.
    return open_consumer(args.server, {"group.id": args.group, "enable.auto.commit": args.output != "table", **given})


def _start(
    consumer: Consumer, admin: Admin, args: argparse.Namespace, begin: Begin, places: list[TopicPartition]
) -> None:
    if begin.kind == "group":
        consumer.subscribe(list(dict.fromkeys(args.topics)))
        return
    consumer.assign(places)
    match begin.kind:
        case "beginning":
            consumer.seek_to_beginning()
        case "end":
            consumer.seek_to_end()
        case "time":
            consumer.seek_to_time(begin.at)
        case _:
            # Checked here: an offset outside the log is an error here, while a poll would reset it.
            (place,) = places
            known = admin.offsets(*place)
            if not known.beginning_offset <= begin.at <= known.end_offset:
                from lakelog.foundation.errors import OffsetOutOfRange

                raise OffsetOutOfRange(
                    f"{place} has offsets {known.beginning_offset} to {known.end_offset}, not {begin.at}"
                )
            consumer.seek(place, begin.at)


def _read(consumer: Consumer, admin: Admin, args: argparse.Namespace, take: Take, interrupts: Interrupts) -> int:
    """Poll until the aim is reached. Polls are short, for a quick end; each writes its records before the next."""
    aim, watch = Aim(args.max, follow=args.follow), _Watch(admin, args, interrupts)
    while not interrupts.seen:
        came = take(consumer, aim)
        interrupts.ask(partial(_learn, consumer, aim, quiet=not came))
        if interrupts.seen:
            break
        if aim.reached and (consumer.assignment() or _others_read(consumer, watch.quiet)):
            return DONE
        if watch.over(came):
            return DONE
    return INTERRUPTED


def _others_read(consumer: Consumer, quiet: int) -> bool:
    return quiet >= _JOINING and consumer.group_metadata().generation >= 0


def _learn(consumer: Consumer, aim: Aim, *, quiet: bool) -> None:
    assigned = consumer.assignment()
    if unknown := aim.unknown(assigned):
        aim.learn_ends(consumer.end_offsets(unknown))
        for place, offset in consumer.beginning_offsets(unknown).items():
            aim.learn_position(place, offset)
    if quiet:
        # Behind the last record there may be offsets without records.
        for place in aim.behind:
            aim.learn_position(place, consumer.position(place))


class _Watch:
    """Checks while no records arrive: whether the server is alive, and the timeout."""

    def __init__(self, admin: Admin, args: argparse.Namespace, interrupts: Interrupts) -> None:
        self._admin, self._args, self._interrupts = admin, args, interrupts
        self._last_at = monotonic()
        self._told = False
        self.quiet = 0

    def over(self, came: bool) -> bool:  # noqa: FBT001 - its only argument
        if came:
            self.quiet, self._last_at = 0, monotonic()
            return False
        self.quiet += 1
        if self.quiet % _QUIET == 0:
            self._interrupts.ask(self._look)
        return self._args.timeout is not None and monotonic() - self._last_at >= self._args.timeout

    def _look(self) -> None:
        """Check the server; with --follow, report its absence and wait for it to come back."""
        from lakelog.foundation.errors import LakelogError

        try:
            for topic in self._args.topics:
                self._admin.describe_topic(topic)
            self._told = False
        except LakelogError as error:
            if not self._args.follow or not error.retriable:
                raise
            if not self._told:
                print(f"lakelog consume: {error}; it is waited for", file=sys.stderr)
            self._told = True


def _offset(text: str) -> str:
    if not _OFFSET.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no offset: give a whole number, earliest or latest")
    return text
