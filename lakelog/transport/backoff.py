"""When to try again. Pure: the random number is an argument."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Kafka's: a fifth more or less, so that clients that failed together do not come back together.
JITTER: Final = 0.2
#: More doublings than any bound survives, and fewer than a float.
_MOST_DOUBLINGS: Final = 60


class Backoff(NamedTuple):
    """`first_s`, doubled by each failure up to `most_s`, a fifth more or less."""

    first_s: float
    most_s: float

    def pause_s(self, failures: int, chance: float) -> float:
        """How long to wait after so many failures in a row, 1 or more; `chance` is from 0 to 1."""
        doubled = self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
        return min(doubled, self.most_s) * (1 + JITTER * (2 * chance - 1))
