"""Whatever kills whoever reads it is given up, in every play, however its callers commit; and nothing else ever is."""

from __future__ import annotations

import os
import random

import pytest

from tests.support.poison_play import COMMITS, PoisonPlay

#: LAKELOG_PLAYS=2000 for a long run; LAKELOG_SEED for other ones.
PLAYS = int(os.environ.get("LAKELOG_PLAYS", "3"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))


@pytest.mark.parametrize("commits", COMMITS)
@pytest.mark.parametrize("deploys", [0, 5], ids=["all that die die of it", "some are just killed"])
def test_what_kills_is_given_up_and_what_dies_with_it_was_alone(commits: str, deploys: int):
    for number in range(PLAYS):
        seed = f"{SEED} {number} {commits} {deploys}"
        chance = random.Random(seed)
        try:
            PoisonPlay(chance, commits, chance.choice((1, 2, 3, 4)), deploys=deploys).run()
        except BaseException as error:
            error.add_note(f"in the play {seed!r}")
            raise
