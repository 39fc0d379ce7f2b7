"""Errors of the records of a request, and the refusal that lists them. Knows no format. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from delta_log.model.quoting import quoted, tidy
from ingest_api.web.errors import Refusal

#: Most bad records that are named one by one.
MOST_NAMED: Final = 100


class Fault(Exception):
    """An error of a piece of a body; its text completes a sentence about that piece."""


Faults = list[tuple[int, str]]


def refuse_records(faults: Faults, count: int, *, unit: str = "record", first: int = 0) -> Refusal:
    """Make the refusal of a request for its bad records. The message counts `unit`s from `first`, `index` from 0."""
    index, what = faults[0]
    more = f"; {len(faults) - 1} more of {count} cannot be stored" if len(faults) > 1 else ""
    errors = [{"index": index, "message": tidy(what)} for index, what in faults]
    return Refusal(422, f"{unit} {index + first} cannot be stored: {what}{more}", errors=errors)


def refuse_count(count: int, most: int) -> Refusal:
    return Refusal(422, f"a request has 1 to {most} records, not {count}")


def shown(text: str) -> str:
    return quoted(text)


def joined(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
