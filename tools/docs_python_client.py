# ruff: noqa: INP001 - a program to run, not a package
"""Write the settings of the Python clients into docs/reference/python-client.md; --check only compares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from marked_page import keep_current, put_between

from lakelog.consume.settings import CONSUMER_SETTINGS
from lakelog.foundation.settings import Setting
from lakelog.produce.settings import PRODUCER_SETTINGS
from lakelog.topics.settings import ADMIN_SETTINGS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "python-client.md"
BEGIN, END = "<!-- tables: begin (tools/docs_python_client.py) -->", "<!-- tables: end -->"
CLIENTS = {
    "Of a producer": PRODUCER_SETTINGS,
    "Of a consumer": CONSUMER_SETTINGS,
    "Of an admin": ADMIN_SETTINGS,
}


def render_tables() -> str:
    """One Markdown table for each kind of client."""
    return "\n\n".join(_table(title, settings) for title, settings in CLIENTS.items())


def put_tables(page: str, tables: str) -> str:
    """The page with what stands between the marks replaced."""
    return put_between(page, tables, BEGIN, END)


def _table(title: str, settings: Sequence[Setting]) -> str:
    rows = [f"### {title}", "", "| setting | default | allowed | what it says |", "|---|---|---|---|"]
    rows += [_row(setting) for setting in settings]
    return "\n".join(rows)


def _row(setting: Setting) -> str:
    default = "none" if setting.default is None else f"`{_plain(setting.default)}`"
    default = "must be given" if setting.required else default
    return f"| `{setting.name}` | {default} | {setting.kind.allowed} | {setting.doc} |"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> int:
    return keep_current("docs_python_client.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"), render_tables())})


if __name__ == "__main__":
    sys.exit(main())
