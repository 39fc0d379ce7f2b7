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
    #: that are read by a pattern
    large_partitions: int
    #: files that a compaction finds, of `pool` records each, and small ones
    files_large: int
    files_small: int
    #: files that retention looks at
    files_retained: int
    #: commits to one table
    soaked: int
    #: of a topic, and a hundred times as many of another
    retained_files: int
    #: topics that are all written to
    busy_topics: int
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
        large_partitions=500,
        files_large=16,
        files_small=40,
        files_retained=400,
        soaked=200,
        retained_files=8,
        busy_topics=10,
        most_seconds=200,
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
        large_partitions=50_000,
        files_large=32,
        files_small=5_000,
        files_retained=100_000,
        soaked=10_000,
        retained_files=200,
        busy_topics=200,
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
        large_partitions=50_000,
        files_large=64,
        files_small=5_000,
        files_retained=100_000,
        soaked=100_000,
        retained_files=1_000,
        busy_topics=200,
        most_seconds=1_200,
    ),
}
