"""Checks that a job does not write into a root, which a server owns, and where each table is a topic."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from delta_log.model.errors import InvalidRequest

__all__ = ["check_outside"]

_FILE: Final = "file:"


def check_outside(option: str, where: str, root: str | None) -> None:
    """Raise InvalidRequest if an option names a path in the root, as far as the two paths show it."""
    if root is None:
        return
    inner, outer = _parts(where), _parts(root)
    if inner[: len(outer)] == outer:
        raise InvalidRequest(f"{option} {where} is inside of the root {root}, where a server writes alone")


def _parts(where: str) -> tuple[str, ...]:
    """Parts of a path. Schemes of a store, as s3 and s3a, count as equal; bucket paths are not resolved locally."""
    scheme, is_elsewhere, path = where.partition("://")
    if is_elsewhere and scheme != "file":
        return ("", *PurePosixPath(path).parts)
    local = unquote(urlsplit(where).path) if where.startswith(_FILE) else where
    return PurePosixPath(os.path.realpath(local)).parts
