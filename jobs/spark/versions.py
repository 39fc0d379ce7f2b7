"""Which Spark streams need. Jobs that work on tables take any, and none at all with `--engine local`."""

from __future__ import annotations

import re
from typing import Final

from delta_log.model.errors import NotAvailable

__all__ = ["OLDEST", "check_spark", "find_spark", "is_too_old"]

#: Its streams ask a source in Python by calls that older ones do not have.
OLDEST: Final = (4, 2)


def find_spark() -> str | None:
    """The version of what is imported, which on a cluster is not always a package; None where there is none."""
    try:
        from pyspark import __version__  # noqa: PLC0415 - a job without Spark must not need it
    except ImportError:
        return None
    return __version__


def is_too_old(version: str) -> bool:
    """Of what is no version nobody knows."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < OLDEST


def check_spark(version: str | None) -> None:
    """NotAvailable where it is too old. That there is none is told when it is to be started."""
    if version is not None and is_too_old(version):
        oldest = ".".join(map(str, OLDEST))
        raise NotAvailable(f"Spark {version} is too old: streams and format('lakelog') need {oldest}")
