# ruff: noqa: INP001 - a program to run, not a package
"""Write what the code says of each error into docs/reference/errors.md; with --check only compare.

Code, retriable and outcome are the code's. What an error means and what to do about it is written by hand, in the rows:
it is kept, and an error that is new gets a row in which both are missing, which a test then refuses.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from marked_page import keep_current, put_between

from consumer_groups.model import errors as group_errors
from delta_log.model import errors as log_errors
from delta_log.model.errors import LakelogError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "errors.md"
SECTIONS = {"log": log_errors, "groups": group_errors}
_ROW = re.compile(r"^\| `(\w+)` \|(?:[^|]*\|){3} (.*?) \|$", re.MULTILINE)


def errors_of(module: ModuleType) -> list[type[LakelogError]]:
    """Those that are defined there, in the order in which they are."""
    found = (each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__)
    ours = [each for each in found if issubclass(each, LakelogError)]
    return sorted(ours, key=lambda each: inspect.getsourcelines(each)[1])


def render_table(errors: list[type[LakelogError]], sentences: Mapping[str, str]) -> str:
    """The Markdown table, one row an error."""
    rows = ["| error | code | retriable | outcome | meaning | what to do |", "|---|---|---|---|---|---|"]
    for each in errors:
        retriable = "yes" if each.retriable else "no"
        by_hand = sentences.get(each.__name__, " | ")
        rows.append(f"| `{each.__name__}` | `{each.code}` | {retriable} | `{each.outcome}` | {by_hand} |")
    return "\n".join(rows)


def put_tables(page: str, sections: Mapping[str, list[type[LakelogError]]] | None = None) -> str:
    """The page with what stands between the marks replaced."""
    sentences = dict(_ROW.findall(page))
    for section, module in SECTIONS.items():
        errors = (sections or {}).get(section, errors_of(module))
        begin, end = f"<!-- {section}: begin (tools/docs_errors.py) -->", f"<!-- {section}: end -->"
        page = put_between(page, render_table(errors, sentences), begin, end)
    return page


def main() -> int:
    return keep_current("docs_errors.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"))})


if __name__ == "__main__":
    sys.exit(main())
