"""How much is measured: `smoke` proves that the benchmarks run, `quick` gives an idea, `full` gives numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    #: turns of each measurement; what is told is their median
    turns: int
    #: how long one measurement of a turn lasts
    seconds: float
    #: of appends, few and many
    callers: tuple[int, ...]
    #: of HTTP, few and many
    connections: tuple[int, ...]
    #: single writes, or single requests, in one block
    singles: int
    #: distinct records that requests are made of
    pool: int
    #: records in the topic that is read
    stored: int
    #: fetches at random offsets
    fetches: int
    #: how long sustained load lasts
    sustained_s: float
    #: requests whose way into the table is watched
    tries: int
    #: records that a start finds in the journal
    journaled: int
    #: one-record requests that a start finds in the journal
    journaled_singly: int
    idle_topics: int
    #: records whose way to a waiting reader is watched, each time
    deliveries: int
    #: readers who wait for what never comes
    idle_polls: int
    #: of a large group
    members: int
    #: that a large group shares out
    shared_partitions: int
    #: when a benchmark is taken for hung
    most_seconds: float


SIZES = {
    "smoke": Size(
        turns=1,
        seconds=0.03,
        callers=(1, 4),
        connections=(1,),
        singles=20,
        pool=10_000,
        stored=20_000,
        fetches=20,
        sustained_s=0.25,
        tries=3,
        journaled=5_000,
        journaled_singly=300,
        idle_topics=20,
        deliveries=20,
        idle_polls=20,
        members=5,
        shared_partitions=20,
        most_seconds=40,
    ),
    "quick": Size(
        turns=3,
        seconds=0.5,
        callers=(1, 16, 64),
        connections=(1, 16, 64),
        singles=200,
        pool=100_000,
        stored=1_000_000,
        fetches=300,
        sustained_s=10,
        tries=20,
        journaled=1_000_000,
        journaled_singly=100_000,
        idle_topics=1_000,
        deliveries=400,
        idle_polls=1_000,
        members=50,
        shared_partitions=200,
        most_seconds=300,
    ),
    "full": Size(
        turns=5,
        seconds=2.5,
        callers=(1, 16, 64),
        connections=(1, 16, 64),
        singles=1_000,
        pool=200_000,
        stored=4_000_000,
        fetches=2_000,
        sustained_s=60,
        tries=40,
        journaled=1_000_000,
        journaled_singly=100_000,
        idle_topics=1_000,
        deliveries=2_000,
        idle_polls=1_000,
        members=50,
        shared_partitions=200,
        most_seconds=1_200,
    ),
}
