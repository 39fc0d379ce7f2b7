"""Reserved epochs: whatever is opened, lost, undone or forgotten, none is handed out twice."""

from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from delta_log.records.idempotence import ProducerRow, Producers, survivors

SILENCE = 300_000
#: So many examples may pass until one finds what is broken; always the same ones, as how many it takes is chance.
SEARCHED = 10_000


class Life:
    """One producer whose rows survive every restart, as nothing else does; `told` are the epochs that it was given."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.rows: list[ProducerRow] = []
        self.told: list[int] = []
        self.now = 0

    def store(self, row: ProducerRow) -> None:
        self.producers.replay(row)
        self.rows.append(row)

    def begin(self) -> None:
        reserved = self.producers.decide_reserved("p", self.now)
        if reserved is None:
            self.store(self.producers.decide_bump("p", self.now, reserves=True))
        else:
            self.producers.open_reserved("p", reserved)
        self.told.append(self.producers.epoch_of("p"))

    def fail_to_begin(self) -> None:
        """Nobody was told of it."""
        reserved = self.producers.decide_reserved("p", self.now)
        if reserved is None:
            undo = self.producers.replay(self.producers.decide_bump("p", self.now, reserves=True))
        else:
            undo = self.producers.open_reserved("p", reserved)
        self.producers.undo(undo)

    def open_one(self) -> None:
        self.store(self.producers.decide_bump("p", self.now))
        self.told.append(self.rows[-1].epoch)

    def send(self) -> None:
        if self.producers.epoch_of("p") >= 0:
            self.store(ProducerRow("p", "t", "t", self.producers.epoch_of("p"), 0, 1, b"", 1, ((0, 0, 1),), self.now))

    def fold(self) -> None:
        self.rows = survivors(self.rows, self.now - SILENCE)

    def restart(self) -> None:
        self.producers = Producers()
        for row in self.rows:
            self.producers.replay(row)
        self.producers.expire(self.now - SILENCE)
        self.producers.close_reserved()

    def look_for_silence(self) -> None:
        self.producers.expire(self.now - SILENCE)


DEEDS = [Life.begin] * 4 + [
    Life.fail_to_begin,
    Life.open_one,
    Life.send,
    Life.fold,
    Life.restart,
    Life.look_for_silence,
]
STEPS = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 90_000)), max_size=60)
Steps = list[tuple[Callable[[Life], None], int]]


def check(steps: Steps) -> None:
    life = Life()
    for deed, wait in steps:
        life.now += wait
        if life.rows and life.now + 90_000 - life.rows[-1].timestamp_ms > SILENCE:
            life.send()  # who is silent for longer is forgotten, with all of its epochs
        deed(life)
    assert life.told == sorted(set(life.told))


@given(STEPS)
def test_no_epoch_is_handed_out_twice(steps: Steps):
    check(steps)


def forgets_what_was_reserved(_: Producers) -> None: ...


def has_all_the_time(producers: Producers, producer_id: str, *_: object) -> int | None:
    bump = producers._bump_of(producer_id)
    return producers.epoch_of(producer_id) + 1 if bump is not None and bump.count else None


@pytest.mark.parametrize(
    ("part", "broken"), [("close_reserved", forgets_what_was_reserved), ("decide_reserved", has_all_the_time)]
)
def test_it_shows_reserved_epochs_that_are_forgotten_or_more_than_there_are(part: str, broken: Callable[..., object]):
    @settings(max_examples=SEARCHED, derandomize=True, database=None, phases=[Phase.generate])
    @given(STEPS)
    def prove(steps: Steps) -> None:
        check(steps)

    with mock.patch.object(Producers, part, broken), pytest.raises(AssertionError):
        prove()
