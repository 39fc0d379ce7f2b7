# ruff: noqa: INP001 - a program to run, not a package
"""Write the settings of a server into docs/reference/server-settings.md and conf/server.toml; --check only compares.

In the page the sentences around the tables are written by hand; what stands between the two marks belongs to this
program, and so does all of the file, which `lakelog serve --print-config` prints as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from marked_page import keep_current, put_between

from ingest_api.config.settings import GROUPS, SETTINGS, Setting
from ingest_api.config.settings_file import render_file

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "server-settings.md"
FILE = ROOT / "conf" / "server.toml"
BEGIN, END = "<!-- tables: begin (tools/docs_server_settings.py) -->", "<!-- tables: end -->"


def render_tables(settings: Sequence[Setting] = SETTINGS) -> str:
    """One Markdown table for each group."""
    parts: list[str] = []
    for group in GROUPS:
        parts += [f"### {group}", "", "| setting | default | allowed | what it says |", "|---|---|---|---|"]
        parts += [_table_row(setting) for setting in settings if setting.group == group]
        parts.append("")
    return "\n".join(parts).rstrip("\n")


def put_tables(page: str, tables: str) -> str:
    """The page with what stands between the marks replaced."""
    return put_between(page, tables, BEGIN, END)


def _table_row(setting: Setting) -> str:
    default = "none" if setting.default in ((), "") else f"`{_plain(setting.default)}`"
    allowed = str(setting.check).replace("|", "\\|")
    return f"| `{setting.name}` | {default} | {allowed} | {setting.doc} |"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> int:
    page = put_tables(PAGE.read_text(encoding="utf-8"), render_tables())
    return keep_current("docs_server_settings.py", {PAGE: page, FILE: render_file()})


if __name__ == "__main__":
    sys.exit(main())
