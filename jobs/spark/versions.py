"""Spark version required by streams. Jobs on tables work with any, and without Spark with `--engine local`."""

from __future__ import annotations

import re
from typing import Final

from delta_log.model.errors import NotAvailable

__all__ = ["OLDEST", "check_spark", "find_spark", "is_too_old"]

#: Oldest version whose streams support the calls of the Python source.
OLDEST: Final = (4, 2)


def find_spark() -> str | None:
    """Return the version of pyspark by import, as on a cluster it is not always a package; None without it."""
    try:
        from pyspark import __version__  # noqa: PLC0415 - a job without Spark must not need it
    except ImportError:
        return None
    return __version__


def is_too_old(version: str) -> bool:
    """Return whether a version is too old; False for an unknown format."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < OLDEST


def check_spark(version: str | None) -> None:
    """Raise NotAvailable if Spark is too old. A missing one is reported when it is started."""
    if version is not None and is_too_old(version):
        oldest = ".".join(map(str, OLDEST))
        raise NotAvailable(f"Spark {version} is too old: streams and format('lakelog') need {oldest}")
