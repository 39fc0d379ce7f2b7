"""The options that commands share, each declared once, and the types of option values."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, Failure
from lakelog.cli.kit.output import FORMS

__all__ = [
    "DEFAULT_SERVER",
    "SERVER_VARIABLE",
    "add_output",
    "add_server",
    "dotted",
    "moment_ms",
    "name_and_value",
    "positive",
    "separator",
    "server_of",
    "shift",
    "whole",
]

SERVER_VARIABLE: Final = "LAKELOG_SERVER"
DEFAULT_SERVER: Final = "http://127.0.0.1:8082"
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_SIGNED: Final = re.compile(r"[+-]?[0-9]{1,18}")


def add_server(
    parser: argparse.ArgumentParser, environment: Mapping[str, str] = os.environ, *, text: str | None = None
) -> None:
    """Add `--server`. `text`: the help of a command that needs no server."""
    parser.add_argument(
        "--server",
        metavar="URL",
        type=_address,
        default=environment.get(SERVER_VARIABLE) or DEFAULT_SERVER,
        help=text or f"the server (default: the variable {SERVER_VARIABLE}, else {DEFAULT_SERVER})",
    )


def server_of(environment: Mapping[str, str]) -> str | None:
    """The server in the environment, for commands that need none; parsed like `--server`."""
    found = environment.get(SERVER_VARIABLE)
    try:
        return _address(found) if found else None
    except argparse.ArgumentTypeError as error:
        raise Failure(f"the variable {SERVER_VARIABLE}: {error}", "mend it", exit_code=CALLED_WRONGLY) from None


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add `--output`: `text` for people, `json` for programs, an object a line."""
    parser.add_argument(
        "--output",
        choices=(*FORMS, *more),
        default=FORMS[0],
        help="how to show it (default text; json is an object a line)",
    )


def positive(text: str) -> int:
    if not _WHOLE.fullmatch(text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def name_and_value(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE, as retention.ms=5000 or retention_ms=5000."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return dotted(name), value


def dotted(name: str) -> str:
    """Name of a setting with dots in place of underscores and hyphens: settings have only dots."""
    return name.replace("_", ".").replace("-", ".")


def moment_ms(text: str) -> int:
    """Parse a time, as 2026-01-31T12:00:00Z, by default in UTC, or in milliseconds since 1970."""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        why = f"{text!r} is no time: write it as 2026-01-31T12:00:00Z, or in milliseconds since 1970"
        raise argparse.ArgumentTypeError(why) from None
    since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000


def shift(text: str) -> int:
    """Parse a number of records to move on, or back."""
    if not _SIGNED.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def separator(text: str) -> bytes:
    r"""Parse a separator between two parts of a line; \t is a tab, which is hard to type."""
    if not text:
        raise argparse.ArgumentTypeError("it must be one character or more")
    return text.replace("\\t", "\t").encode()


def _address(text: str) -> Any:
    from lakelog.foundation.settings import Address

    try:
        return Address().read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no server: give {error}") from None
