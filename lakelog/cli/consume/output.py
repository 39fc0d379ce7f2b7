"""Output of `lakelog consume`: takes records from a consumer and writes rows, many at once, or one table at the end.

When a call returns, its records are written and flushed, but for a table, which is written at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from lakelog.cli.consume.plan import Aim
from lakelog.cli.kit.record_columns import PAYS_FROM, can_write, column_lines, ends_of
from lakelog.cli.kit.record_lines import JSON_FIELDS, json_fields, line_writer

if TYPE_CHECKING:
    from lakelog.consume.shapes import ConsumerRecord
    from lakelog.consumer import Consumer

__all__ = ["Take", "taking"]

#: How long a poll waits before Ctrl-C is checked.
_POLL_S: Final = 0.25
#: With a deserializer, records cannot be written from columns.
_MADE: Final = ("key.deserializer", "value.deserializer")

#: Polls once, writes the records, and returns whether there were any.
Take = Callable[["Consumer", Aim], bool]


@contextlib.contextmanager
def taking(args: argparse.Namespace) -> Generator[Take]:
    if args.output == "table":
        from lakelog.cli.kit.output import write_table

        found: list[ConsumerRecord] = []
        yield _by_rows(found.extend)
        write_table(JSON_FIELDS, map(json_fields, found), sys.stdout)
        return
    lines, out = line_writer(args.output, args.key_separator, headers=args.headers), sys.stdout.buffer

    def write(records: list[ConsumerRecord]) -> None:
        out.write(lines(records))
        out.flush()

    by_rows = _by_rows(write)
    made = any(name in _MADE for name, _ in args.property)
    if made or not can_write(args.output, headers=args.headers):
        yield by_rows
        return
    by_columns, many = _by_columns(args.key_separator), False

    def take(consumer: Consumer, aim: Aim) -> bool:
        nonlocal many
        many = many or aim.left >= PAYS_FROM
        return (by_columns if many else by_rows)(consumer, aim)

    yield take


def _by_rows(write: Callable[[list[ConsumerRecord]], None]) -> Take:
    def take(consumer: Consumer, aim: Aim) -> bool:
        records = consumer.poll(_POLL_S, max_records=aim.room)
        if records:
            write(records)
            aim.learn_records(records)
        return bool(records)

    return take


def _by_columns(key_separator: bytes | None) -> Take:
    out = sys.stdout.buffer

    def take(consumer: Consumer, aim: Aim) -> bool:
        records = consumer.poll_arrow(_POLL_S, max_records=aim.allowed)
        if not records.num_rows:
            return False
        for lines in column_lines(records, key_separator):
            out.write(lines)
        out.flush()
        aim.learn(records.num_rows, ends_of(records))
        return True

    return take
