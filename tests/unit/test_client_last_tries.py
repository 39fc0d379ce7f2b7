"""What a consumer has in its caller's hands, and which ends of it speak of a record."""

from __future__ import annotations

import asyncio

import pytest

from lakelog import TopicPartition
from lakelog.consume.buffer import Buffer
from lakelog.consume.consumer_state import ConsumerState
from lakelog.consume.partition_state import Held
from lakelog.consume.record_failure import is_failure
from lakelog.consume.record_run import Rows
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.shapes import ConsumerRecord
from lakelog.foundation import errors

MUST = {"bootstrap.servers": "localhost:1", "group.id": "g"}
ONE = TopicPartition("t", 0)


def rows(partition: TopicPartition, *offsets: int) -> Rows:
    return Rows([ConsumerRecord(*partition, offset, 0, None, b"1") for offset in offsets])


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        (ValueError(), True), (SystemExit(3), True), (errors.RecordTooLarge("t", 2, 1), True), (None, False),
        (SystemExit(), False), (SystemExit(0), False), (KeyboardInterrupt(), False), (asyncio.CancelledError(), False),
        (errors.WokenUp(), False), (errors.CommitFailed("moved"), False), (errors.Closed(), False),
        (errors.OutcomeUnknown("a commit", "why"), False),
    ],
)  # fmt: skip
def test_what_ends_a_consumer_was_a_record_or_was_not(error: BaseException | None, fails: bool):
    assert is_failure(error) is fails


@pytest.mark.parametrize("given", [0, -2, "x", 1.5, True, 1_000_001])
def test_a_number_of_attempts_is_one_or_more_or_for_ever(given: object):
    assert ConsumerSettings.of(MUST).max_delivery_attempts == 10
    assert ConsumerSettings.of(MUST | {"max.delivery.attempts": "-1"}).max_delivery_attempts == -1
    with pytest.raises(errors.InvalidSetting, match="or -1"):
        ConsumerSettings.of(MUST | {"max.delivery.attempts": given})


def test_what_is_handed_out_is_in_hand_until_its_caller_comes_back():
    held = Held(ONE, 1, announced=True, stage="kept")
    known = ConsumerState(ConsumerSettings.of(MUST), Buffer(), received=6)
    assert known.done == 6
    known.buffer.add(held, rows(ONE, 0, 1), 5)
    known.buffer.add(held, rows(ONE, 2), 6)
    assert known.done == 4
    (handed,) = known.buffer.take(1, as_rows=True)
    known.in_hand = handed.answer
    assert (handed.answer, known.done) == (5, 4)
    known.buffer.take(2, as_rows=True)
    assert known.done == 4
    known.in_hand = None
    assert known.done == 6
    known.buffer.add(held, rows(ONE, 3), 6)
    held.paused = True
    assert known.done == 6, "what is paused is not about to be handed out"
