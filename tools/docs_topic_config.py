# ruff: noqa: INP001 - a program to run, not a package
"""Write the table of topic settings into docs/reference/topic-config.md; with --check only compare.

The sentences around the table are written by hand; what stands between the two marks belongs to this program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from marked_page import keep_current, put_between

from delta_log.model.topic_settings import INT64_MAX, SETTINGS, OneOf, Setting, Share, SomeOf, Whole

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "topic-config.md"
BEGIN, END = "<!-- table: begin (tools/docs_topic_config.py) -->", "<!-- table: end -->"
_TIMES = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("s", 1000))
_SIZES = (("MiB", 1 << 20), ("KiB", 1 << 10))


def render_table(settings: Sequence[Setting] = SETTINGS) -> str:
    """The Markdown table, one row a setting."""
    rows = ["| setting | default | allowed | what it says |", "|---|---|---|---|"]
    rows += [f"| `{s.name}` | {_default(s)} | {_allowed(s)} | {s.doc} |" for s in settings]
    return "\n".join(rows)


def put_table(page: str, table: str) -> str:
    """The page with what stands between the marks replaced."""
    return put_between(page, table, BEGIN, END)


def _default(setting: Setting) -> str:
    value = setting.default
    units = _TIMES if setting.name.endswith(".ms") else _SIZES if setting.name.endswith(".bytes") else ()
    if isinstance(value, int) and 0 < value < INT64_MAX:
        for unit, size in units:
            if value >= size and value % size == 0:
                return f"`{value}` ({_count(value // size, unit)})"
    return f"`{value}`"


def _count(number: int, unit: str) -> str:
    return f"1 {unit[:-1]}" if number == 1 and unit.endswith("s") and unit != "s" else f"{number} {unit}"


def _allowed(setting: Setting) -> str:
    match setting.check:
        case Whole(least, most) if least == most:
            return f"{least}"
        case Whole(least, most):
            return f"{least} or more" if most == INT64_MAX else f"{least} to {most}"
        case Share():
            return "a decimal number, 0 to 1"
        case OneOf(words):
            return ", ".join(f"`{word}`" for word in words)
        case SomeOf(words):
            return ", ".join(f"`{word}`" for word in (*words, ",".join(words)))


def main() -> int:
    return keep_current("docs_topic_config.py", {PAGE: put_table(PAGE.read_text(encoding="utf-8"), render_table())})


if __name__ == "__main__":
    sys.exit(main())
