"""Time travel: resolves a version of a table, and checks that all of it can still be read. Pure.

The files of a version exist at least until the next version leaves the history, because only then may the files that
the next one removed be deleted. Older versions are refused, even if their files still exist by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import NamedTuple

from delta_log.delta.checkpoint import log_versions
from delta_log.model.errors import InvalidRequest
from delta_log.model.topic_config import TopicConfig

__all__ = ["MadeVersion", "OutsideHistory", "plan_version", "versions_in"]


class MadeVersion(NamedTuple):
    """A version with the time of its commit, which is never before that of the previous one."""

    number: int
    made_ms: int


class OutsideHistory(InvalidRequest):
    """Refusal of a version. `at`: the requested one; `begins`: the oldest readable one; `why`: the reason."""

    def __init__(self, table: str, at: int | datetime, begins: MadeVersion, why: str) -> None:
        self.table, self.at, self.begins, self.why = table, at, begins, why
        asked = f"version {at}" if isinstance(at, int) else _shown(_ms(at))
        super().__init__(
            f"{table} cannot be read as of {asked}: {why}; "
            f"it can from version {begins.number} on, of {_shown(begins.made_ms)}"
        )


def versions_in(files: Mapping[str, int]) -> list[MadeVersion]:
    """The versions, in order, that can be restored from the files in `_delta_log`, given with their times."""
    numbers = sorted(log_versions(files, ".json"))
    first = min((n for n in (0, *log_versions(files, ".checkpoint.parquet")) if n in numbers), default=0)
    kept = [number for number in numbers if number >= first]
    times = accumulate((files[f"{number:020d}.json"] for number in kept), max)
    return [MadeVersion(number, made_ms) for number, made_ms in zip(kept, times, strict=True)]


def plan_version(
    table: str, versions: Sequence[MadeVersion], at: int | datetime, config: TopicConfig, now_ms: int
) -> int:
    """The given version, or the newest one at a given time; OutsideHistory if it cannot be read."""
    newest = versions[-1]
    oldest = _oldest_readable(versions, newest.number - config.history_commits, now_ms - config.history_ms)
    if isinstance(at, int):
        if at > newest.number:
            raise OutsideHistory(table, at, oldest, f"its newest version is {newest.number}")
        found = at
    else:
        found = max((each.number for each in versions if each.made_ms <= _ms(at)), default=-1)
    if found >= oldest.number:
        return found
    if oldest.number == 0:
        raise OutsideHistory(table, at, oldest, "it was not there yet")
    reach = f"lakelog.history.ms = {config.history_ms} and lakelog.history.commits = {config.history_commits}"
    raise OutsideHistory(table, at, oldest, f"that is behind its history ({reach})")


def _oldest_readable(versions: Sequence[MadeVersion], before_version: int, before_ms: int) -> MadeVersion:
    for this, following in pairwise(versions):
        if following.number >= before_version and following.made_ms >= before_ms:
            return this
    return versions[-1]


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _shown(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
