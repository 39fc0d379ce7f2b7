"""Which bodies may be in memory: decided by numbers alone, at times that a test gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest_api.web.body_pool import MOST_WAITING, BodyPool, Refused, Room, owner_of

MOST = 1000
GRACE = 20.0


@dataclass
class Crowd:
    """A pool and the bodies in it. A body that neither waits nor is refused is received, until it is `whole`."""

    pool: BodyPool = field(default_factory=lambda: BodyPool(MOST, GRACE))
    now: float = 0.0
    rooms: list[Room] = field(default_factory=list)
    whole: set[Room] = field(default_factory=set)

    def body(self, owner: str, size: int = 0) -> Room:
        room = Room(owner, self.now)
        self.rooms.append(room)
        if size:
            self.grow(room, size)
        return room

    def grow(self, room: Room, size: int) -> None:
        room.arriving = False
        self.pool.ask(room, size, self.now)
        room.arriving = room.waiting_since is None and room.refused is None
        self._resume()

    def end(self, room: Room) -> None:
        room.arriving = False
        self.whole.add(room)

    def release(self, room: Room) -> None:
        room.arriving = False
        self.whole.discard(room)
        self.rooms.remove(room)
        self.pool.give_back(room, self.now)
        self._resume()

    def look(self, later: float) -> None:
        self.now += later
        self.pool.look(self.now)
        self._resume()

    def check(self) -> None:
        assert self.pool.held == sum(room.held for room in self.rooms) <= MOST
        assert all(not room.held and room.waiting_since is None for room in self.rooms if room.refused)
        waiting = [room for room in self.rooms if room.waiting_since is not None]
        assert all(room.held for room in waiting), "what holds nothing does not wait"
        assert len(waiting) <= MOST_WAITING
        holding = [room for room in self.rooms if room.held]
        assert not waiting or len(waiting) < len(holding), "all wait for each other"
        assert not [room for room in self.whole if room.refused]

    def _resume(self) -> None:
        """Those that were served go on receiving."""
        for room in self.rooms:
            if room.held and room.waiting_since is None and room not in self.whole:
                room.arriving = True


def test_bodies_that_fit_are_held_by_what_came():
    crowd = Crowd()
    first, second = crowd.body("a", 600), crowd.body("a", 300)
    crowd.grow(second, 400)
    assert (first.held, second.held, crowd.pool.held) == (600, 400, 1000)
    crowd.release(first)
    assert crowd.pool.held == 400


def test_a_body_that_holds_nothing_yet_is_refused_where_there_is_no_room():
    crowd = Crowd()
    for _ in range(2):
        crowd.end(crowd.body("a", 500))
    assert crowd.body("a", 100).refused is Refused.FULL
    crowd.check()


def test_a_body_that_holds_some_waits_and_goes_on_when_another_ends():
    crowd = Crowd()
    first, second = crowd.body("a", 500), crowd.body("b", 500)
    crowd.end(first)
    crowd.grow(second, 600)
    assert second.waiting_since is not None
    crowd.release(first)
    assert (second.held, second.waiting_since) == (600, None)


def test_two_that_hold_half_each_and_want_more_do_not_wait_for_ever():
    crowd = Crowd()
    first = crowd.body("a", 500)
    crowd.now += 1
    second = crowd.body("b", 500)
    crowd.grow(second, 700)
    assert second.waiting_since is not None
    crowd.grow(first, 700)
    assert (first.held, second.refused) == (700, Refused.FULL)
    crowd.check()


def test_who_began_first_goes_on_first():
    crowd = Crowd()
    rooms = []
    for _ in range(4):
        rooms.append(crowd.body("a", 250))
        crowd.now += 1
    for room in reversed(rooms[:3]):
        crowd.grow(room, 450)
    crowd.grow(rooms[3], 260)
    assert [room.refused for room in rooms] == [None, None, None, Refused.FULL]
    assert [room.held for room in rooms] == [450, 250, 250, 0]
    crowd.check()


@pytest.mark.parametrize("whole", [False, True])
def test_of_one_address_the_newest_make_room_for_another_address(whole: bool):
    crowd = Crowd()
    greedy = [crowd.body("a", 250) for _ in range(4)]
    if whole:
        for room in greedy:
            crowd.end(room)
    other = crowd.body("b", 200)
    assert [room.refused for room in greedy] == [None] * 3 + [None if whole else Refused.SHARE]
    assert other.refused is (Refused.FULL if whole else None)
    crowd.check()


def test_an_address_that_is_alone_may_have_it_all():
    crowd = Crowd()
    rooms = [crowd.body("a", 250) for _ in range(4)]
    assert [room.held for room in rooms] == [250] * 4


def test_the_only_body_of_an_address_is_not_refused_for_its_share():
    crowd = Crowd()
    large = crowd.body("a", 950)
    assert crowd.body("b", 100).refused is Refused.FULL
    assert large.refused is None


def test_addresses_below_their_half_are_refused_for_no_other():
    crowd = Crowd()
    for owner in "ab":
        for _ in range(2):
            crowd.body(owner, 250)
    assert crowd.body("c", 100).refused is Refused.FULL
    assert not [room for room in crowd.rooms[:-1] if room.refused]


def test_nobody_is_refused_in_vain():
    crowd = Crowd()
    for _ in range(2):
        crowd.end(crowd.body("a", 400))
    last = crowd.body("a", 100)
    assert crowd.body("b", 400).refused is Refused.FULL
    assert last.refused is None


def test_an_address_does_not_come_above_half_while_another_waits():
    crowd = Crowd()
    mine = [crowd.body("a", 200), crowd.body("a", 200)]
    theirs = [crowd.body("b", 300), crowd.body("b", 200)]
    for room in (mine[1], theirs[1]):
        crowd.end(room)
    crowd.grow(theirs[0], 450)
    assert theirs[0].waiting_since is not None
    crowd.grow(mine[0], 300)
    assert mine[0].held == 300, "half is not more than half"
    crowd.grow(mine[0], 310)
    assert mine[0].waiting_since is not None
    crowd.check()


def test_what_takes_longer_than_the_grace_makes_room_for_the_young():
    crowd = Crowd()
    old = [crowd.body(owner, 500) for owner in "ab"]
    crowd.now = GRACE - 0.1
    assert crowd.body("c", 100).refused is Refused.FULL
    crowd.now = GRACE
    assert crowd.body("c", 100).held == 100
    assert [room.refused for room in old] == [Refused.AGE, None]


def test_an_old_body_takes_no_room_of_others():
    crowd = Crowd()
    old = [crowd.body(owner, 500) for owner in "ab"]
    crowd.now = GRACE
    crowd.grow(old[1], 600)
    assert old[0].refused is None
    assert old[1].waiting_since is not None


def test_a_wait_does_not_make_a_body_old():
    crowd = Crowd()
    done, waiting = crowd.body("a", 500), crowd.body("b", 500)
    crowd.end(done)
    crowd.grow(waiting, 600)
    crowd.now = GRACE
    crowd.release(done)
    crowd.body("c", 400)
    assert crowd.body("d", 100).refused is Refused.FULL
    assert waiting.held == 600


def test_time_makes_room_for_those_that_wait():
    crowd = Crowd()
    crowd.body("a", 700)
    crowd.now = 15
    young = crowd.body("b", 300)
    crowd.grow(young, 400)
    assert young.waiting_since is not None
    crowd.look(4.9)
    assert young.waiting_since is not None
    crowd.look(0.1)
    assert young.held == 400


def test_so_many_wait_and_no_more():
    crowd = Crowd()
    done = crowd.body("a", MOST - 2 * MOST_WAITING * 10)
    crowd.end(done)
    rooms = [crowd.body("b", 10) for _ in range(2 * MOST_WAITING)]
    for room in rooms:
        crowd.grow(room, 20)
        crowd.check()
    assert sum(room.waiting_since is not None for room in rooms) <= MOST_WAITING


Steps = st.lists(
    st.tuples(st.sampled_from(["new", "grow", "end", "release", "later"]), st.integers(0, 9), st.integers(1, MOST)),
    max_size=120,
)


@given(Steps)
def test_whatever_happens_the_bound_holds_and_one_body_can_go_on(steps: list[tuple[str, int, int]]):
    crowd = Crowd()
    for act, which, size in steps:
        going = [room for room in crowd.rooms if room.arriving and not room.refused]
        match act:
            case "new":
                crowd.body(f"owner {which % 4}", size)
            case "grow" if going:
                room = going[which % len(going)]
                crowd.grow(room, min(MOST, room.held + size))
            case "end" if going:
                crowd.end(going[which % len(going)])
            case "release" if crowd.rooms:
                crowd.release(crowd.rooms[which % len(crowd.rooms)])
            case _:
                crowd.look(size / 50)
        crowd.check()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, MOST)), min_size=1, max_size=30), st.randoms())
def test_of_honest_bodies_some_are_taken_and_the_others_told(given_bodies: list[tuple[int, int]], chance: object):
    """Each is sent to its end, in pieces, in any order of all their pieces."""
    crowd, taken = Crowd(), 0
    left = {crowd.body(f"owner {owner}"): size for owner, size in given_bodies}
    while left:
        going = [room for room in left if room.waiting_since is None]
        assert going, "all wait for each other"
        room = chance.choice(going)  # type: ignore[attr-defined]
        if room.refused is None and room.held < left[room]:
            crowd.grow(room, min(left[room], room.held + 100))
        else:
            taken += room.refused is None
            del left[room]
            crowd.end(room)
            crowd.release(room)
    assert taken >= 1
    assert crowd.pool.held == 0


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_an_address_is_one_of_ipv4_or_a_network_of_ipv6(host: str, owner: str):
    assert owner_of(host) == owner
