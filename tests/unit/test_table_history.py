"""Which version of a table a time means, and how far back one can be read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from delta_log.delta.time_travel import MadeVersion, OutsideHistory, plan_version, versions_in
from delta_log.model.topic_config import TopicConfig

NOW = 1_800_000_000_000
HOUR = 3_600_000
#: A version an hour for eight hours, the newest now.
HOURLY = [MadeVersion(number, NOW - (7 - number) * HOUR) for number in range(8)]


def config(*, hours: float = 1000, commits: int = 1000) -> TopicConfig:
    history = {"lakelog.history.ms": str(int(hours * HOUR)), "lakelog.history.commits": str(commits)}
    return TopicConfig.from_properties(history)


def at(hours_ago: float) -> datetime:
    return datetime.fromtimestamp((NOW - hours_ago * HOUR) / 1000, UTC)


@pytest.mark.parametrize(
    ("asked", "version"), [(0, 0), (7, 7), (at(7), 0), (at(6.5), 0), (at(6), 1), (at(0), 7), (at(-5), 7)]
)
def test_a_time_is_the_newest_version_that_is_not_younger(asked: int | datetime, version: int):
    assert plan_version("orders", HOURLY, asked, config(), NOW) == version


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (8, r"orders cannot be read as of version 8: its newest version is 7; it can from version 0 on"),
        (at(7.5), r"as of 2027-01-15T00:30:00.000Z: it was not there yet; it can from version 0 on, of 2027"),
    ],
)
def test_what_never_was_is_refused(asked: int | datetime, says: str):
    with pytest.raises(OutsideHistory, match=says):
        plan_version("orders", HOURLY, asked, config(), NOW)


def test_a_version_can_be_read_until_the_one_behind_it_leaves_the_history():
    """Version 4 was the newest until three hours ago was over: what version 5 took out is there for as long."""
    kept = config(hours=2.5)
    assert [plan_version("orders", HOURLY, number, kept, NOW) for number in (4, 5, 7)] == [4, 5, 7]
    assert plan_version("orders", HOURLY, at(2.9), kept, NOW) == 4
    for outside in (3, at(3.1)):
        with pytest.raises(OutsideHistory, match=r"behind its history \(lakelog.history.ms = 9000000") as refused:
            plan_version("orders", HOURLY, outside, kept, NOW)
        assert refused.value.begins == HOURLY[4]


def test_the_number_of_commits_ends_a_history_too_and_the_newest_version_is_always_in_it():
    versions = [MadeVersion(number, NOW) for number in range(300)]
    with pytest.raises(OutsideHistory, match="it can from version 198 on"):
        plan_version("orders", versions, 197, config(commits=100), NOW)
    assert plan_version("orders", versions, 198, config(commits=100), NOW) == 198
    old = [MadeVersion(0, NOW - 100 * HOUR), MadeVersion(1, NOW - 99 * HOUR)]
    assert plan_version("orders", old, 1, config(hours=1), NOW) == 1


def test_versions_begin_where_a_log_can_be_put_together_and_their_times_never_go_back():
    def entry(number: int, kind: str = "json") -> str:
        return f"{number:020d}.{kind}"

    times = {entry(2): 20, entry(3): 30, entry(4): 25, entry(5): 50, "_last_checkpoint": 1, entry(9, "crc"): 1}
    checkpoints = {entry(3, "checkpoint.parquet"): 31, entry(5, "checkpoint.parquet"): 51}
    assert versions_in(times | checkpoints) == [(3, 30), (4, 30), (5, 50)]
    assert versions_in({entry(0): 5, entry(1): 6, entry(1, "checkpoint.parquet"): 7}) == [(0, 5), (1, 6)]
