"""Balance: computes the number of partitions of each pool for every member.

    minimise  (sum of load², partitions taken from their owners)    in this order
    where     load = what a member holds of all pools, and a pool is held by its subscribers only

A unit moves along a chain: one member gives from a pool to another subscriber of it, which gives from another pool to a
third, and so on. A chain costs 1 for each owned unit given up and -1 for each one returned; it pays if its last member
ends with less than its first had, or with the same at a negative cost. Counts start with everything where it was owned,
which no chain can make cheaper, and every step takes a cheapest chain, which keeps that so: a minimum-cost flow by
successive shortest paths. When no chain pays, neither sum can be less.

It knows counts. It must not know members or partitions by name.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Counts = Mapping[int, int]
"""Partitions of one pool that each of its subscribers has, by the subscriber's index."""

Grid = npt.NDArray[np.int64]
"""A number for each member (row) and pool (column)."""

NEVER: Final = 1 << 60  # more than any chain costs, and the sum of some is still an int64


class Step(NamedTuple):
    giver: int
    pool: int
    taker: int


def balance_counts(
    *, members: int, sizes: Sequence[int], subscribers: Sequence[Sequence[int]], owned: Sequence[Counts]
) -> list[Counts]:
    flow = _Flow(members, sizes, subscribers, owned)
    while chain := flow.find_chain():
        flow.move(chain)
    return [{member: int(column[member]) for member in np.flatnonzero(column).tolist()} for column in flow.held.T]


class _Flow:
    """Holdings of all members, and the cost of giving and taking one more unit of each pool."""

    def __init__(
        self, members: int, sizes: Sequence[int], subscribers: Sequence[Sequence[int]], owned: Sequence[Counts]
    ) -> None:
        self.owned: Grid = np.zeros((members, len(sizes)), np.int64)
        subscribed = np.zeros(self.owned.shape, np.bool_)
        for pool, (its, counts) in enumerate(zip(subscribers, owned, strict=True)):
            subscribed[list(its), pool] = True
            self.owned[list(counts), pool] = list(counts.values())
        self.held: Grid = self.owned + _hand_out(sizes, subscribers, self.owned)
        self.loads: Grid = self.held.sum(axis=1)
        self.give: Grid = np.where(self.held == 0, NEVER, np.int64(self.held <= self.owned))
        self.take: Grid = np.where(subscribed, 0, NEVER)
        self.unit = members + 1  # a chain has fewer steps than this, so no cost outweighs one unit of balance

    def find_chain(self) -> list[Step]:
        """Find the chain that pays most, from its last step to its first; none if none pays (Bellman and Ford)."""
        members, pools = self.held.shape
        if not pools:
            return []
        cost: Grid = self.unit * (1 - self.loads)
        came: list[Step | None] = [None] * members
        giving, taking = np.empty_like(self.give), np.empty_like(self.take)
        for _ in range(members):
            np.add(cost[:, None], self.give, out=giving)
            np.add(giving.min(axis=0), self.take, out=taking)
            reached = taking.min(axis=1)
            cheaper: list[int] = np.flatnonzero(reached < cost).tolist()
            if not cheaper:
                break
            for taker in cheaper:
                pool = int(taking[taker].argmin())
                came[taker] = Step(int(giving[:, pool].argmin()), pool, taker)
            cost = np.minimum(cost, reached)
        gained = cost + self.unit * self.loads
        last = int(gained.argmin())
        return _trace(came, last) if gained[last] < 0 else []

    def move(self, chain: Sequence[Step]) -> None:
        """Move as many units as the chain can carry at its price without overshooting the mean or the middle."""
        first, last = chain[-1].giver, chain[0].taker
        mean = int(self.loads.sum()) // len(self.loads)
        above, below = int(self.loads[first]) - mean, mean - int(self.loads[last])
        units = min(above, below) if min(above, below) > 0 else (above + below) // 2
        units = max(1, min(units, *(self._room(step) for step in chain)))
        for giver, pool, taker in chain:
            self.held[giver, pool] -= units
            self.held[taker, pool] += units
        for giver, pool, taker in chain:
            self._price(giver, pool)
            self._price(taker, pool)
        self.loads[first] -= units
        self.loads[last] += units

    def _room(self, step: Step) -> int:
        giver, pool, taker = step
        spare = int(self.held[giver, pool] - self.owned[giver, pool])
        missing = int(self.owned[taker, pool] - self.held[taker, pool])
        can_give = spare if spare > 0 else int(self.held[giver, pool])
        return min(can_give, missing) if missing > 0 else can_give

    def _price(self, member: int, pool: int) -> None:
        held, owned = int(self.held[member, pool]), int(self.owned[member, pool])
        self.give[member, pool] = NEVER if held == 0 else int(held <= owned)
        self.take[member, pool] = -int(held < owned)


def _hand_out(sizes: Sequence[int], subscribers: Sequence[Sequence[int]], owned: Grid) -> Grid:
    """Give units without an owner to the members with the least load; pools with few subscribers go first."""
    given = np.zeros_like(owned)
    free: list[int] = (np.array(sizes, np.int64) - owned.sum(axis=0)).tolist()
    loads: list[int] = owned.sum(axis=1).tolist()
    for pool in sorted(np.flatnonzero(free).tolist(), key=lambda pool: len(subscribers[pool])):
        least = [(loads[member], member) for member in subscribers[pool]]
        heapq.heapify(least)
        for _ in range(free[pool]):
            load, member = least[0]
            heapq.heapreplace(least, (load + 1, member))
            loads[member] += 1
            given[member, pool] += 1
    return given


def _trace(came: Sequence[Step | None], last: int) -> list[Step]:
    chain: list[Step] = []
    while step := came[last]:
        chain.append(step)
        last = step.giver
    return chain
