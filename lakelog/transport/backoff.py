"""Pauses between retries. Pure: the random number is an argument."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Kafka's: a fifth more or less, so that clients that failed together do not retry together.
JITTER: Final = 0.2
#: Enough doublings to reach any bound, and too few to overflow a float.
_MOST_DOUBLINGS: Final = 60


class Backoff(NamedTuple):
    """Exponential backoff: `first_s`, doubled by each failure up to `most_s`, a fifth more or less."""

    first_s: float
    most_s: float

    def pause_s(self, failures: int, chance: float) -> float:
        """Pause after this many failures in a row, 1 or more; `chance` is from 0 to 1."""
        doubled = self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
        return min(doubled, self.most_s) * (1 + JITTER * (2 * chance - 1))
