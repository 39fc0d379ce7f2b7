"""How a job ends: its exit code and its summary, the last line of stdout. Pure.

0 done · 1 something could not be done · 2 called wrongly · 3 refused before anything was changed
4 it is unknown whether a change was made; running the job again finds out · 5 no such topic · 8 no root
130 interrupted

What a failure of the command line has in common with one of these has its code there, too.
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
    """A run ended before its time, for the reason said; what it had done stays done."""


class Exit(IntEnum):
    """Exit codes; the names, in small letters, are the outcomes of the summary."""

    DONE = 0
    INCOMPLETE = 1
    CALLED_WRONGLY = 2
    REFUSED = 3
    UNKNOWN = 4
    ABSENT = 5
    WRONG_ROOT = 8
    INTERRUPTED = 130


#: The first row that fits counts.
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
    """What a run did, or with `dry_run` would have done.

    `topics` has the counts of each topic that was worked on, `errors` a sentence for each on which something failed;
    `error` is for what stopped the run as a whole.
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
    """`errors` are of single topics. What stopped the run as a whole says more than they do."""
    if stopped_by is not None:
        return next((code for kinds, code in _STOPPED_BY if isinstance(stopped_by, kinds)), Exit.INCOMPLETE)
    if any(isinstance(error, OutcomeUnknown) for error in errors.values()):
        return Exit.UNKNOWN
    return Exit.INCOMPLETE if errors else Exit.DONE


def one_sentence(error: BaseException) -> str:
    """The first line says what happened; what follows in a Java or Python trace says where."""
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, LakelogError | Unfinished):
        return " ".join(str(error).split())
    return f"{type(error).__name__}: {' '.join(text.split())}" if text else type(error).__name__
