"""Open transactions are found as if all of them were looked at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from delta_log.model.transaction_bounds import Bounds
from delta_log.transactions.buffered_records import BufferedRecords
from delta_log.transactions.open_transactions import OpenTransactions
from delta_log.transactions.transaction import Transaction
from delta_log.transactions.transaction_id import TransactionKey

NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from((10, 10, 50)), st.integers(0, 9), st.integers(0, 3)), max_size=40
)


def begin(name: str, epoch: int, now_ms: int, lasts_ms: int) -> Transaction:
    key = TransactionKey.fresh(name, epoch, now_ms, epoch)
    return Transaction(key, now_ms + lasts_ms, BufferedRecords(key, Bounds()))


@given(STEPS)
def test_what_is_open_is_found_by_its_id_its_name_and_its_time(steps: list[tuple[str, int, int, int]]):
    found, model, now_ms = OpenTransactions(), list[Transaction](), 1_000
    for epoch, (name, lasts_ms, passes_ms, ends) in enumerate(steps):
        now_ms += passes_ms
        begun = begin(name, epoch, now_ms, lasts_ms)
        found.add(begun)
        model.append(begun)
        for ended in model[:ends]:
            found.remove(ended)
            found.remove(ended)
        del model[:ends]
        assert (found.all(), len(found)) == (model, len(model))
        assert all(found.get(each.key.id) is each for each in model)
        for named in NAMES:
            assert found.of_name(named) == [each for each in model if each.key.transactional_id == named]
        assert set(found.overdue(now_ms)) == {each for each in model if each.deadline_ms <= now_ms}
    for each in model:
        found.remove(each)
    assert (found._all, found._named, found._lasting) == ({}, {}, {})
