"""Why somebody far away could not do what it was told to, in words that travel."""

from __future__ import annotations

from typing import Literal

import msgspec

from delta_log.model.errors import Corruption


class RemoteFailure(msgspec.Struct, frozen=True):
    """`path` is the file that was missing or damaged; where something else failed there is none."""

    what: Literal["missing", "damaged", "failed"]
    path: str
    why: str


def describe_failure(error: Exception) -> RemoteFailure:
    match error:
        case FileNotFoundError():
            return RemoteFailure("missing", str(error), "it is missing")
        case Corruption():
            return RemoteFailure("damaged", error.file, error.why)
        case _:
            return RemoteFailure("failed", "", str(error))
