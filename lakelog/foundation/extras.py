"""Extras of the install, and the packages that a room needs from them.

`pip install lakelog` installs the clients alone. The doors of the rooms check here, so that a failed import tells what
to install, and not only the name of a library that is the room's internal matter.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Final

__all__ = ["ADVICE", "OUR_PACKAGES", "check_extra", "needs_extra"]

#: A missing module in these is a bug of the project; any other is an extra that was not installed.
OUR_PACKAGES: Final = frozenset({"lakelog", "ingest_api", "delta_log", "consumer_groups", "jobs", "pyspark_lakelog"})
#: Install commands by extra.
ADVICE: Final = {
    "server": "pip install 'lakelog[server]'",
    "jobs": "pip install 'lakelog[spark]', or 'lakelog[jobs]' where Spark is there already",
}


@contextmanager
def needs_extra(extra: str, room: str) -> Generator[None]:
    """Report a package that a door's imports lack, with the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in OUR_PACKAGES:
            raise
        message = f"{room} needs {package}, which is not installed: {ADVICE[extra]}"
        raise ModuleNotFoundError(message, name=error.name) from error


def check_extra(extra: str, room: str, *packages: str) -> None:
    """Report the first of these packages that is missing, without loading any: for a door that imports nothing."""
    with needs_extra(extra, room):
        for package in packages:
            if find_spec(package) is None:
                import_module(package)  # for the error itself
