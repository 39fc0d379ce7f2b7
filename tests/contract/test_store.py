"""What every store promises, whatever kind of place it is.

A store for another kind of place is added to `STORES`; what only a directory can do is in the unit tests, and what
a bucket does under trouble in the integration tests.
"""

import random
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delta_log.stores import LocalStore, MemoryStore, Store
from delta_log.stores.objects import ObjectStore
from tests.support.azure_server import WANTED as AZURE_TOO
from tests.support.s3_server import options_for
from tests.support.store_proxy import TROUBLE, StoreProxy

Make = Callable[[Path], Store]


def make_local(folder: Path) -> Store:
    return LocalStore(folder / "root")


def make_memory(_: Path) -> Store:
    return MemoryStore()


@pytest.fixture(params=["local", "memory", "s3", "s3 behind a bad network", *(["az"] if AZURE_TOO else [])])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    if request.param in ("local", "memory"):
        yield make_local if request.param == "local" else make_memory
        return
    if request.param == "az":
        azure = request.getfixturevalue("azure_server")
        yield lambda folder: ObjectStore(azure.root(f"{folder.name}-{uuid.uuid4().hex}"), azure.options)
        return
    server = request.getfixturevalue("s3_server")
    with StoreProxy(server.address, random.Random(7)) as proxy:
        proxy.trouble = TROUBLE
        options = server.options if request.param == "s3" else options_for(proxy.url) | {"timeout": "5s"}
        yield lambda folder: ObjectStore(server.root(f"{folder.name}-{uuid.uuid4().hex}"), options)


@pytest.fixture
def store(make: Make, tmp_path: Path) -> Store:
    return make(tmp_path)


def names(store: Store, directory: str) -> list[str]:
    return [entry.name for entry in store.list(directory)]


def test_create_stores_under_a_free_name_only(store: Store):
    assert store.create("a/b", b"first")
    assert not store.create("a/b", b"second")
    assert store.read("a/b") == b"first"


def test_a_name_is_free_again_once_its_blob_is_deleted(store: Store):
    store.create("a/b", b"first")
    store.delete("a/b")
    assert store.create("a/b", b"second")
    assert store.read("a/b") == b"second"


def test_of_eight_creators_at_once_exactly_one_wins_and_its_content_stays(store: Store):
    """Put-if-absent: however many try, one is told so, and what it put is what everybody reads."""
    with ThreadPoolExecutor(8) as pool:
        for number in range(40):
            gate = threading.Barrier(8)
            path = f"race/{number:03d}"

            def enter(me: int, gate: threading.Barrier = gate, path: str = path) -> bool:
                gate.wait()
                return store.create(path, b"%d" % me * 1000)

            won = list(pool.map(enter, range(8)))
            assert won.count(True) == 1
            assert store.read(path) == b"%d" % won.index(True) * 1000
    assert len(store.list("race")) == 40


def test_put_replaces_the_whole_blob(store: Store):
    store.put("a", b"a long first content")
    store.put("a", b"short")
    assert store.read("a") == b"short"
    assert store.stat("a").size == 5


def test_readers_beside_a_writer_see_whole_blobs_only(store: Store):
    """A blob is whole or absent, also while it is being replaced."""
    contents = [bytes([65 + n]) * 200_000 for n in range(4)]
    store.put("a", contents[0])
    done = threading.Event()
    seen: list[bytes] = []

    def read() -> None:
        while not done.is_set():
            seen.append(store.read("a"))

    reader = threading.Thread(target=read)
    reader.start()
    for round_ in range(60):
        store.put("a", contents[round_ % 4])
    done.set()
    reader.join()
    assert set(seen) <= set(contents)


@pytest.mark.parametrize("write", ["create", "put"])
@pytest.mark.parametrize(
    "blob",
    [b"", b"\0", memoryview(b"view"), pa.py_buffer(b"arrow"), b"x" * 5_000_001],
    ids=["empty", "one byte", "memoryview", "arrow", "large"],
)
def test_blobs_of_any_kind_and_size_come_back_as_they_were(store: Store, write: str, blob):
    getattr(store, write)("some/where/blob", blob)
    expected = bytes(memoryview(blob))
    assert store.read("some/where/blob") == expected
    assert store.stat("some/where/blob").size == len(expected)
    with store.open_input("some/where/blob") as source:
        assert source.size() == len(expected)
        assert source.read() == expected
        assert source.read_at(3, max(0, len(expected) - 3)) == expected[-3:]


def test_what_comes_part_by_part_is_one_blob(store: Store):
    parts = (b"", b"one", memoryview(b" and "), pa.py_buffer(b"two"), b"x" * 3_000_000)
    assert store.put_parts("some/blob", iter(parts)) == 10 + 3_000_000 + 1
    assert store.read("some/blob") == b"one and two" + b"x" * 3_000_000
    assert store.put_parts("some/blob", []) == 0
    assert store.read("some/blob") == b""


@pytest.mark.parametrize("error", [FileNotFoundError("an input"), OSError("a bad one"), ValueError("no row")])
def test_parts_that_do_not_come_to_their_end_are_not_stored_and_say_why(store: Store, error: Exception):
    def parts():
        yield b"begun"
        raise error

    store.put("some/blob", b"before")
    with pytest.raises(type(error)) as raised:
        store.put_parts("some/blob", parts())
    assert raised.value is error
    assert store.read("some/blob") == b"before"
    with pytest.raises(type(error)):
        store.put_parts("another", parts())
    assert store.stat("another") is None


def test_an_open_blob_stays_readable_when_it_is_replaced_or_deleted(store: Store):
    store.put("a", b"before")
    with store.open_input("a") as source:
        store.put("a", b"behind")
        store.delete("a")
        assert source.read() == b"before"


def test_what_is_absent_is_said_to_be_absent(store: Store):
    """Absence is FileNotFoundError where content is asked for, and an answer everywhere else."""
    store.put("blob", b"x")
    store.put("folder/blob", b"x")
    for path in ("nothing", "no/such/folder/x", "folder/nothing", "blob/below", "folder"):
        assert store.stat(path) is None
        with pytest.raises(FileNotFoundError):
            store.read(path)
        store.delete(path)
    for path in ("nothing", "folder/nothing"):
        with pytest.raises(FileNotFoundError):
            store.open_input(path)
    for directory in ("nothing", "no/such/folder", "blob", "blob/below"):
        assert store.list(directory) == []
        store.delete_directory(directory)
    assert store.read("blob") == store.read("folder/blob") == b"x"


def test_stat_tells_the_last_part_of_the_name_and_the_time_by_the_stores_own_clock(store: Store):
    before = store.now_ms()
    store.put("a/b/c", b"123")
    found = store.stat("a/b/c")
    assert (found.name, found.size, found.is_directory) == ("c", 3, False)
    assert before - 1000 <= found.modified_ms <= store.now_ms() + 1000


def test_a_listing_is_sorted_and_shows_what_is_right_below_alone(store: Store):
    for path in ("t/b", "t/a", "t/10", "t/9", "t/sub/x", "t/sub/deep/y", "t2/z", "t/_delta_log/0"):
        store.put(path, path.encode())
    assert names(store, "t") == ["10", "9", "_delta_log", "a", "b", "sub"]
    assert [e.name for e in store.list("t") if e.is_directory] == ["_delta_log", "sub"]
    assert [(e.name, e.size) for e in store.list("t") if not e.is_directory] == [
        ("10", 4),
        ("9", 3),
        ("a", 3),
        ("b", 3),
    ]
    assert names(store, "t/sub") == ["deep", "x"]
    assert [entry.size for entry in store.list("t") if entry.is_directory] == [0, 0]


def test_a_listing_never_shows_what_is_still_being_written(store: Store):
    """Other readers list these directories: a name that they do not know would confuse them."""
    done = threading.Event()
    seen: set[str] = set()

    def look() -> None:
        while not done.is_set():
            seen.update(names(store, "t/_delta_log"), names(store, "t"))

    looker = threading.Thread(target=look)
    looker.start()
    wanted = [f"{number:020d}.json" for number in range(60)]
    for name in wanted:
        store.create(f"t/_delta_log/{name}", b"x" * 50_000)
        store.create(f"t/_delta_log/{name}", b"again")
        store.put("t/_delta_log/_last_checkpoint", b"y" * 50_000)
    done.set()
    looker.join()
    # The store of the tests keeps objects as files, and may list one of its own while it is being replaced.
    theirs = {name for name in seen if ".sgwtmp." in name}
    assert seen - theirs <= {*wanted, "_last_checkpoint", "_delta_log"}
    assert names(store, "t/_delta_log") == [*wanted, "_last_checkpoint"]


def test_a_deleted_blob_is_gone_and_its_neighbours_stay(store: Store):
    store.put("a/b", b"1")
    store.put("a/bc", b"2")
    store.delete("a/b")
    store.delete("a/b")
    assert store.stat("a/b") is None
    assert names(store, "a") == ["bc"]


def test_a_deleted_directory_takes_all_below_with_it_and_nothing_beside(store: Store):
    for path in ("t/a", "t/sub/deep/x", "t2/a", "ta"):
        store.put(path, b"x")
    store.delete_directory("t")
    store.delete_directory("t")
    assert store.list("t") == []
    assert store.stat("t/sub/deep/x") is None
    assert store.stat("t2/a") is not None
    assert store.stat("ta") is not None


def test_a_directory_can_be_filled_again_after_it_was_deleted(store: Store):
    for round_ in range(3):
        assert store.create("t/sub/a", b"%d" % round_)
        store.put("t/sub/b", b"%d" % round_)
        store.delete_directory("t")
    assert store.create("t/sub/a", b"last")
    assert names(store, "t/sub") == ["a"]


def test_writers_go_on_while_directories_come_and_go(store: Store):
    """Deleting one directory disturbs nobody who writes to another."""

    def fill(me: int) -> None:
        for number in range(25):
            assert store.create(f"t{me}/{number}/x", b"x")
            if number % 5 == 0:
                store.delete_directory(f"t{me}/{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(4)))
    for me in range(4):
        assert len([e for e in store.list(f"t{me}") if store.list(f"t{me}/{e.name}")]) == 20


def test_settling_a_directory_changes_nothing_that_can_be_seen(store: Store):
    store.create("t/a", b"x")
    before = store.list("t")
    store.settle("t")
    assert store.list("t") == before


def test_the_clock_of_a_store_does_not_run_backwards(store: Store):
    readings = [store.now_ms() for _ in range(5)]
    assert readings == sorted(readings)


PATHS = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "put", "delete", "drop"]), PATHS, st.binary(max_size=3)), max_size=15
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_store_is_a_dictionary_of_blobs(make: Make, tmp_path_factory, steps):
    """create, put, delete and delete_directory do to every store what they do to a dictionary."""
    store, model = make(tmp_path_factory.mktemp("store")), {}
    for what, path, blob in steps:
        if what == "create":
            # Where an answer was lost, the very bytes that are there are taken for those that were sent.
            other = blob + b"!" if model.get(path) == blob else blob
            assert store.create(path, other) == (path not in model)
            model.setdefault(path, other)
        elif what == "put":
            store.put(path, blob)
            model[path] = blob
        elif what == "delete":
            store.delete(path)
            model.pop(path, None)
        else:
            store.delete_directory("d/e" if path == "d/e/a" else "d")
            model = {
                key: kept for key, kept in model.items() if not key.startswith("d/e/" if path == "d/e/a" else "d/")
            }
    for path in ("a", "b", "d/a", "d/b", "d/e/a"):
        assert (store.read(path) if store.stat(path) else None) == model.get(path)
    for directory in ("d", "d/e"):
        blobs = [entry.name for entry in store.list(directory) if not entry.is_directory]
        assert blobs == sorted(key.rpartition("/")[2] for key in model if key.rpartition("/")[0] == directory)
