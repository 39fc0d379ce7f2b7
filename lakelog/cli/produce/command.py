"""`lakelog produce`: appends the lines of standard input, or of a file, to a topic, a record each.

Lines are sent as soon as they are read, in order, each record once. `line_blocks` splits the input, `record_lines`
reads a line, and `delivery` checks the server.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from lakelog.cli.kit.arguments import add_output, add_server, name_and_value, separator, whole
from lakelog.cli.kit.clients import CLIENT_ID, open_admin
from lakelog.cli.kit.delivery import LOOK_MS, Watch, deliver
from lakelog.cli.kit.exit_codes import (
    ABSENT,
    CALLED_WRONGLY,
    INTERRUPTED,
    NOTHING_CHANGED,
    UNKNOWN,
    UNUSABLE,
    Failure,
    exit_code_of,
)
from lakelog.cli.kit.line_blocks import read_blocks
from lakelog.cli.kit.output import write_json
from lakelog.cli.kit.progress import Progress, show_rate, show_size
from lakelog.cli.kit.streams import standard_input

if TYPE_CHECKING:
    from io import BufferedIOBase

    from lakelog.cli.kit.record_lines import Line
    from lakelog.foundation.errors import LakelogError
    from lakelog.produce.futures import RecordFuture
    from lakelog.producer import Producer

#: How long an interrupted command waits for records in flight.
_LAST_S: Final = 1.5
_EXAMPLES: Final = """
examples:
  echo hello | lakelog produce greetings
  lakelog produce orders --key-separator : < orders.txt
  lakelog consume orders --output json | lakelog produce copies --format json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Append the lines of standard input, or of a file, to a topic. Bytes are stored as they are."
    parser.epilog = _EXAMPLES
    parser.add_argument("topic", metavar="TOPIC", help="which one")
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="where the lines are (default -, the input)"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text",
        help="what a line is: a value, or a whole record as `consume --output json` writes it (default text)",
    )  # fmt: skip
    parser.add_argument(
        "--key-separator",
        type=separator,
        metavar="TEXT",
        help="of text: a key stands before the first of these; \\t is a tab",
    )
    parser.add_argument(
        "--headers",
        action="store_true",
        help="of text: headers come first, as name:value,name:value, and a tab behind them; without a colon a value "
        "is null",
    )
    parser.add_argument(
        "--partition", type=whole, metavar="N", help="where all records go (default: as their keys say)"
    )
    parser.add_argument(
        "--property", type=name_and_value, metavar="NAME=VALUE", action="append", default=[],
        help="a setting of the Python Producer, as acks=0; may be given many times",
    )  # fmt: skip
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.cli.kit.record_lines import line_reader

    if args.format == "json" and (args.key_separator or args.headers):
        raise Failure("a line of JSON has its own key and headers", "leave the options out", exit_code=CALLED_WRONGLY)
    read = line_reader(args.format, args.key_separator, headers=args.headers)
    if args.file == "-" and standard_input().isatty() and sys.stderr.isatty():
        print("lakelog produce: each line is a record; Ctrl-D ends", file=sys.stderr)
    unknown = _ask(args.server, args.topic)
    with _input(args.file) as given:
        sending = _Sending(args, given)
        if unknown is None:
            sending.send(read)
        elif not sending.try_first(read):
            raise unknown
    sending.report(args.output)
    return 0


def _ask(server: str, topic: str) -> LakelogError | None:
    """Check the topic; returns UnknownTopic if it is missing, as the first record may create it. Else it raises."""
    from lakelog.foundation.errors import UnknownTopic

    with open_admin(server) as admin:
        try:
            admin.describe_topic(topic)
        except UnknownTopic as error:
            return error
    return None


class _Input:
    """Input as blocks of lines. `size`: its bytes, 0 if unknown; `taken`: the bytes read so far.

    While no bytes arrive, an empty block comes at intervals, so that the reader can check the server.
    """

    def __init__(self, stream: BufferedIOBase, size: int) -> None:
        self._read = stream.read1
        self.size, self.taken = size, 0
        self.blocks = read_blocks(self._take)
        try:
            self._waits_for = [stream.fileno()]
        except OSError:  # not a file: reading never blocks
            self._waits_for = []

    def _take(self, most: int) -> bytes | None:
        if self._waits_for and not select.select(self._waits_for, [], [], LOOK_MS / 1000)[0]:
            return None
        content = self._read(most)
        self.taken += len(content)
        return content


@contextlib.contextmanager
def _input(name: str) -> Generator[_Input]:
    if name == "-":
        yield _Input(cast("BufferedIOBase", standard_input().buffer), 0)
        return
    try:
        opened = open(name, "rb")  # noqa: SIM115, PTH123 - only errors of opening are handled here
    except OSError as error:
        why = f"{name} cannot be read: {error.strerror}"
        raise Failure(why, "name a file, or leave it out for standard input", exit_code=CALLED_WRONGLY) from None
    with opened:
        found = os.fstat(opened.fileno())
        yield _Input(opened, found.st_size if stat.S_ISREG(found.st_mode) else 0)


class _Sending:
    """Sends the input, and counts records and their results, in their order."""

    def __init__(self, args: argparse.Namespace, given: _Input) -> None:
        self._args, self._given, self._progress = args, given, Progress(given.size, sys.stderr)
        self._plain = args.format == "text" and args.key_separator is None and not args.headers
        self._watch = Watch("lakelog produce", args.server, args.topic, quiet=args.output == "json")
        self._stored = self._decided = 0
        #: Futures of the records of each block. The last block's are added while it is sent.
        self._waiting: deque[list[RecordFuture]] = deque()
        self._refused: tuple[int, LakelogError] | None = None
        self._in_doubt = False

    @property
    def _sent(self) -> int:
        return self._decided + sum(map(len, self._waiting))

    def try_first(self, read: Callable[[bytes], Line]) -> bool:
        """Send the first line, and the others once it is stored; False if there is no line."""
        blocks = self._given.blocks
        first = next(filter(None, blocks), None)
        if first is None:
            return False

        def rest() -> Iterator[list[bytes]]:
            yield first[:1]
            deliver(self._producer, self._look)
            self._settle()
            if self._refused is not None:
                return
            yield first[1:]
            yield from blocks

        self.send(read, rest())
        return True

    def send(self, read: Callable[[bytes], Line], blocks: Iterator[list[bytes]] | None = None) -> None:
        from lakelog.foundation.errors import LakelogError
        from lakelog.producer import Producer

        args = self._args
        settings = {"bootstrap.servers": args.server, "client.id": CLIENT_ID, "max.block.ms": LOOK_MS}
        self._producer: Producer = Producer(settings | dict(args.property))
        try:
            self._send_all(self._given.blocks if blocks is None else blocks, read)
            deliver(self._producer, self._look)
            self._producer.close()
            self._settle()
        except KeyboardInterrupt:
            self._end_soon()
            raise Failure("interrupted", self._counted(), exit_code=INTERRUPTED) from None
        except LakelogError as error:
            # The server is gone, or sending is impossible: give up the records in flight.
            self._producer.close(0)
            self._settle()
            number = self._refused[0] if self._refused is not None else self._sent + 1
            raise self._failure(number, str(error), exit_code_of(error)) from error
        finally:
            self._producer.close(0)
            self._progress.end()
        if self._refused is not None:
            number, error = self._refused
            if exit_code_of(error) == ABSENT and not (self._stored or self._in_doubt):
                raise error
            raise self._failure(number, str(error), exit_code_of(error)) from error

    def _end_soon(self) -> None:
        """Close after an interrupt, with a short wait that a second Ctrl-C ends."""
        try:
            self._producer.close(_LAST_S)
        except KeyboardInterrupt:
            self._producer.close(0)
        self._settle()

    def _send_all(self, blocks: Iterator[list[bytes]], read: Callable[[bytes], Line]) -> None:
        send_one = self._sender(read)
        for lines in blocks:
            rest = lines
            while rest:
                rest = rest[self._send_some(send_one, rest) :]
            self._look()
            self._progress.tell(self._given.taken, self._sent)
            if self._refused is not None:
                return

    def _send_some(self, send_one: Callable[[bytes], RecordFuture], lines: list[bytes]) -> int:
        """Send lines; returns how many were accepted: fewer if the buffer stays full or partitions are unknown."""
        from lakelog.foundation.errors import NotAvailable, Refused

        begun: list[RecordFuture] = []
        self._waiting.append(begun)
        try:
            # `map`, not a Python loop: that would take a third of the time.
            begun.extend(map(send_one, lines))
        except NotAvailable as error:
            if not error.retriable or any(name == "max.block.ms" for name, _ in self._args.property):
                raise
            self._look(waiting=1)
        except (ValueError, Refused) as error:
            number = self._sent + 1
            deliver(self._producer, self._look)
            self._settle()
            code = exit_code_of(error) if isinstance(error, Refused) else UNUSABLE
            raise self._failure(number, str(error), code) from error
        return len(begun)

    def _look(self, waiting: int = 0) -> None:
        self._settle()
        self._watch.look(self._decided, self._sent + waiting)

    def _sender(self, read: Callable[[bytes], Line]) -> Callable[[bytes], RecordFuture]:
        """Build the function that sends a line."""
        topic, send, everywhere = self._args.topic, self._producer.send, self._args.partition
        if self._plain:
            return partial(send, topic, partition=everywhere)

        def send_read(content: bytes) -> RecordFuture:
            value, key, headers, partition, timestamp = read(content)
            partition = partition if everywhere is None else everywhere
            return send(topic, value, key=key, headers=headers, timestamp=timestamp, partition=partition)

        return send_read

    def _settle(self) -> None:
        """Count the records that are decided by now; they are decided in their order."""
        while self._waiting and (not (first := self._waiting[0]) or first[-1].done()):
            block = self._waiting.popleft()
            failed = [
                (number, error)
                for number, future in enumerate(block, self._decided + 1)
                if (error := future.exception()) is not None
            ]
            self._decided += len(block)
            self._stored += len(block) - len(failed)
            self._refused = self._refused or (failed[0] if failed else None)
            self._in_doubt = self._in_doubt or any(error.outcome == "unknown" for _, error in failed)

    def _failure(self, number: int, why: str, code: int) -> Failure:
        """Failure at a line; a code that promises no change becomes UNKNOWN if records are, or may be, stored."""
        if code in NOTHING_CHANGED and (self._stored or self._in_doubt):
            code = UNKNOWN
        return Failure(f"line {number}: {why.rstrip('.')}", self._counted(), exit_code=code)

    def _counted(self) -> str:
        return f"{self._stored:,} of the {self._sent:,} records that were sent are stored for certain"

    def report(self, form: str) -> None:
        stored, size, seconds = self._stored, self._given.taken, self._progress.seconds
        if form == "json":
            names = ["topic", "records", "bytes", "seconds", "records_per_second"]
            rate = round(stored / max(seconds, 1e-6))
            write_json(names, [(self._args.topic, stored, size, round(seconds, 3), rate)], sys.stdout)
            return
        how = f"{show_size(size)} in {seconds:.1f} s: {show_rate(stored, size, seconds)}"
        print(f"{self._args.topic}: {stored:,} record{'s' if stored != 1 else ''}, {how}")
