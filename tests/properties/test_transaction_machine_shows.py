"""The machine of transactions finds a log that is broken."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from delta_log.model.errors import TransactionAborted, TransactionDecided, UnknownTransaction
from delta_log.transactions.buffered_records import BufferedRecords, HeldRequest
from delta_log.transactions.coordinator import Transactions
from tests.properties import test_transaction_machine as machine

#: So many examples may pass until one finds what is broken; always the same ones, as how many it takes is chance.
SEARCHED = 10_000


def no_decision(*_: object) -> list[object]:
    return []


def every_request(held: BufferedRecords, _: object) -> list[HeldRequest]:
    return held.requests


def no_version(*_: object) -> None:
    return None


def forgets_what_was_reserved(_: object) -> None:
    return None


def never_in_doubt(*_: object) -> bool:
    return False


def describe_and_abort(self: Transactions, transaction: str) -> None:
    if self.describe(transaction).state == "committed":
        raise TransactionDecided(transaction, "committed")
    found = self._standing.open.get(transaction)
    if found is not None:
        self._standing.abort(found, TransactionAborted(transaction, "a test"))


def nothing_is_a_repeat(*_: object) -> bool:
    return False


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        ("delta_log.keyed.Ledger.encode", no_decision),
        ("delta_log.transactions.buffered_records.BufferedRecords.is_repeat", nothing_is_a_repeat),
        ("delta_log.transactions.buffered_records.BufferedRecords.chosen", every_request),
        ("delta_log.transactions.transaction_log.Decisions.version", no_version),
        ("delta_log.records.idempotence.Producers.close_reserved", forgets_what_was_reserved),
        ("delta_log.transactions.registry.TransactionRegistry.in_doubt", never_in_doubt),
        ("delta_log.transactions.coordinator.Transactions.abort", describe_and_abort),
    ],
)
def test_it_shows_a_log_that_forgets_what_was_decided_or_chosen_or_takes_repeats(part: str, broken: Any):
    chosen = settings(
        machine.TestInMemory.settings,
        max_examples=SEARCHED,
        derandomize=True,
        stateful_step_count=80 if broken is no_version else 25,  # a version has to be begun and committed twice
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with mock.patch(part, broken), pytest.raises((AssertionError, UnknownTransaction, pytest.fail.Exception)):
        run_state_machine_as_test(machine.TransactionMachine, settings=chosen)
