"""Figures of a measurement. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = ["percentile", "say_figures", "sum_up"]

_PARTS: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p99_9_ms": 0.999}


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that is at least as large as this part of them; 0 if there are none."""
    return ordered[max(0, math.ceil(len(ordered) * part) - 1)] if ordered else 0.0


def sum_up(what: str, records: int, size: int, seconds: float, latencies_s: Iterable[float]) -> dict[str, Any]:
    """Compute the figures. `what` names the measured operation of a latency."""
    ordered = sorted(latencies_s)
    took = max(seconds, 1e-9)
    average = sum(ordered) / len(ordered) if ordered else 0.0
    return {
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / took, 1),
        "mb_per_second": round(size / took / 1e6, 3),
        "latency_of": what,
        "avg_ms": round(average * 1000, 3),
        "max_ms": round((ordered[-1] if ordered else 0.0) * 1000, 3),
        **{name: round(percentile(ordered, part) * 1000, 3) for name, part in _PARTS.items()},
    }


def say_figures(done: str, figures: dict[str, Any]) -> str:
    """Format the figures like Kafka's performance tests."""
    return (
        f"{figures['records']} records {done}, {figures['records_per_second']:,.1f} records/sec "
        f"({figures['mb_per_second']:.2f} MB/sec), {figures['avg_ms']:.2f} ms avg latency, "
        f"{figures['max_ms']:.2f} ms max latency, {figures['p50_ms']:.2f} ms 50th, {figures['p95_ms']:.2f} ms 95th, "
        f"{figures['p99_ms']:.2f} ms 99th, {figures['p99_9_ms']:.2f} ms 99.9th"
    )
