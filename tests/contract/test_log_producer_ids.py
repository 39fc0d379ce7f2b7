"""Producer ids are handed out once; the epochs of those with a name only rise, over crashes, folds and deletions.

It is long, as it holds a state machine beside the examples that explain it.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from delta_log import Appended, Log, ProducerIdentity, ProducerStamp, Record
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.maintenance import background as upkeep
from delta_log.model.errors import (
    Closed,
    InvalidName,
    NotOwner,
    OutcomeUnknown,
    OutOfOrderSequence,
    ProducerEpochTooHigh,
    StaleProducerEpoch,
    StorageRefused,
    TopicClosed,
)
from delta_log.records.idempotence import Producers
from tests.support.logs import Place, eventually, fold_producers, hold_tables, replace_settings

DAY_MS = 86_400_000


def send(log: Log, who: ProducerIdentity, sequence: int = 0, topic: str = "t") -> Appended:
    stamp = ProducerStamp(who.producer_id, who.epoch, sequence)
    return log.append(topic, [Record(b"%d" % sequence)], producer=stamp)


def forget_the_silent(log: Log, silent_since_ms: int) -> None:
    log._running.writer.alone(lambda: log._running.writer.producers.expire(silent_since_ms))


def test_without_a_name_an_id_is_handed_out_once_and_nothing_is_stored(place: Place):
    log = place.open()
    given = [log.init_producer() for _ in range(1000)]
    assert len({who.producer_id for who in given}) == 1000
    assert {who.epoch for who in given} == {0}
    assert log._running.catalog.producers(create=False) is None
    log.create_topic("t")
    assert [send(log, who).offsets() for who in given[:2]] == [[0], [1]]


def test_a_name_is_its_own_id_and_each_call_opens_its_next_epoch(log: Log):
    assert [log.init_producer("payments") for _ in range(3)] == [ProducerIdentity("payments", n) for n in range(3)]
    assert log.init_producer("other") == ProducerIdentity("other", 0)


def test_older_holders_are_shut_out_of_every_topic_and_the_new_one_begins_at_0_in_each(log: Log):
    for topic in ("t", "u", "v"):
        log.create_topic(topic)
    old = log.init_producer("p")
    for topic in ("t", "u"):
        send(log, old, 0, topic)
        send(log, old, 1, topic)
    new = log.init_producer("p")
    for topic in ("t", "u", "v"):
        for sequence in (0, 1, 2):
            with pytest.raises(StaleProducerEpoch) as refused:
                send(log, old, sequence, topic)
            assert (refused.value.current, refused.value.received) == (1, 0)
        with pytest.raises(OutOfOrderSequence) as early:
            send(log, new, 2, topic)
        assert early.value.expected == 0
        assert not send(log, new, 0, topic).duplicate
        assert send(log, new, 0, topic).duplicate


def test_an_epoch_that_a_request_brought_counts_too(log: Log):
    log.create_topic("t")
    send(log, ProducerIdentity("p", 7))
    assert log.init_producer("p").epoch == 8
    send(log, ProducerIdentity("p", 9))
    assert log.init_producer("p").epoch == 10


def test_calls_at_once_get_different_epochs(log: Log):
    log.create_topic("t")
    start = threading.Barrier(8)

    async def several(name: str) -> list[int]:
        return [who.epoch for who in await asyncio.gather(*(log.init_producer_async(name) for _ in range(5)))]

    def work(number: int) -> list[int]:
        start.wait()
        if number % 2:
            return asyncio.run(several("p"))
        found = []
        for _ in range(5):
            found.append(log.init_producer("p").epoch)
            log.append("t", [Record(b"beside it")])
        return found

    with ThreadPoolExecutor(8) as pool:
        epochs = [epoch for found in pool.map(work, range(8)) for epoch in found]
    assert sorted(epochs) == list(range(40))


@pytest.mark.parametrize("how", ["crash", "restart"])
@pytest.mark.parametrize("tabled", ["journaled", "tabled", "folded"])
def test_an_epoch_is_known_after_a_restart(place: Place, how: str, tabled: str):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    old = [log.init_producer("p"), log.init_producer("p")][1]
    send(log, old)
    new = log.init_producer("p")
    send(log, ProducerIdentity("q", 3))
    log.init_producer("q")
    if tabled == "folded":
        fold_producers(log)
    if tabled == "tabled":
        log.flush()
    (place.crash if how == "crash" else place.close)()
    log = place.open()
    for who in (old, ProducerIdentity("q", 3)):
        with pytest.raises(StaleProducerEpoch):
            send(log, who, 1)
    assert not send(log, new).duplicate
    assert (log.init_producer("p").epoch, log.init_producer("q").epoch) == (3, 5)


def test_an_epoch_is_known_after_its_topic_is_deleted(place: Place):
    log = place.open(replace_settings(producer_expiration_ms=DAY_MS))
    log.create_topic("t")
    send(log, ProducerIdentity("p", 5))
    log.delete_topic("t")
    forget_the_silent(log, place.clock() - DAY_MS)
    assert log.init_producer("p").epoch == 6


@pytest.mark.parametrize("folded", [True, False])
def test_an_epoch_lasts_as_long_as_anything_of_its_producer(place: Place, folded: bool):
    """Clocks run back now and then: the row that says the epoch may look older than another."""
    log = place.open(replace_settings(producer_expiration_ms=1000))
    log.create_topic("t")
    place.clock.turn(1000)
    send(log, ProducerIdentity("p", 3))
    place.clock.turn(-900)
    assert log.init_producer("p").epoch == 4
    place.clock.turn(1500)
    forget_the_silent(log, place.clock() - 1000)
    if folded:
        fold_producers(log)
        place.crash()
        log = place.open()
    assert log.init_producer("p").epoch == 5


@pytest.mark.parametrize("restart", [True, False])
def test_a_name_that_is_silent_for_long_is_forgotten(place: Place, restart: bool):
    log = place.open(replace_settings(producer_expiration_ms=1000))
    log.create_topic("t")
    assert [log.init_producer("p").epoch for _ in range(4)] == [0, 1, 2, 3]
    place.clock.turn(900)
    log.run_upkeep()
    assert log.init_producer("p").epoch == 4
    log.flush()
    place.clock.turn(1001)
    with mock.patch.object(upkeep, "CLEAN_EVERY_S", 0.0):
        log.run_upkeep()
    again = log.init_producer("p")
    assert again.epoch == 0
    assert not send(log, again).duplicate
    if restart:  # its old epochs still lie in the table, in front of the new one
        place.crash()
        log = place.open()
    assert not send(log, again, 1).duplicate
    assert log.init_producer("p").epoch == 1


@pytest.mark.parametrize("before", [5, 0])
@pytest.mark.parametrize("named", [True, False])
def test_what_was_forgotten_does_not_come_back_with_a_restart(place: Place, before: int, named: bool):
    """Its rows may still lie in the table; whoever took the id since is neither shut out nor taken for it."""
    chosen = replace_settings(producer_expiration_ms=1000)
    log = place.open(chosen)
    for topic in ("t", "u"):
        log.create_topic(topic)
        send(log, ProducerIdentity("p", before), 0, topic)
    log.flush()
    place.clock.turn(1001)
    forget_the_silent(log, place.clock() - 1000)
    again = log.init_producer("p") if named else ProducerIdentity("p", 0)
    assert again.epoch == 0
    assert send(log, again).offsets() == [1]
    place.crash()
    log = place.open(chosen)
    assert send(log, again, 1).offsets() == [2]
    assert send(log, again, 0, "u").offsets() == [1]


@pytest.mark.parametrize("how", ["crash", "restart"])
def test_a_name_of_which_somebody_used_up_the_epochs_goes_on(place: Place, how: str):
    """A log of before made-up epochs were refused."""
    log = place.open()
    for topic in ("t", "u"):
        log.create_topic(topic)
    mine, made_up = ProducerIdentity("p", 4), ProducerIdentity("p", 2**31 - 1)
    send(log, mine)
    with mock.patch.object(Producers, "_most_epoch", return_value=2**31 - 1):
        send(log, made_up, 0, "u")
    getattr(place, how if how == "crash" else "close")()
    log = place.open()
    with pytest.raises(StaleProducerEpoch):
        send(log, mine, 1)
    assert not send(log, made_up, 1, "u").duplicate, "what is stored is stored"
    assert [log.init_producer("p").epoch for _ in range(2)] == [2**29, 2**29 + 1]
    getattr(place, how if how == "crash" else "close")()
    log = place.open()
    for topic in ("t", "u"):
        assert not send(log, ProducerIdentity("p", 2**29 + 1), 0, topic).duplicate
        with pytest.raises(StaleProducerEpoch):
            send(log, mine, 1, topic)
        with pytest.raises(ProducerEpochTooHigh):
            send(log, made_up, 2, topic)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "\ud800", "e\u0301"])
def test_a_name_that_cannot_be_an_id_is_refused_and_nothing_is_stored(log: Log, name: str):
    with pytest.raises(InvalidName):
        log.init_producer(name)
    assert log._running.catalog.producers(create=False) is None


def test_a_closed_log_hands_out_nothing(place: Place):
    log = place.open()
    place.close()
    for name in (None, "p"):
        with pytest.raises(Closed):
            log.init_producer(name)


def test_what_the_journal_refused_opened_no_epoch(log: Log):
    log.create_topic("t")
    first = log.init_producer("p")
    real = log._running.journal.append

    def refuse(*_: object) -> None:
        raise StorageRefused("the journal", "a test")

    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageRefused):
        log.init_producer("p")
    log._running.journal.append = real  # type: ignore[method-assign]
    assert not send(log, first).duplicate
    assert log.init_producer("p").epoch == 1


def test_who_lost_the_root_while_the_call_waited_opens_no_epoch(place: Place):
    log = place.open()
    log.init_producer("p")
    writer, inside, go_on = log._running.writer, threading.Event(), threading.Event()

    def lose_the_root() -> None:
        inside.set()
        assert go_on.wait(20)
        writer.close(NotOwner("a test"))

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(writer.alone, lose_the_root)
        assert inside.wait(20)
        asking = pool.submit(log.init_producer, "p")
        eventually(lambda: writer.turns.waiting == 1)
        go_on.set()
        holding.result(20)
        assert isinstance(asking.exception(20), NotOwner)
    place.crash()
    assert place.open().init_producer("p").epoch == 1


def test_where_it_is_unknown_whether_an_epoch_was_stored_it_is_said_and_the_next_is_higher(place: Place):
    log = place.open()
    log.create_topic("t")
    log.init_producer("p")
    real = log._running.journal.append

    def write_and_fail(*group: object) -> None:
        real(*group)  # type: ignore[arg-type]
        raise RuntimeError("a test")

    log._running.journal.append = write_and_fail  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        log.init_producer("p")
    with pytest.raises(StorageRefused):
        log.init_producer("p")
    log._running.journal.append = real  # type: ignore[method-assign]
    place.crash()
    assert place.open().init_producer("p").epoch == 2


def test_what_is_durable_and_cannot_be_shown_is_not_said_to_have_failed(place: Place):
    log = place.open()
    log.init_producer("p")

    def break_down(*_: object) -> None:
        raise RuntimeError("a test")

    log._running.writer._show = break_down  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        log.init_producer("p")
    place.crash()
    assert place.open().init_producer("p").epoch == 2


def test_a_memory_of_producers_that_could_not_be_read_at_the_start_is_never_taken_for_an_empty_one(
    place: Place,
):
    log = place.open()
    log.create_topic("t")
    send(log, ProducerIdentity("p", 4))
    place.close()
    place.fail("read", "topics/__producers/", "refused", times=10**9)
    log = place.open()
    place.faults.clear()
    with pytest.raises(TopicClosed):
        log.init_producer("p")
    with pytest.raises(TopicClosed):
        send(log, ProducerIdentity("p", 4))
    assert log.append("t", [Record(b"plain")]).offsets() == [1]
    place.close()
    log = place.open()
    assert send(log, ProducerIdentity("p", 4)).duplicate
    assert log.init_producer("p").epoch == 5


class EpochMachine(RuleBasedStateMachine):
    """Epochs against a plain dictionary of who was heard of last, with which epoch, and when."""

    names = st.sampled_from(["p", "q", "r"])
    topics = st.sampled_from(["t", "u"])

    @initialize()
    def begin(self) -> None:
        self.no_background = mock.patch.object(CommitScheduler, "start", return_value=None)
        self.always_clean = mock.patch.object(upkeep, "CLEAN_EVERY_S", 0.0)
        self.no_background.start()
        self.always_clean.start()
        self.place = Place(None)
        self.settings = replace_settings(producer_expiration_ms=1000)
        self.log = self.place.open(self.settings)
        for topic in ("t", "u"):
            self.log.create_topic(topic)
        self.heard: dict[str, tuple[int, int]] = {}
        self.next: dict[tuple[str, str], tuple[int, int]] = {}

    def is_fresh(self, at: int) -> bool:
        return self.place.clock() - at <= 1000

    def surely_known(self, name: str) -> bool:
        return name in self.heard and self.is_fresh(self.heard[name][1])

    def hear(self, name: str, epoch: int, *, anew: bool) -> None:
        if anew:
            self.next = {key: known for key, known in self.next.items() if key[0] != name}
        self.heard[name] = (epoch, self.place.clock())

    @rule(name=names)
    def bump(self, name: str) -> None:
        epoch = self.log.init_producer(name).epoch
        wanted = self.heard.get(name, (-1, 0))[0] + 1
        assert epoch == wanted or (epoch == 0 and not self.surely_known(name))
        self.hear(name, epoch, anew=True)

    @rule(name=names, topic=topics, by=st.sampled_from([0, 0, 0, 1]))
    def append(self, name: str, topic: str, by: int) -> None:
        """Where a producer was silent for long, in this topic alone or at all, it goes on in a higher epoch."""
        sequence, at = self.next.get((name, topic), (0, self.place.clock()))
        if not self.surely_known(name) or not self.is_fresh(at):
            by = by or 1
        epoch = self.heard.get(name, (-1, 0))[0] + by
        if by:
            sequence = 0
        if epoch >= 0:
            assert not send(self.log, ProducerIdentity(name, epoch), sequence, topic).duplicate
            self.hear(name, epoch, anew=by > 0)
            self.next[name, topic] = (sequence + 1, self.place.clock())

    @rule(name=names, topic=topics, by=st.integers(2, 40_000))
    def append_in_an_epoch_that_is_made_up(self, name: str, topic: str, by: int) -> None:
        if self.surely_known(name):
            current = self.heard[name][0]
            with pytest.raises(ProducerEpochTooHigh) as refused:
                send(self.log, ProducerIdentity(name, current + by), 0, topic)
            assert refused.value.current == current

    @rule(name=names, topic=topics, back=st.integers(1, 3))
    def append_in_an_old_epoch(self, name: str, topic: str, back: int) -> None:
        if self.surely_known(name) and self.heard[name][0] >= back:
            with pytest.raises(StaleProducerEpoch) as refused:
                send(self.log, ProducerIdentity(name, self.heard[name][0] - back), 0, topic)
            assert refused.value.current == self.heard[name][0]

    @rule(by=st.sampled_from([1, 400, 1000, 1001]))
    def time_passes(self, by: int) -> None:
        self.place.clock.turn(by)

    @rule()
    def upkeep(self) -> None:
        self.log.run_upkeep()

    @rule()
    def fold(self) -> None:
        if self.log._running.catalog.producers(create=False) is not None:
            fold_producers(self.log)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(topic=topics)
    def delete_and_create_again(self, topic: str) -> None:
        self.log.delete_topic(topic)
        self.log.create_topic(topic)
        self.next = {key: known for key, known in self.next.items() if key[1] != topic}

    @rule(how=st.sampled_from(["crash", "close"]))
    def start_again(self, how: str) -> None:
        end: Callable[[], None] = self.place.crash if how == "crash" else self.place.close
        end()
        self.log = self.place.open(self.settings)

    def teardown(self) -> None:
        self.place.close()
        self.always_clean.stop()
        self.no_background.stop()


class TestEpochs(EpochMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow])
