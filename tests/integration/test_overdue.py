"""A log says once an hour which topics are a day past their retention, and no longer than they are."""

import logging
import time

import httpx
import pytest

from delta_log import Log, Record, Settings
from delta_log.maintenance.retention import Overdue
from delta_log.maintenance.retention_lag import describe_overdue
from tests.support.logs import NOW, Place, eventually
from tests.support.serving import serving

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
SECONDS = 'lakelog_topic_retention_overdue_seconds{topic="clicks"}'


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was warned of since the last look."""
    caplog.set_level(logging.WARNING)

    class Heard(list[str]):
        told = 0

        def new(self) -> list[str]:
            """No record is taken away, as another thread may add one in the same moment."""
            said = [record.getMessage() for record in caplog.records if "overdue" in record.getMessage()][self.told :]
            self.told += len(said)
            return said

    return Heard()


def test_a_day_too_late_is_said_once_an_hour_until_retention_runs(tmp_path, warnings):
    place = Place(tmp_path / "root")
    with place.open() as log:
        log.create_topic("clicks", config={"retention.ms": HOUR, "segment.ms": 1000})
        log.create_topic("kept", config={"retention.ms": -1})
        for topic in ("clicks", "kept"):
            log.append(topic, [Record(b"1", timestamp=NOW)])
        log.flush()

        def after(milliseconds: int) -> list[str]:
            place.clock.turn(milliseconds)
            log.run_upkeep()
            return warnings.new()

        assert after(0) == after(HOUR + DAY - MINUTE) == [], "it is late, but not by a day"
        (said,) = after(2 * MINUTE)
        assert said.startswith("retention is overdue in 1 topics: clicks (")
        assert said.endswith(" bytes, 1.0 days); nobody runs the retention job")
        assert after(0) == after(HOUR - MINUTE) == []
        assert len(after(MINUTE)) == 1
        assert len(after(3 * HOUR)) == 1
        assert len(after(-2 * HOUR)) == 1, "a clock that was set back puts nothing off"
        log.run_retention("clicks")
        assert after(5 * HOUR) == []
        log.append("clicks", [Record(b"2", timestamp=NOW)])
        log.flush()
        assert after(2 * DAY) != [], "what came since is late in its turn"
    place.close()


def test_the_worst_are_named_and_the_others_counted():
    late = {f"t{number}": Overdue(number, number * DAY) for number in range(1, 8)}
    said = describe_overdue(late)
    assert said.startswith("t7 (7 bytes, 7.0 days), t6 (6 bytes, 6.0 days)")
    assert "t2 " not in said
    assert " and others; " in said


def test_the_thread_of_a_log_looks_by_itself(tmp_path, warnings):
    place = Place(tmp_path / "root")
    with place.open() as log:
        log.create_topic("clicks", config={"retention.bytes": 0})
        log.append("clicks", [Record(b"1", timestamp=NOW)])
    place.clock.turn(2 * DAY)
    with place.open(Settings(upkeep=True)) as log:
        log.describe_topic("clicks")
        said: list[str] = []
        eventually(lambda: said.extend(warnings.new()) or said)
        assert said[0].startswith("retention is overdue in 1 topics: clicks (")
    place.close()


def test_a_server_shows_it_of_topics_that_nobody_has_used_since_its_start(tmp_path):
    three_days_ago = int(time.time() * 1000) - 3 * DAY
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as log:
        log.create_topic("clicks", config={"retention.ms": 1000})
        log.append("clicks", [Record(b"1", timestamp=three_days_ago)])
    with serving(tmp_path / "root") as server:

        def overdue() -> list[float]:
            text = httpx.get(f"{server.url}/metrics").raise_for_status().text
            return [float(line.split()[-1]) for line in text.splitlines() if line.startswith(SECONDS)]

        eventually(overdue, "the topic is known")
        (seconds,) = overdue()
        assert seconds * 1000 > 3 * DAY - HOUR
