# ruff: noqa: INP001 - beside the programs that use it, not in a package
"""A page of which a part belongs to a program: what stands between two marks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path


def put_between(page: str, text: str, begin: str, end: str) -> str:
    """The page with what stands between the marks replaced."""
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the page lacks {begin!r} or {end!r} after it")
    return f"{before}{begin}\n{text}\n{end}{after}"


def keep_current(program: str, wanted: Mapping[Path, str]) -> int:
    """Write the files that are not what they are to be; with --check only say which, and fail."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is not current")
    check = bool(parser.parse_args().check)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            sys.stderr.write(f"{path.name} is not current: run python tools/{program}\n")
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if check and stale else 0
