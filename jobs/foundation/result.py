"""Result of a job: its exit code and its summary, the last line of stdout. Pure.

0 done · 1 something could not be done · 2 called wrongly · 3 refused before anything was changed
4 it is unknown whether a change was made; running the job again finds out · 5 no such topic · 8 no root
130 interrupted

The command line `lakelog` uses the same codes for the same failures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Final

from delta_log.model.errors import (
    InvalidRequest,
    LakelogError,
    NotARoot,
    OutcomeUnknown,
    UnknownPartition,
    UnknownTopic,
)

__all__ = ["Exit", "Summary", "Unfinished", "decide_exit", "one_sentence"]

Counts = Mapping[str, int]


class Unfinished(Exception):
    """A run ended prematurely, for the reason in the message; what it had done stays done."""


class Exit(IntEnum):
    """Exit codes; their names in lower case are the outcomes in the summary."""

    DONE = 0
    INCOMPLETE = 1
    CALLED_WRONGLY = 2
    REFUSED = 3
    UNKNOWN = 4
    ABSENT = 5
    WRONG_ROOT = 8
    INTERRUPTED = 130


#: Exit codes by error; the first matching row counts.
_STOPPED_BY: Final[tuple[tuple[tuple[type[BaseException], ...], Exit], ...]] = (
    ((KeyboardInterrupt,), Exit.INTERRUPTED),
    ((UnknownTopic, UnknownPartition), Exit.ABSENT),
    ((NotARoot,), Exit.WRONG_ROOT),
    ((InvalidRequest,), Exit.CALLED_WRONGLY),
    ((OutcomeUnknown,), Exit.UNKNOWN),
    ((LakelogError,), Exit.REFUSED),
)


@dataclass(slots=True)
class Summary:
    """Summary of what a run did, or with `dry_run` would have done.

    `topics`: counts of each topic worked on; `errors`: a sentence for each topic with a failure; `error`: the failure
    that stopped the run as a whole.
    """

    job: str
    root: str
    engine: str
    dry_run: bool
    outcome: str = "done"
    seconds: float = 0.0
    topics: dict[str, Counts] = field(default_factory=dict[str, Counts])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    error: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def decide_exit(errors: Mapping[str, BaseException], stopped_by: BaseException | None) -> Exit:
    """Decide the exit code; a failure of the whole run takes precedence over `errors` of single topics."""
    if stopped_by is not None:
        return next((code for kinds, code in _STOPPED_BY if isinstance(stopped_by, kinds)), Exit.INCOMPLETE)
    if any(isinstance(error, OutcomeUnknown) for error in errors.values()):
        return Exit.UNKNOWN
    return Exit.INCOMPLETE if errors else Exit.DONE


def one_sentence(error: BaseException) -> str:
    """Shorten an error to one sentence: the first line is what happened, the rest of a trace is where."""
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, LakelogError | Unfinished):
        return " ".join(str(error).split())
    return f"{type(error).__name__}: {' '.join(text.split())}" if text else type(error).__name__
