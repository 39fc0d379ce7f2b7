"""What a name says to a ledger, turn by turn, and what must be there when it has said so much.

Each turn is one unit over both tables: where half of one is there, they disagree. Some keys change every turn, some
come and go, some are said once, and of these some are taken away much later, for good.
"""

from __future__ import annotations

from collections.abc import Mapping

from delta_log import Ledger
from delta_log.records.keyed_table import Row
from tests.support.keyed_rows import mark, no_mark, no_reader, reader

Unit = list[tuple[str, Row]]


class Broken(AssertionError):
    """The ledger does not hold what it promised."""


def unit(name: str, turn: int) -> Unit:
    """`turn` counts from 1."""
    rows = [mark(name, 0, turn, at=turn), reader(name, turn, b"%d" % turn)]
    rows.append(mark(name, 100 + turn % 7, turn))
    rows.append(mark(name, 1, turn) if turn % 2 else no_mark(name, 1))
    rows.append(reader(f"{name}'s", turn) if turn % 5 < 3 else no_reader(f"{name}'s"))
    if turn % 4 == 1:
        rows.append(mark(name, 1000 + turn, turn))
    if turn % 8 == 1 and turn > 32:
        rows.append(no_mark(name, 1000 + turn - 32))
    return rows


def expected(name: str, turns: int) -> dict[str, list[Row]]:
    """In the order in which they were said last."""
    found: dict[str, dict[object, Row]] = {"__marks": {}, "__readers": {}}
    for turn in range(1, turns + 1):
        for table, row in unit(name, turn):
            key = row[:2] if table == "__marks" else row[0]
            found[table].pop(key, None)
            if any(value is not None for value in (row[2:] if table == "__marks" else row[1:])):
                found[table][key] = row
    return {table: list(rows.values()) for table, rows in found.items()}


def turns_of(ledger: Ledger) -> dict[str, int]:
    """How many turns of each name are there."""
    return {row[0]: row[2] for row in ledger.load("__marks") if row[1] == 0}


def check_turns(ledger: Ledger, promised: Mapping[str, int]) -> dict[str, int]:
    """What is there is some whole number of turns of each name, at least as many as were promised."""
    turns = turns_of(ledger)
    loaded = {table: ledger.load(table) for table in ("__marks", "__readers")}
    for name in turns | dict(promised):
        if turns.get(name, 0) < promised.get(name, 0):
            raise Broken(f"{name} was promised {promised[name]} turns, {turns.get(name, 0)} are there")
        wanted = expected(name, turns.get(name, 0))
        for table, rows in loaded.items():
            found = [row for row in rows if row[0] in (name, f"{name}'s")]
            if found != wanted[table]:
                raise Broken(f"{table} of {name} after {turns.get(name, 0)} turns: {found}, not {wanted[table]}")
    return turns
