"""What a transaction is called: told apart, dated, and not to be guessed; ids of earlier versions are read still."""

from __future__ import annotations

import pytest

from delta_log.transactions.transaction_id import RANDOM_BITS, TransactionKey, parse_id

_BEGUN_MS = 1_763_600_000_000


@pytest.mark.parametrize("name", ["x", "über", "x" * 255])
@pytest.mark.parametrize("chance", [0, 1, 2**RANDOM_BITS - 1])
def test_an_id_is_read_as_it_was_given(name: str, chance: int):
    key = TransactionKey.fresh(name, 2**31 - 1, _BEGUN_MS, chance)
    assert parse_id(key.id) == key
    assert key.begun_ms == _BEGUN_MS
    assert len(key.id) <= 395  # a header and a path take 512


def test_all_random_bits_are_in_an_id():
    bits = {TransactionKey.fresh("x", 1, _BEGUN_MS, 1 << bit).id for bit in range(RANDOM_BITS)}
    assert (RANDOM_BITS, len(bits)) == (128, 128)


def test_an_id_of_an_earlier_version_is_read_too():
    key = TransactionKey("x", 7, f"{_BEGUN_MS:011x}{0xABCDE:05x}")
    assert parse_id(key.id) == key
    assert key.begun_ms == _BEGUN_MS


@pytest.mark.parametrize("digits", [0, 15, 17, 42, 44, 86])
def test_nonces_of_other_lengths_are_nobodys(digits: int):
    assert parse_id(f"eA.1.{'0' * digits}") is None
