"""Work that several may do at once, and again: each version is committed once, and of its stages those that count."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.model.errors import (
    InvalidName,
    OutcomeUnknown,
    OutOfOrderSequence,
    SequenceReused,
    StorageRefused,
    TransactionDecided,
    TransactionError,
    TransactionFenced,
    UnknownStage,
    VersionDecided,
)
from delta_log.model.transaction_bounds import Bounds
from tests.support.logs import Place, replace_settings, values_of


def begun(place: Place, **bounds: int) -> Log:
    log = place.open(replace_settings(transactions=replace(Bounds(), **bounds)))
    log.create_topic("t", 2)
    return log


@pytest.fixture
def log(place: Place) -> Log:
    return begun(place)


def put(log: Log, transaction: str, value: bytes, stage: str | None = None, stamp: ProducerStamp | None = None) -> bool:
    return log.transactions.append(transaction, "t", [Record(value, partition=0)], stamp, stage).duplicate


def test_who_begins_an_open_version_joins_it_and_no_other(log: Log):
    first = log.transactions.begin("sink", version=0)
    assert log.transactions.begin("sink", version=0).id == first.id
    assert log.transactions.begin("other", version=0).id != first.id
    with ThreadPoolExecutor(8) as threads:
        ids = {each.id for each in threads.map(lambda _: log.transactions.begin("crowd", version=7), range(16))}
    assert len(ids) == 1
    later = log.transactions.begin("sink", version=1)
    assert (later.id, later.epoch) != (first.id, first.epoch)
    with pytest.raises(TransactionFenced):
        put(log, first.id, b"x")


def test_a_version_is_committed_once_and_none_below_it_ever(place: Place):
    log = begun(place)
    for number in (3, 4, 9):
        each = log.transactions.begin("sink", version=number)
        put(log, each.id, b"%d" % number)
        assert log.transactions.commit(each.id).version == number
    for again in (place.crash, place.close, lambda: None):
        for number in (0, 4, 9):
            with pytest.raises(VersionDecided) as refused:
                log.transactions.begin("sink", version=number)
            assert refused.value.decided == 9
        again()
        log = place.log or place.open()
    log.transactions.commit(log.transactions.begin("sink", version=10).id)
    assert values_of(log, "t", 0) == [b"3", b"4", b"9"]


def test_a_transaction_that_began_too_early_to_know_is_refused_by_its_commit(log: Log):
    log.transactions.commit(log.transactions.begin("sink", version=1).id)
    late = log.transactions._beginning.open("sink", None, 1)
    put(log, late.id, b"twice")
    for _ in range(2):
        with pytest.raises(VersionDecided):
            log.transactions.commit(late.id)
    assert log.transactions.describe(late.id).state == "aborted"
    assert values_of(log, "t", 0) == []


def test_an_aborted_version_may_be_begun_again(log: Log):
    first = log.transactions.begin("sink", version=1)
    put(log, first.id, b"x")
    log.transactions.abort(first.id)
    again = log.transactions.begin("sink", version=1)
    assert again.id != first.id
    put(log, again.id, b"y")
    log.transactions.commit(again.id)
    assert values_of(log, "t", 0) == [b"y"]


def test_the_highest_version_outlasts_other_commits_and_all_time(place: Place):
    log = begun(place, expiration_ms=1000)
    log.transactions.commit(log.transactions.begin("sink", version=5).id)
    for _ in range(7):
        plain = log.transactions.begin("sink")
        assert log.transactions.commit(plain.id).version == 5
    log.transactions.commit(log.transactions.begin("plain").id)
    place.clock.turn(700_000)
    log.transactions.expire()
    for how in (lambda: None, place.crash, place.close):
        how()
        log = place.log or place.open(replace_settings(transactions=replace(Bounds(), expiration_ms=1000)))
        with pytest.raises(VersionDecided):
            log.transactions.begin("sink", version=5)
        assert len(log.transactions._standing.decisions) == 1, "the other one is forgotten"
        assert log.transactions.describe(plain.id).state == "committed"
    place.clock.turn(700_000)
    log.transactions.expire()
    log.transactions.commit(log.transactions.begin("sink", version=6).id)


def test_a_version_in_doubt_is_settled_by_who_begins_it_again(log: Log):
    first = log.transactions.begin("sink", version=1)
    put(log, first.id, b"x")
    real = log._running.journal.append

    def unknown(*_: object) -> None:
        raise OutcomeUnknown("the journal", "a test")

    log._running.journal.append = unknown  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        log.transactions.commit(first.id)
    with pytest.raises((OutcomeUnknown, StorageRefused)):
        log.transactions.begin("sink", version=1)
    log._running.journal.append = real  # type: ignore[method-assign]
    again = log.transactions.begin("sink", version=1)
    assert again.id != first.id
    with pytest.raises(TransactionFenced):
        log.transactions.commit(first.id)
    put(log, again.id, b"y")
    log.transactions.commit(again.id)
    assert values_of(log, "t", 0) == [b"y"]


@pytest.mark.parametrize("version", [-1, 2**63, "1", True])
def test_a_version_is_a_whole_number(log: Log, version: object):
    with pytest.raises(TransactionError):
        log.transactions.begin("sink", version=version)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [1, 1 << 20], ids=["spilled", "in memory"])
def test_only_the_stages_that_are_named_count_and_in_that_order(place: Place, memory: int):
    log = begun(place, memory_bytes=memory)
    each = log.transactions.begin("sink", version=1).id
    for value, stage in [(b"a0", "a"), (b"b0", "b"), (b"none", None), (b"lost", "killed"), (b"a1", "a"), (b"b1", "b")]:
        put(log, each, value, stage)
    log.transactions.append(each, "t", pa.table({"value": [b"b2"] * 600}), None, "b")
    with pytest.raises(UnknownStage):
        log.transactions.commit(each, ["b", "c"])
    assert log.transactions.describe(each).state == "open"
    committed = log.transactions.commit(each, ["b", "a", "b"])
    assert sum(given.count for stored in committed.ranges for given in stored.ranges) == 605
    found = [value for value in values_of(log, "t", 0) if value != b"b2"]
    assert found == [b"none", b"b0", b"b1", b"a0", b"a1"]
    assert log.transactions.commit(each, ["killed"]) == committed
    before = [values_of(log, "t", partition) for partition in range(2)]
    place.crash()
    log = place.open()
    assert [values_of(log, "t", partition) for partition in range(2)] == before
    log.flush()
    assert [values_of(log, "t", partition) for partition in range(2)] == before


def test_each_stage_has_numbers_of_its_own(log: Log):
    each = log.transactions.begin("sink", version=1)

    def numbered(value: bytes, stage: str | None, sequence: int) -> bool:
        return put(log, each.id, value, stage, ProducerStamp("sink", each.epoch, sequence))

    for stage in ("a", "b", None):
        assert [numbered(value, stage, at) for at, value in enumerate([b"0", b"1"])] == [False, False]
        assert numbered(b"1", stage, 1)
        with pytest.raises(OutOfOrderSequence):
            numbered(b"3", stage, 3)
    with pytest.raises(SequenceReused):
        log.transactions.append(each.id, "t", [Record(b"x")] * 2, ProducerStamp("sink", each.epoch, 1), "a")
    log.transactions.commit(each.id, ["b"])
    assert values_of(log, "t", 0) == [b"0", b"1"] * 2


def test_without_a_choice_every_stage_counts_and_nothing_comes_behind_a_commit(log: Log):
    each = log.transactions.begin("sink").id
    for stage in ("a", None, "b"):
        put(log, each, str(stage).encode(), stage)
    with pytest.raises(InvalidName):
        put(log, each, b"x", "")
    log.transactions.commit(each)
    with pytest.raises(TransactionDecided):
        put(log, each, b"late", "a")
    assert values_of(log, "t", 0) == [b"a", b"None", b"b"]


def test_a_choice_of_no_stage_is_a_commit_of_nothing(log: Log):
    each = log.transactions.begin("sink", version=1).id
    put(log, each, b"x", "a")
    log.transactions.commit(each, [])
    assert values_of(log, "t", 0) == []
    with pytest.raises(VersionDecided):
        log.transactions.begin("sink", version=1)
