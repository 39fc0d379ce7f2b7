"""Passes of key compaction by hand, so that a test can do something between any two steps of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from delta_log.maintenance.compaction.passes import Pass, Passed, Sifting, plan_passes
from delta_log.maintenance.compaction.superseded import gather, spread
from delta_log.maintenance.compaction.survivors import carry_out
from delta_log.maintenance.jobs_api import Maintenance
from delta_log.model.errors import PlanOutdated
from tests.support.logs import Place


def begin(place: Place, topic: str = "t") -> list[Pass]:
    """Of the partitions on which one is worth it: what leaves is known, and nothing written yet."""
    door = Maintenance.open(place.root(), clock_ms=place.clock).topic(topic)
    passes = plan_passes(door.ground, place.clock.now_ms)
    if passes:
        sift(place, Sifting(door.ground, passes, workers=3))
    return passes


def sift(place: Place, sifting: Sifting) -> None:
    buckets: defaultdict[int, list[bytes]] = defaultdict(list)
    for order in sifting.orders():
        for bucket, piece in spread(order, store=place.root().store):
            buckets[bucket].append(piece)
    for bucket, pieces in buckets.items():
        sifting.pass_of(bucket).sift(gather(bucket, pieces))


def write(place: Place, one: Pass) -> None:
    for answer in carry_out(one.orders(), store=place.root().store):
        one.take(answer)


def finish(place: Place, one: Pass, meanwhile: Callable[[], object] = lambda: None) -> Passed | None:
    """Written and committed, however often `meanwhile` takes a file away in between; None where another pass won."""
    while True:
        try:
            write(place, one)
        except PlanOutdated:
            one.give_up()
            return None
        meanwhile()
        try:
            return one.commit()
        except PlanOutdated:
            continue


def compact(place: Place, topic: str = "t") -> list[Passed]:
    """A whole run, with nobody else at work."""
    done = [finish(place, one) for one in begin(place, topic)]
    return [passed for passed in done if passed is not None]
