"""Output of `lakelog demo`: commands to try, and a line each second. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakelog.cli.kit.curl import curl_of

__all__ = [
    "GROUP",
    "HEADINGS",
    "TOPIC",
    "Counts",
    "Look",
    "Sample",
    "make_sample",
    "show_beginning",
    "show_end",
    "show_sample",
]

TOPIC: Final = "orders"
GROUP: Final = "billing"
_SQL: Final = (
    "SELECT key, count(*) AS orders FROM orders_text GROUP BY key ORDER BY orders DESC LIMIT 5",
    'SELECT "offset", key, value, headers FROM orders_text WHERE partition = 0 ORDER BY "offset" DESC LIMIT 3',
    "SELECT * FROM group_lag",
)
_WIDTHS: Final = (6, 10, 10, 8, 7, 10)


class Counts(NamedTuple):
    """Totals since the start: acknowledged records, and records that the group received."""

    produced: int
    consumed: int


class Look(NamedTuple):
    """State of the group, from the server."""

    lag: int
    members: int


class Sample(NamedTuple):
    """Figures of a second of the demo; rates are in records per second."""

    second: int
    produced_rate: int
    consumed_rate: int
    lag: int
    members: int
    produced: int


def make_sample(second: int, before: Counts, now: Counts, look: Look) -> Sample:
    rates = (now.produced - before.produced, now.consumed - before.consumed)
    return Sample(second, *rates, look.lag, look.members, now.produced)


def show_beginning(url: str, folder: str, *, in_memory: bool) -> str:
    where = "in memory" if in_memory else "on disk"
    curl, base = curl_of(url)
    return "\n".join(
        [
            f"A server at {url}; its log is {where}, in {folder}, and goes with it.",
            f"Three producers write to the topic {TOPIC}, the group {GROUP} reads: one member, then two.",
            "",
            "Try in another terminal:",
            *(f"  lakelog sql '{query}' --server {url}" for query in _SQL),
            f"  lakelog topics describe {TOPIC} --server {url}",
            f"  {curl} '{base}/topics/{TOPIC}/partitions/0/records?offset=earliest&max_records=3'",
            "",
            "Ctrl-C ends it.",
            "",
        ]
    )


HEADINGS: Final = "  ".join(
    name.rjust(width)
    for name, width in zip(("second", "produced/s", "consumed/s", "lag", "members", "produced"), _WIDTHS, strict=True)
)


def show_sample(sample: Sample) -> str:
    return "  ".join(f"{number:,}".rjust(width) for number, width in zip(sample, _WIDTHS, strict=True))


def show_end(counts: Counts) -> str:
    return f"{counts.produced:,} records were produced and {counts.consumed:,} consumed; nothing of it is left."
