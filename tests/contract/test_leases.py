"""What the leases of a root promise, in every kind of store."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log import Log, LogReader
from delta_log.maintenance.lease_holder import Grip, Leases
from delta_log.maintenance.leases import SWEPT_AFTER_MS, Lease
from delta_log.model.errors import NotARoot
from delta_log.stores import LocalStore, MemoryStore, Store
from delta_log.stores.objects import ObjectStore

MINUTE = 60_000


class LocalInTime(LocalStore):
    """A store whose clock the test turns."""

    now = 10_000_000

    def now_ms(self) -> int:
        return self.now


class MemoryInTime(MemoryStore):
    now = 10_000_000

    def now_ms(self) -> int:
        return self.now


class ObjectsInTime(ObjectStore):
    now = 10_000_000

    def now_ms(self) -> int:
        return self.now


InTime = LocalInTime | MemoryInTime | ObjectsInTime


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InTime:
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        return ObjectsInTime(server.root(f"leases-{uuid.uuid4().hex}"), server.options)
    return LocalInTime(tmp_path / "root") if request.param == "local" else MemoryInTime()


def take(store: Store, holder: str, name: str = "retention", for_ms: int = MINUTE) -> Grip | Lease:
    return Leases(store, holder).take(name, for_ms)


def held(store: Store, holder: str, name: str = "retention") -> Grip:
    grip = take(store, holder, name)
    assert isinstance(grip, Grip)
    return grip


def there(store: Store, name: str = "retention") -> list[str]:
    return [entry.name for entry in store.list(f"leases/{name}")]


def test_whoever_is_second_is_told_who_holds_it_until_when(store: InTime):
    held(store, "ann")
    assert take(store, "bob") == Lease("ann", store.now, store.now + MINUTE)
    assert isinstance(take(store, "bob", "compaction"), Grip)


def test_what_was_given_up_is_free_at_once(store: InTime):
    held(store, "ann").give_up()
    held(store, "bob")
    assert isinstance(take(store, "ann"), Lease)


def test_the_lease_of_a_holder_that_died_ends_by_itself(store: InTime):
    held(store, "ann")
    store.now += MINUTE - 1
    assert isinstance(take(store, "bob"), Lease)
    store.now += 1
    held(store, "bob")


def test_a_renewed_lease_goes_on_and_stays_one_object(store: InTime):
    grip = held(store, "ann")
    for _ in range(5):
        store.now += MINUTE - 1
        assert grip.renew(MINUTE)
    assert isinstance(take(store, "bob"), Lease)
    assert len(there(store)) == 1


def test_a_holder_that_slept_finds_that_it_lost_the_lease_and_takes_nothing_back(store: InTime):
    sleeper = held(store, "ann")
    store.now += MINUTE
    winner = held(store, "bob")
    assert not sleeper.renew(MINUTE)
    sleeper.give_up()
    assert winner.renew(MINUTE)
    assert there(store) == ["0000000002.json"]


def test_a_lease_of_a_clock_that_was_turned_back_does_not_hold_for_as_long_as_that(store: InTime):
    held(store, "ann")
    store.now -= 86_400_000
    held(store, "bob")


def test_a_number_that_was_free_as_it_was_overtaken_and_swept_away_is_no_lease(store: InTime):
    """As one finds it who looked, slept while two others held the lease, and then puts the number that it chose."""
    late = Grip(store, "retention", 1, "ann")
    held(store, "bob").give_up()
    held(store, "cas")
    assert there(store) == ["0000000002.json"]
    assert not late.put_first(store.now, MINUTE)
    assert there(store) == ["0000000002.json"]
    assert isinstance(take(store, "ann"), Lease)


def test_what_is_no_lease_binds_nobody(store: InTime):
    store.create("leases/retention/0000000007.json", b"{}")
    store.create("leases/retention/notes", b"")
    held(store, "ann")
    assert there(store) == ["0000000008.json", "notes"]


def test_of_eight_takers_at_once_exactly_one_gets_it(store: InTime):
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            gate = threading.Barrier(8)

            def enter(me: int, gate: threading.Barrier = gate, number: int = number) -> Grip | Lease:
                gate.wait()
                return take(store, f"{me}", f"job-{number}")

            assert [isinstance(each, Grip) for each in pool.map(enter, range(8))].count(True) == 1


def test_names_that_nobody_takes_any_more_are_swept_away(tmp_path: Path):
    store = LocalStore(tmp_path / "root")
    ages = {"old": SWEPT_AFTER_MS + MINUTE, "young": SWEPT_AFTER_MS - MINUTE}
    for name, age in ages.items():
        store.create(
            f"leases/{name}/0000000003.json", b'{"holder":"ann","said_ms":0,"until_ms":%d}' % (now(store) - age)
        )
    held(store, "ann", "held")
    assert Leases(store, "bob").sweep() == ["old"]
    assert [entry.name for entry in store.list("leases")] == ["held", "young"]
    assert Leases(store, "bob").sweep() == []


def now(store: Store) -> int:
    return store.now_ms()


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "renew", "give up", "pass"]), st.integers(0, 2), st.integers(1, 5)), max_size=60
)


@given(steps=STEPS)
def test_nobody_gets_a_lease_that_another_has_as_long_as_it_holds(steps: list[tuple[str, int, int]]):
    store = MemoryInTime()
    grips: dict[int, Grip] = {}
    until: dict[int, int] = {}

    def others_hold(me: int) -> bool:
        return any(end > store.now for holder, end in until.items() if holder != me)

    for action, me, minutes in steps:
        if action == "pass":
            store.now += minutes * MINUTE
        elif action == "take":
            if until.get(me, 0) > store.now:
                continue
            got = take(store, str(me), for_ms=minutes * MINUTE)
            assert isinstance(got, Grip) is not others_hold(me)
            if isinstance(got, Grip):
                grips[me], until[me] = got, store.now + minutes * MINUTE
        elif me in grips and action == "renew":
            if grips[me].renew(minutes * MINUTE):
                assert not others_hold(me)
                until[me] = store.now + minutes * MINUTE
        elif me in grips:
            grips.pop(me).give_up()
            until.pop(me)
        assert len(there(store)) <= 1


def test_a_lease_makes_no_root(tmp_path: Path):
    with pytest.raises(NotARoot):
        Leases.open(tmp_path, "ann")
    assert list(tmp_path.iterdir()) == []


def test_a_root_with_leases_is_opened_looked_at_and_cared_for_as_ever(tmp_path: Path):
    root = tmp_path / "root"
    with Log.open(root) as log:
        log.create_topic("orders")
        assert isinstance(Leases.open(root, "ann").take("retention", MINUTE), Grip)
    with Log.open(root) as log, LogReader.open(root) as reader:
        assert isinstance(Leases.open(root, "bob").take("retention", MINUTE), Lease)
        log.run_upkeep()
        assert list(reader.topics()) == ["orders"]
