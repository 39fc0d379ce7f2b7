"""What is asked of a server again and again, and how it answered. Pure; knows neither a server nor a generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.rows import percentile

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Requests:
    """Bodies that are posted in turn; `payload` is the bytes of keys and values in one, without what wraps them.

    `paths` are where each goes, in place of the one address of all.
    """

    headers: Mapping[str, str]
    bodies: tuple[bytes, ...]
    records: int
    payload: float
    query: str = ""
    paths: tuple[str, ...] = ()

    @property
    def body_bytes(self) -> int:
        return sum(map(len, self.bodies)) // len(self.bodies)


@dataclass(frozen=True, slots=True)
class HttpLoad:
    """What closed-loop connections achieved; latencies are milliseconds.

    `refused` were answered with something that is not 2xx, `broken` not at all.
    """

    answered: int
    refused: int
    broken: int
    seconds: float
    p50: float
    p99: float
    p999: float

    @property
    def acknowledged(self) -> int:
        return self.answered - self.refused

    @property
    def per_second(self) -> float:
        return self.acknowledged / self.seconds


def load_of(taken: Sequence[float], refused: int, seconds: float) -> HttpLoad:
    """From the seconds that each answer took."""
    p50, p99, p999 = (percentile(taken, share) * 1000 for share in (0.5, 0.99, 0.999))
    return HttpLoad(len(taken), refused, 0, seconds, p50, p99, p999)
