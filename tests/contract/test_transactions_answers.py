"""What those are told who commit, abort or send again, whoever does what at the same time."""

import pytest

from delta_log import Log, Record
from delta_log.errors import TransactionDecided
from tests.support.logs import Place, values_of
from tests.support.racing import be_quicker_to


@pytest.fixture
def log(place: Place) -> Log:
    log = place.open()
    log.create_topic("t")
    return log


def test_who_aborts_what_is_committed_before_him_is_told_so(log: Log):
    """Whoever is first at its lock has it; who comes behind is not told what it was when he asked."""
    begun = log.transactions.begin("x")
    log.transactions.append(begun.id, "t", [Record(b"a")])
    be_quicker_to(log, begun.id, lambda: log.transactions.commit(begun.id))
    with pytest.raises(TransactionDecided, match="is committed"):
        log.transactions.abort(begun.id)
    assert values_of(log, "t") == [b"a"]
    under_way = log.transactions.begin("x")
    be_quicker_to(log, under_way.id, lambda: log.transactions._committing.start(under_way.id))
    with pytest.raises(TransactionDecided, match="being committed"):
        log.transactions.abort(under_way.id)
