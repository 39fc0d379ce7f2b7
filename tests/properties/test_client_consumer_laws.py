"""What a consumer promises holds in every play of its deciding part against a group and a hostile network."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping

import pytest

from tests.support.consumer_play import Play, Reader

#: LAKELOG_PLAYS=20000 for a long run; LAKELOG_SEED for other ones.
PLAYS = int(os.environ.get("LAKELOG_PLAYS", "60"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
STEPS = 400
Happens = Callable[[Play, random.Random], None]


def go_on(play: Play, _: random.Random) -> None:
    if not play.act():
        play.idle()


def poll(play: Play, chance: random.Random) -> None:
    if idle := play.idle_readers():
        chance.choice(idle).poll(chance.choice((0.0, 0.05, 1.0)))


def commit(play: Play, chance: random.Random) -> None:
    if idle := play.idle_readers():
        chance.choice(idle).commit()


def come(play: Play, _: random.Random) -> None:
    if len(play.able_readers()) < 3:
        play.open()


def leave(play: Play, chance: random.Random) -> None:
    if (idle := play.idle_readers()) and len(play.able_readers()) > 1:
        chance.choice(idle).close()


def pause(play: Play, chance: random.Random) -> None:
    if idle := play.idle_readers():
        chance.choice(idle).pause(chance, paused=chance.random() < 0.5)


def pass_time(play: Play, chance: random.Random) -> None:
    play.pass_time(chance.choice((0.01, 0.3, 1.2)))


def deliver_late(play: Play, _: random.Random) -> None:
    play.deliver_late()


def restart(play: Play, _: random.Random) -> None:
    play.server.restart()


def with_one(act: Callable[[Play, random.Random, Reader], None]) -> Happens:
    def happen(play: Play, chance: random.Random) -> None:
        if able := play.able_readers():
            act(play, chance, chance.choice(able))

    return happen


def stand_still(play: Play, chance: random.Random) -> None:
    play.pass_time(chance.choice((9.0, 31.0)))
    play.harmed = True


def make_anew(play: Play, _: random.Random) -> None:
    play.make_anew()


def change_mind(play: Play, chance: random.Random) -> None:
    """To read something else, and then the same again."""
    if idle := play.idle_readers():
        chance.choice(idle).change_mind(at_once=chance.random() < 0.5)


USUAL: Mapping[Happens, int] = {
    go_on: 62, poll: 18, commit: 4, come: 3, leave: 2, pause: 3, pass_time: 3, deliver_late: 2, restart: 1,
    make_anew: 1, change_mind: 1,
}  # fmt: skip
DEADLY: Mapping[Happens, int] = {
    with_one(lambda play, _, reader: play.kill(reader)): 1,
    with_one(lambda play, chance, reader: play.freeze(reader, chance.choice((3.0, 12.0)))): 1,
    with_one(lambda play, chance, reader: reader.seek(chance)): 1,
    stand_still: 1,
}


def play_out(seed: str, *, hostile: bool, deadly: bool) -> None:
    chance, happens = random.Random(seed), {**USUAL, **(DEADLY if deadly else {})}
    play = Play(chance, partitions=chance.choice((1, 3, 4)), hostile=hostile, patient=not deadly)
    play.open()
    try:
        for happen in chance.choices(list(happens), list(happens.values()), k=STEPS):
            happen(play, chance)
        play.finish()
    except BaseException as error:
        error.add_note(f"in the play {seed!r}")
        raise


@pytest.mark.parametrize("deadly", [False, True], ids=["all live", "some die"])
@pytest.mark.parametrize("hostile", [False, True], ids=["a good network", "a hostile network"])
def test_nothing_is_lost_and_nothing_is_doubled(hostile: bool, deadly: bool):
    for number in range(PLAYS):
        play_out(f"{SEED} {number} {hostile} {deadly}", hostile=hostile, deadly=deadly)
