"""Consumers' deciding parts, a model server, and between them a network and a clock that do what a test chooses.

A request may be delivered late, long after its sender gave it up, or never; an answer may be lost; the server may say
no, or begin anew; a consumer may stand still for longer than its session, or be killed. The laws, at every step:

- nothing is committed that was not handed out, to somebody who came back for more, or committed it himself;
- a record is handed out only in a partition that its consumer was told to be his, and has not heard to be gone;
- from then on each partition's records come one after the other, without a gap and none twice, until it goes, or the
  caller seeks.

At the end of a play, when the network is mended, everything was handed out, and everybody can leave. If nobody died,
stood still or was too slow, and no commit or poll came late, nothing was handed out twice.

It is long, as the server, the network and the laws know of each other, and of nothing else.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from consumer_groups.model.assignment import TopicPartition
from lakelog.consume.consumption import Consumption
from lakelog.consume.effects import Call, Doing, Wait
from lakelog.consume.rebalance_callbacks import Listener
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.shapes import ConsumerRecord
from lakelog.consume.subscription import Topics
from lakelog.foundation.errors import LakelogError
from lakelog.transport.exchange import Answer, AnswerLost, NotSent, Outcome, Request
from lakelog.transport.retry import Heard
from tests.support.consumer_model import ModelServer, value_at

SETTINGS = {
    "bootstrap.servers": "model:1",
    "group.id": "g",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 1_000,
    "rebalance.timeout.ms": 8_000,
    "max.poll.interval.ms": 30_000,
    "auto.commit.interval.ms": 500,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "default.api.timeout.ms": 5_000,
    "max.poll.records": 3,
}
#: Nobody is ever too slow.
PATIENT = {
    "session.timeout.ms": 1_800_000,
    "rebalance.timeout.ms": 3_600_000,
    "max.poll.interval.ms": 2**31 - 1,
    "default.api.timeout.ms": 2**31 - 1,
}
NO = (
    (503, b'{"error_code":503,"message":"not now","retriable":true,"outcome":"not_attempted"}'),
    (429, b'{"error_code":429,"message":"later"}'),
    (502, b"<html>a proxy</html>"),
)
TOPIC = "t"
_STEPS = 3_000


@dataclass(eq=False)
class Actor:
    """A generator that somebody drives, and what it waits for."""

    of: Reader
    doing: Doing[Any]
    done: Callable[[Any, BaseException | None], None]
    step: Request | Wait | None = None
    outcome: Outcome | None = None
    """Of a poll that waits in vain: what it is told when its time is over."""
    outcome_at: float = 0.0
    seen: int = -1
    ended: bool = False


class Reader:
    """A consumer and its caller."""

    def __init__(self, play: Play, name: str, **more: object) -> None:
        self.play, self.name = play, name
        names = itertools.count()
        self.consumption = Consumption(ConsumerSettings.of(SETTINGS | more), lambda: f"{name}{next(names)}")
        self.known, self.calls = self.consumption.known, self.consumption.calls
        #: In which life of the topic, and what comes next; None until something came.
        self.mine: dict[TopicPartition, tuple[str, int] | None] = {}
        self.calling = False
        self.closing = self.closed = False
        self.frozen_until = 0.0
        self.alive = True
        self.errors: list[LakelogError] = []
        self.actors = [Actor(self, lane.run(), self._lane_ended) for lane in self.consumption.lanes]
        self.subscribe((TOPIC,))

    def call(self, doing: Doing[Any], done: Callable[[Any], None]) -> None:
        assert not self.calling
        self.calling = True

        def end(value: Any, error: BaseException | None) -> None:
            self.calling = False
            if error is None:
                done(value)
            elif isinstance(error, LakelogError):
                self.errors.append(error)
            else:
                raise error

        self.actors.append(Actor(self, doing, end))

    def poll(self, timeout: float) -> None:
        self.play.came_back(self)
        self.call(self.calls.poll_rows(timeout, 3), self._handed)

    def commit(self) -> None:
        self.play.came_back(self)
        self.call(self.calls.commit(None, None), lambda _: None)

    def close(self) -> None:
        self.play.came_back(self)
        self.closing = True
        self.call(self.calls.close(None, commit=True), self._end)

    def seek(self, chance: random.Random) -> None:
        if self.mine:
            partition = chance.choice(sorted(self.mine))
            held = self.known.held.get(partition)
            if held is not None and held.stays:
                offset = chance.randrange(self.play.server.ends[partition].end_offset + 1)
                self.calls.seek({partition: offset})
                self.mine[partition] = None
                self.play.sought = True

    def pause(self, chance: random.Random, *, paused: bool) -> None:
        held = sorted(partition for partition in self.mine if partition in self.known.held)
        if held:
            self.calls.pause([chance.choice(held)], paused=paused)

    def change_mind(self, *, at_once: bool) -> None:
        """Away from the topic, and back at once, or when it was told that its partitions go."""
        topics = ("other",) if self.known.wanted == Topics((TOPIC,)) else (TOPIC,)
        self.subscribe(topics)
        if at_once:
            self.subscribe((TOPIC,))

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.calls.subscribe(Topics(topics), Listener(self._gained, self._going, self._lost), self.play.now)

    def _end(self, _: Any) -> None:
        self.closed = True

    def _lane_ended(self, _value: Any, error: BaseException | None) -> None:
        assert error is None, error
        assert self.known.ended

    def _gained(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            assert partition not in self.mine, "told twice that it is his"
            self.mine[partition] = None

    def _going(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            del self.mine[partition]

    def _lost(self, partitions: list[TopicPartition]) -> None:
        self.play.lost_some = True
        self._going(partitions)

    def _handed(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            assert partition in self.mine, "a record of what is not his"
            life = bytes(record.value).decode().rpartition(" ")[2]
            assert record.value == value_at(partition, record.offset, life)
            expected = self._behind_letters(partition)
            assert expected in (None, (life, record.offset)), f"{partition} goes on at {record.offset}, not {expected}"
            self.mine[partition] = life, record.offset + 1
            self.play.handed[partition, life][record.offset] += 1
            self.play.not_done[self].add((partition, life, record.offset))

    def _behind_letters(self, partition: TopicPartition) -> tuple[str, int] | None:
        expected = self.mine[partition]
        while expected is not None and (partition, expected[1]) in self.play.server.letters:
            expected = expected[0], expected[1] + 1
        return expected


class Play:
    def __init__(self, chance: random.Random, *, partitions: int, hostile: bool, patient: bool) -> None:
        self.chance = chance
        self.now = 100.0
        self.server = ModelServer(**{TOPIC: partitions})
        self.server.now = 100_000
        self.readers: list[Reader] = []
        self.late: list[Request] = []
        self.hostile = hostile
        self._settings = PATIENT if patient else {}
        #: Of each partition in each life of its topic how often each offset was handed out.
        self.handed: dict[tuple[TopicPartition, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        #: What was handed out, and its caller has not come back since.
        self.not_done: dict[Reader, set[tuple[TopicPartition, str, int]]] = defaultdict(set)
        self.checked = 0
        self.names = itertools.count()
        self.lost_some = self.sought = self.harmed = self.remade = False

    @property
    def life(self) -> str:
        return self.server.topics[TOPIC].topic_id

    def able_readers(self) -> list[Reader]:
        return [each for each in self.readers if each.alive and not each.closed and self.now >= each.frozen_until]

    def idle_readers(self) -> list[Reader]:
        """Those whose callers are in no call."""
        return [each for each in self.able_readers() if not each.calling]

    # --- what can happen

    def open(self) -> Reader:
        reader = Reader(self, f"reader{next(self.names)}-", **self._settings)
        self.readers.append(reader)
        return reader

    def kill(self, reader: Reader) -> None:
        """Nothing of it is heard any more."""
        reader.alive = False
        self.harmed = True

    def freeze(self, reader: Reader, seconds: float) -> None:
        reader.frozen_until = self.now + seconds
        self.harmed = True

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.server.pass_time(int(seconds * 1000))

    def make_anew(self) -> None:
        """The topic is deleted, and one of its name made."""
        self.server.change_topic(TOPIC, self.server.topics[TOPIC].partitions, f"{TOPIC}-{next(self.names)}")
        self.remade = True

    def came_back(self, reader: Reader) -> None:
        self.not_done[reader].clear()

    def act(self) -> bool:
        """One thing that can be done now, by chance; False if there is none."""
        ready = [actor for reader in self.readers for actor in reader.actors if self._can_go(actor)]
        if not ready:
            return False
        actor = self.chance.choice(ready)
        outcome = actor.outcome
        if isinstance(actor.step, Request) and outcome is None:
            outcome = self._send(actor.step)
            if isinstance(outcome, Answer) and outcome.body == b"[]":
                actor.outcome, actor.outcome_at = outcome, self.now + 0.5
                return True
        actor.outcome = None
        self._advance(actor, outcome)
        self._check_commits()
        return True

    def idle(self) -> None:
        """Until the next thing is due."""
        actors = [actor for reader in self.readers if reader.alive for actor in reader.actors]
        due = [each.step.until for each in actors if isinstance(each.step, Wait) and each.step.until is not None]
        due += [each.outcome_at for each in actors if each.outcome is not None]
        self.pass_time(max(0.001, min([*due, self.now + 1.0]) - self.now))

    def deliver_late(self) -> None:
        """What its sender gave up, and asked anew: it may harm.

        A commit may lower what is committed; a poll says what had arrived by then, as if nothing had since. Then
        records come again.
        """
        if self.late:
            request, before = self.late.pop(self.chance.randrange(len(self.late))), len(self.server.commits)
            self.server.receive(request)
            self.harmed = self.harmed or request.method == "GET" or len(self.server.commits) > before
            self._check_commits()

    def _can_go(self, actor: Actor) -> bool:
        reader = actor.of
        if actor.ended or not reader.alive or self.now < reader.frozen_until:
            return False
        if isinstance(actor.step, Wait):
            return reader.known.changes != actor.seen or (actor.step.until is not None and actor.step.until <= self.now)
        return actor.outcome is None or actor.outcome_at <= self.now

    def _advance(self, actor: Actor, outcome: Outcome | None) -> None:
        try:
            if actor.seen < 0:
                step = next(actor.doing)
            else:
                step = actor.doing.send(Heard(self.now, self.chance.random(), outcome))
            while isinstance(step, Call):
                step.act(*step.given)
                step = actor.doing.send(Heard(self.now, 0.5, None))
            actor.step, actor.seen = step, actor.of.known.changes
        except StopIteration as end:
            self._finish(actor, end.value, None)
        except LakelogError as error:
            self._finish(actor, None, error)

    def _finish(self, actor: Actor, value: Any, error: BaseException | None) -> None:
        actor.ended = True
        actor.of.actors.remove(actor)
        actor.done(value, error)

    def _send(self, request: Request) -> Outcome:
        if not self.hostile or self.chance.random() < 0.7:
            return self.server.receive(request)
        match self.chance.randrange(5):
            case 0:
                return NotSent("refused")
            case 1:
                self.server.receive(request)
                return AnswerLost("cut")
            case 2:
                self.late.append(request)
                return AnswerLost("cut")
            case 3:
                status, body = self.chance.choice(NO)
                return Answer(status, {}, body)
            case _:
                return AnswerLost("cut before it came")

    # --- the laws

    def _check_commits(self) -> None:
        for committed in self.server.commits[self.checked :]:
            for partition, offset in committed.items():
                open_ones = {each for reader in self.readers for each in self.not_done[reader]}
                for before in range(offset):
                    times = self.handed[partition, self.life][before]
                    assert times or self.sought, (
                        f"{partition} is committed to {offset}, and {before} is handed to nobody"
                    )
                    alone = times == 1 and (partition, before) in open_ones
                    assert not alone, f"{partition} is committed to {offset}, and {before} is still with its caller"
        self.checked = len(self.server.commits)

    def finish(self) -> None:
        """The network is mended, and somebody reads all there is; then everybody leaves."""
        self.hostile = False
        self.late.clear()
        for reader in self.readers:
            reader.frozen_until = 0.0
        self._run(self._all_handed, "everything is handed out")
        for reader in self.readers:
            if reader.alive and not reader.closing:
                self._run(lambda reader=reader: not reader.calling, "a call ends")
                reader.close()
        self._run(lambda: all(each.closed or not each.alive for each in self.readers), "everybody leaves")
        if not (self.sought or self.harmed or (self.lost_some and not self.remade)):
            twice = [f"{each[0]}@{at}" for each, its in self.handed.items() for at, times in its.items() if times > 1]
            assert not twice, f"nobody was harmed, and {twice} were handed out twice"

    def _all_handed(self) -> bool:
        if not any(reader.alive and not reader.closing for reader in self.readers):
            self.open()
        for reader in self.readers:
            if reader.alive and not reader.closed and not reader.calling:
                reader.calls.pause(list(reader.known.held), paused=False)
                if reader.known.wanted != Topics((TOPIC,)):
                    reader.subscribe((TOPIC,))
                reader.poll(0.5)
        if self.sought:
            return all(self.server.committed(each) == known.end_offset for each, known in self.server.ends.items())
        return all(
            self.handed[each, self.life][offset]
            for each, known in self.server.ends.items()
            for offset in range(known.end_offset)
        )

    def _run(self, until: Callable[[], bool], what: str) -> None:
        for _ in range(_STEPS):
            if until():
                return
            if not self.act():
                self.idle()
        raise AssertionError(f"it never came that {what}")
