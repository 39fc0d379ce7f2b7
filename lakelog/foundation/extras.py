"""Which extra of the install brings what a room cannot be imported without.

`pip install lakelog` brings the clients alone. The doors of the rooms ask here: an import that fails says what to
install, and not only the name of a library that is a matter of the room's inside.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Final

__all__ = ["ADVICE", "OUR_PACKAGES", "check_extra", "needs_extra"]

#: What is missing in these is a fault of the project; anything else is a part that was not installed.
OUR_PACKAGES: Final = frozenset({"lakelog", "ingest_api", "delta_log", "consumer_groups", "jobs", "pyspark_lakelog"})
#: What to type, by the extra.
ADVICE: Final = {
    "server": "pip install 'lakelog[server]'",
    "jobs": "pip install 'lakelog[spark]', or 'lakelog[jobs]' where Spark is there already",
}


@contextmanager
def needs_extra(extra: str, room: str) -> Generator[None]:
    """Report a package that the imports of a door lack by the extra that brings it."""
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
