"""What a producer promises holds in every play of its deciding part against a model server and a hostile network.

By Hypothesis, which finds the shortest play that breaks a law, and by many more plays of plain chance.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conftest import examples
from tests.support.client_play import PAUSES_S, REFUSALS, TOPICS, Play, Refusal

#: LAKELOG_PLAYS=100000 for a long run; LAKELOG_SEED for other ones.
PLAYS = int(os.environ.get("LAKELOG_PLAYS", "1500"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
NUMBERS = st.integers(0, 4)
BATCH_SIZES = (1, 1, 300, 100_000)


class Producing(RuleBasedStateMachine):
    """Every rule is something that the producer, the network or the server does."""

    @initialize(
        linger_ms=st.sampled_from([0, 50]),
        batch_size=st.sampled_from(BATCH_SIZES),
        in_flight=st.integers(1, 5),
        retries=st.sampled_from([0, 1, 1000]),
    )
    def open(self, linger_ms: int, batch_size: int, in_flight: int, retries: int):
        self.play = Play(
            idempotent=True, linger_ms=linger_ms, batch_size=batch_size, in_flight=in_flight, retries=retries
        )

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 3), bad=st.integers(0, 20))
    def send(self, topic: str, count: int, bad: int):
        self.play.send(topic, count, bad)

    @rule(seconds=st.sampled_from(PAUSES_S))
    def pass_time(self, seconds: float):
        self.play.pass_time(seconds)

    @rule(most=st.integers(1, 5))
    def act(self, most: int):
        self.play.act(most)

    @rule()
    def flush(self):
        self.play.outbox.flush()

    @rule(number=NUMBERS)
    def answer(self, number: int):
        self.play.answer(number)

    @rule(number=NUMBERS, delivered=st.booleans())
    def lose(self, number: int, delivered: bool):
        self.play.lose(number, delivered=delivered)

    @rule(number=NUMBERS, what=st.sampled_from(REFUSALS))
    def refuse(self, number: int, what: Refusal):
        self.play.refuse(number, what)

    @rule(number=NUMBERS)
    def arrive_late(self, number: int):
        self.play.arrive_late(number)

    @rule(topic=st.sampled_from(TOPICS))
    def make_anew(self, topic: str):
        self.play.make_anew(topic)

    @invariant()
    def the_laws_of_every_moment_hold(self):
        if hasattr(self, "play"):
            self.play.check()

    def teardown(self):
        if hasattr(self, "play"):
            self.play.end()


TestProducing = Producing.TestCase
TestProducing.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)


@pytest.mark.parametrize("kind", ["numbered", "cut short", "unnumbered"])
def test_no_play_of_chance_breaks_a_law(kind: str):
    for number in range(PLAYS):
        chance = random.Random(f"{SEED} {number}")
        try:
            play_by_chance(chance, idempotent=kind != "unnumbered", cut_short=kind == "cut short")
        except AssertionError as error:
            raise AssertionError(f"play {number} of seed {SEED}: {error}") from error


def play_by_chance(chance: random.Random, *, idempotent: bool, cut_short: bool) -> None:
    play = Play(
        idempotent=idempotent,
        linger_ms=chance.choice([0, 50]),
        batch_size=chance.choice(BATCH_SIZES),
        in_flight=chance.randint(1, 5),
        retries=chance.choice([0, 1, 2, 1000]),
    )
    for _ in range(chance.choice([30, 60, 120])):
        step(play, chance)
        play.check()
    play.end(cut_short=cut_short)


def step(play: Play, chance: random.Random) -> None:
    """What a producer does, and what goes well, more often than what goes wrong."""
    number = chance.randrange(5)
    actions: list[tuple[int, Callable[[], object]]] = [
        (3, lambda: play.send(chance.choice(TOPICS), chance.randint(1, 3), chance.randrange(20))),
        (3, lambda: play.act(chance.randint(1, 5))),
        (2, lambda: play.pass_time(chance.choice(PAUSES_S))),
        (2, lambda: play.answer(number)),
        (2, lambda: play.lose(number, delivered=chance.random() < 0.5)),
        (1, lambda: [play.lose(0, delivered=chance.random() < 0.5) for _ in range(len(play.under_way))]),
        (1, lambda: play.refuse(number, chance.choice(REFUSALS))),
        (1, lambda: play.arrive_late(number)),
        (1, lambda: play.make_anew(chance.choice(TOPICS)) if chance.random() < 0.3 else play.outbox.flush()),
    ]
    weights, acts = zip(*actions, strict=True)
    chance.choices(acts, weights)[0]()
