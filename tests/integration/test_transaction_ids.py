"""Ids of transactions across versions: what an earlier one gave is answered, and nobody guesses another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_log import Log, Record
from delta_log.model.errors import TransactionAborted, UnknownTransaction
from delta_log.transactions.transaction_id import TransactionKey, parse_id


def _of_earlier_versions(transactional_id: str, epoch: int, begun_ms: int, _chance: int) -> TransactionKey:
    return TransactionKey(transactional_id, epoch, f"{begun_ms:011x}{0xABCDE:05x}")


def test_what_an_earlier_version_began_and_decided_keeps_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as earlier, Log.open(tmp_path) as log:
        earlier.setattr(TransactionKey, "fresh", _of_earlier_versions)
        log.create_topic("t")
        committed, left = log.transactions.begin("a").id, log.transactions.begin("b").id
        assert len(left.rpartition(".")[2]) == 16
        log.transactions.append(committed, "t", [Record(b"1")])
        answer = log.transactions.commit(committed)
    with Log.open(tmp_path) as log:
        assert log.transactions.commit(committed).ranges == answer.ranges
        with pytest.raises(TransactionAborted):
            log.transactions.commit(left)
        # The right epoch is not enough: the bits must be the ones that were given.
        begun = log.transactions.begin("a").id
        assert len(begun.rpartition(".")[2]) == 43
        guess = TransactionKey.fresh("a", parse_id(begun).epoch, parse_id(begun).begun_ms, 0).id
        with pytest.raises((TransactionAborted, UnknownTransaction)):
            log.transactions.append(guess, "t", [Record(b"2")])
        log.transactions.append(begun, "t", [Record(b"2")])
        assert log.transactions.commit(begun).ranges != answer.ranges
