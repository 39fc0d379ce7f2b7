"""The reason why a remote worker could not carry out an order, as a value that can be serialized."""

from __future__ import annotations

from typing import Literal

import msgspec

from delta_log.model.errors import Corruption


class RemoteFailure(msgspec.Struct, frozen=True):
    """A worker's failure. `path` is the missing or damaged file, empty for other failures."""

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
