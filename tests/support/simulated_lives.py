"""Lives of a simulated log in which topics go and come again, and transactions are committed over several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delta_log import ProducerStamp, Record
from delta_log.model.errors import (
    LakelogError,
    TopicExists,
    TransactionAborted,
    TransactionFenced,
    UnknownTopic,
    UnknownTransaction,
)
from delta_log.transactions.transaction_log import Committed
from tests.support.simulated_promises import Promises
from tests.support.simulated_store import alone_with
from tests.support.simulation import CONFIG, MEDDLING, PARTITIONS, STEP, STEPS, TOPICS, TROUBLE, Owner, World

#: Of so many seeds these tell of more; the others tell what they always told.
_OF_SEEDS, _WIDE = 7, (0, 2)
WIDE_STEP = (*STEP, *("recreate", "recreate", "transact", "transact", "transact", "settle"))
#: What is said of a transaction that was not committed and never will be.
NEVER = (TransactionAborted, TransactionFenced, UnknownTransaction)


@dataclass(frozen=True)
class Share:
    """What a transaction brings to one partition."""

    promises: Promises
    value: str


class WideWorld(World):
    """`dying` are topics whose deletion may have been decided; of those that are `gone` it is known.

    Of these somebody `tried` to make some anew.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.step = WIDE_STEP
        self.dying: set[str] = set()
        self.gone: set[str] = set()
        self.tried: set[str] = set()
        self.doubts: dict[str, list[Share]] = {}
        self.may |= {"recreate": self.recreate, "transact": self.transact, "settle": self.settle}

    def send(self, owner: Owner, promises: Promises, value: str, stamp: ProducerStamp | None = None) -> bool:
        """A topic that takes a record is there, and was not deleted by what nobody knew the outcome of."""
        stored = super().send(owner, promises, value, stamp)
        if stored:
            assert promises.topic not in self.gone or promises in self.promises
            self.dying.discard(promises.topic)
        return stored

    def recreate(self) -> None:
        """Delete a topic and make it anew, or go on where that failed."""
        topic = self.chance.choice(TOPICS)
        log = self.owner.log
        try:
            if topic not in self.gone:
                known = topic not in self.dying
                self.dying.add(topic)
                try:
                    log.delete_topic(topic)
                except UnknownTopic:
                    assert not known, f"{topic} is gone, and nobody deleted it"
                self.retire(topic)
            self.create(topic)
        except LakelogError as error:
            self.note(topic, type(error).__name__)

    def create(self, topic: str) -> None:
        """It may be there by a try of which nobody knew the outcome."""
        tried = topic in self.tried
        self.tried.add(topic)
        try:
            self.owner.log.create_topic(topic, PARTITIONS, CONFIG)
        except TopicExists:
            assert tried, f"{topic} is deleted, and cannot be made anew"
        self.tried.discard(topic)
        self.gone.discard(topic)
        self.count_up("made anew")

    def retire(self, topic: str) -> None:
        """Nothing of it may be seen in its next life."""
        self.dying.discard(topic)
        self.gone.add(topic)
        self.pending.pop(topic, None)
        self.sequences[topic] = 0
        self.promises = [
            Promises(each.topic, each.partition) if each.topic == topic else each for each in self.promises
        ]

    def transact(self) -> None:
        """Records for several partitions, and an answer to all of them."""
        shares = [Share(each, self.fresh_value()) for each in self.chance.sample(self.promises, 3)]
        log, was_replaced, begun = self.owner.log, self.owner.replaced, ""
        for share in shares:
            share.promises.sent[share.value] = self.now_ms
        try:
            begun = log.transactions.begin("x").id
            for share in shares:
                record = Record(share.value.encode(), partition=share.promises.partition)
                log.transactions.append(begun, share.promises.topic, [record])
            committed = log.transactions.commit(begun)
        except LakelogError as error:
            self.note(type(error).__name__)
            if error.outcome == "not_attempted":
                self.refuse(shares)
            else:
                self.doubts[begun] = shares
                self.count_up("a transaction in doubt")
        else:
            assert not was_replaced, "a replaced owner committed a transaction"
            self.acknowledge(shares, committed)

    def settle(self) -> None:
        """Ask again what became of those in doubt: what is said then is true for ever."""
        for transaction, shares in list(self.doubts.items()):
            try:
                committed = self.owner.log.transactions.commit(transaction)
            except NEVER:
                self.refuse(shares)
                self.count_up("never committed")
            except LakelogError as error:
                self.note(type(error).__name__)
                continue
            else:
                self.acknowledge(shares, committed)
                self.count_up("committed after all")
            del self.doubts[transaction]

    def refuse(self, shares: Sequence[Share]) -> None:
        for share in shares:
            share.promises.refused.add(share.value)

    def acknowledge(self, shares: Sequence[Share], committed: Committed) -> None:
        """Each topic's ranges have the values of each partition in the order in which they were added."""
        self.count_up("committed")
        for at in committed.ranges:
            for given in at.ranges:
                values = [
                    share.value
                    for share in shares
                    if (share.promises.topic, share.promises.partition) == (at.topic, given.partition)
                ]
                assert len(values) == given.count
                for offset, value in enumerate(values, given.base_offset):
                    next(share for share in shares if share.value == value).promises.acknowledge(value, offset)

    def look(self) -> None:
        """Whoever reads the tables sees a topic until its deletion is carried out there."""
        if not self.dying and not self.gone:
            super().look()

    def retain(self) -> None:
        if not self.dying and not self.gone:
            super().retain()

    def check(self) -> None:
        self.arrive()
        self.restart()
        for topic in TOPICS:
            if topic not in self.gone and topic not in self.owner.log.topics():
                assert topic in self.dying, f"{topic} is gone, and nobody deleted it"
                self.retire(topic)
            if topic in self.gone:
                self.create(topic)
        self.settle()
        super().check()
        for shares in self.doubts.values():
            there = [share.value in share.promises.seen.values() for share in shares]
            whole = all(there) or not any(there) or any(share.promises.start for share in shares)
            assert whole, "a part of a transaction is there"


def play(seed: int, *, worst: bool = False) -> World:
    """All of one seed; an AssertionError where a promise is broken. `worst` is with all trouble that there can be."""
    with alone_with(seed):
        world = WideWorld(seed) if seed % _OF_SEEDS in _WIDE else World(seed)
        try:
            world.open()
            for topic in TOPICS:
                world.owner.log.create_topic(topic, PARTITIONS, CONFIG)
            trouble, meddling = world.chance.choice(TROUBLE), world.chance.choice(MEDDLING)
            if worst:
                trouble, meddling = TROUBLE[-1], MEDDLING[-1]
            for _ in range(STEPS):
                world.trouble, world.meddling = trouble, meddling
                what = world.chance.choice(world.step)
                world.note(what)
                world.may[what]()
            world.check()
        finally:
            world.close()
    return world
