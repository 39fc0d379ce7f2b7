"""No Arrow stream harms the process that reads it: thousands of broken ones, each read where a crash can be seen.

    LAKELOG_ARROW_FUZZ_S=600    for so many seconds of each reader, with seeds that nobody has tried

The seed is said where a mutant does harm, and the mutant is kept in `.cache/arrow`: make a case of it in
`tests/support/hostile_bodies.py`.
"""

from __future__ import annotations

import os
import secrets
import time

import pytest

from tests.support.arrow_search import TARGETS, Found, search

SECONDS = float(os.environ.get("LAKELOG_ARROW_FUZZ_S", "0"))
#: How many mutants of a reader are tried where no time is given, and how many by one child.
TRIED = {"produce": 10_000, "consume": 5_000, "fetch": 5_000}
SHARE = 50_000
SEED = 1
pytestmark = pytest.mark.timeout(SECONDS * 2 + 600)


def check(target: str, seed: int, count: int) -> Found:
    found = search(target, seed, 0, count)
    assert found.number is None, f"{target}: mutant {found.number} of seed {seed}, kept as {found.kept}: {found.why}"
    return found


@pytest.mark.parametrize("target", TRIED)
def test_no_stream_ends_hangs_or_fills_the_process_that_reads_it(target: str):
    found = check(target, SEED, TRIED[target])
    assert found.taken > TRIED[target] / 100, "too few are near enough to sound streams to get anywhere"
    ends = time.monotonic() + SECONDS
    tried = found.tried
    while time.monotonic() < ends:
        tried += check(target, secrets.randbits(32), SHARE).tried
    print(f"{target}: {tried} mutants")  # noqa: T201 - for whoever runs it for long


def test_a_reader_that_believes_what_a_stream_says_is_found_out():
    """Or nothing that the others do would say anything."""
    ended = [found.why for seed in range(5) if (found := search("believe", seed, 0, 2_000)).number is not None]
    assert len(ended) > 3
    assert any(why.startswith(("SIGSEGV", "SIGABRT", "SIGBUS")) for why in ended), ended


def test_every_reader_of_streams_is_searched():
    assert TARGETS.keys() == {*TRIED, "believe"}
