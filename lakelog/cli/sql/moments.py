"""Moments as of which a query reads its tables, from `--at`, for each of them. Pure."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

__all__ = ["At", "assign_moments", "parse_at"]

_VERSION: Final = re.compile(r"(?:(?P<table>[^=]+)=)?(?P<version>[0-9]{1,18})")


class At(NamedTuple):
    """A version of a table, or of the only one of a query; or a time, for all tables without a version."""

    table: str | None
    when: int | datetime


def parse_at(text: str) -> At:
    """Parse a value of `--at`, for argparse."""
    version = _VERSION.fullmatch(text)
    if version is not None:
        return At(version["table"], int(version["version"]))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time, as 2026-01-31T12:00:00Z, and no version, as 12 or orders=12"
        ) from None
    return At(None, found if found.tzinfo else found.replace(tzinfo=UTC))


def assign_moments(given: Sequence[At], tables: Iterable[str]) -> Mapping[str, int | datetime]:
    """Assign a version or time to tables; raises ValueError if that is ambiguous or wrong."""
    wanted = sorted(set(tables))
    found: dict[str, int | datetime] = {}
    for table, when in sorted(given, key=lambda each: each.table is not None):
        if table is not None and table not in wanted:
            raise ValueError(f"--at {table}={when}: the query names no table {table}")
        if table is None and isinstance(when, int) and len(wanted) > 1:
            raise ValueError(f"--at {when}: say of which table, as --at {wanted[0]}={when}: the query reads several")
        if table is None and found:
            raise ValueError("--at is given twice without the name of a table")
        found |= dict.fromkeys(wanted if table is None else [table], when)
    if len({each.table for each in given}) < len(given):
        raise ValueError("--at is given twice for the same")
    return found
