"""What `--at` means for each table of a query."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime

import pytest

from lakelog.cli.sql.moments import At, assign_moments, parse_at

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("12", At(None, 12)),
        ("orders=12", At("orders", 12)),
        ("pay-ments.eu=0", At("pay-ments.eu", 0)),
        ("2026-01-31T12:00:00Z", At(None, NOON)),
        ("2026-01-31 13:00+01:00", At(None, NOON)),
        ("2026-01-31T12:00", At(None, NOON)),
    ],
)
def test_it_is_a_time_which_is_utc_where_it_does_not_say_or_a_version(text: str, at: At):
    assert parse_at(text) == at


@pytest.mark.parametrize("text", ["", "noon", "-1", "=1", "orders=", "orders=noon", "1.5", "2026-13-01"])
def test_anything_else_is_refused(text: str):
    with pytest.raises(ArgumentTypeError, match="is no time, as 2026-01-31T12:00:00Z, and no version"):
        parse_at(text)


def test_a_time_is_for_all_tables_and_a_version_for_the_one_that_is_named():
    both = ["a", "b", "a"]
    assert assign_moments([], both) == {}
    assert assign_moments([At(None, NOON)], both) == {"a": NOON, "b": NOON}
    assert assign_moments([At("b", 3), At(None, NOON)], both) == {"a": NOON, "b": 3}
    assert assign_moments([At("b", 3), At("a", 4)], both) == {"a": 4, "b": 3}
    assert assign_moments([At(None, 3)], ["a"]) == {"a": 3}
    assert assign_moments([At(None, 3)], []) == {}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([At(None, 3)], "--at 3: say of which table, as --at a=3: the query reads several"),
        ([At("c", 3)], "--at c=3: the query names no table c"),
        ([At(None, NOON), At(None, NOON)], "twice"),
        ([At("a", 3), At("a", 4)], "twice"),
    ],
)
def test_what_cannot_be_told_is_refused(given: list[At], says: str):
    with pytest.raises(ValueError, match=says):
        assign_moments(given, ["a", "b"])
