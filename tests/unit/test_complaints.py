"""What is wrong with a table is said when it begins, when it changes, and once a minute."""

import logging

import pytest

from delta_log.maintenance.error_throttle import ErrorThrottle
from delta_log.model.errors import Corruption, LakelogError, NotAvailable, PlanOutdated, StorageRefused, TopicClosed

DAMAGE = Corruption("a.parquet", "bad bytes")


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def complaints(clock: list[float], caplog: pytest.LogCaptureFixture) -> ErrorThrottle:
    return ErrorThrottle(lambda: clock[0])


def said(caplog: pytest.LogCaptureFixture) -> int:
    count = len(caplog.records)
    caplog.clear()
    return count


def test_what_goes_on_is_said_once_a_minute(complaints, clock, caplog):
    for clock[0] in range(121):
        complaints.say("orders", DAMAGE)
    assert said(caplog) == 3


def test_something_else_and_another_table_are_said_at_once(complaints, caplog):
    complaints.say("orders", DAMAGE)
    complaints.say("orders", Corruption("b.parquet", "bad bytes"))
    complaints.say("clicks", DAMAGE)
    assert said(caplog) == 3


def test_what_comes_back_after_it_was_mended_is_said_at_once(complaints, caplog):
    complaints.say("orders", DAMAGE)
    complaints.settle("orders")
    complaints.settle("never in trouble")
    complaints.say("orders", DAMAGE)
    assert said(caplog) == 2


@pytest.mark.parametrize(
    ("error", "level", "line"),
    [
        (DAMAGE, logging.ERROR, f"upkeep of orders: {DAMAGE}"),
        (TopicClosed("orders", "stuck"), logging.ERROR, "upkeep of orders: "),
        (PlanOutdated("orders", "gone"), logging.WARNING, "upkeep of orders is put off: "),
        (StorageRefused("a file", "full"), logging.WARNING, "upkeep of orders is put off: "),
        (ZeroDivisionError(), logging.ERROR, "upkeep of orders; the other topics' goes on"),
    ],
)
def test_how_bad_it_is_and_a_trace_of_what_nobody_foresaw(complaints, caplog, error, level, line):
    complaints.say("orders", error)
    (record,) = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith(line)
    assert (record.exc_info is None) == isinstance(error, LakelogError)
    assert issubclass(TopicClosed, NotAvailable), "it is looked for first"
