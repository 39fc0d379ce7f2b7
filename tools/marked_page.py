# ruff: noqa: INP001 - beside the programs that use it, not in a package
"""A page of which a part belongs to a program: what stands between two marks."""

from __future__ import annotations


def put_between(page: str, text: str, begin: str, end: str) -> str:
    """The page with what stands between the marks replaced."""
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the page lacks {begin!r} or {end!r} after it")
    return f"{before}{begin}\n{text}\n{end}{after}"
