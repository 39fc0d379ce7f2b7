"""Who may write to a root: one at a time, each with a number of his own."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from delta_log import Log, LogReader
from delta_log.model.errors import NotARoot, RootInUse, StorageRefused
from delta_log.root.root import ROOT_FILE, LocalRoot, MemoryRoot, Root, as_root, claim_epoch, open_root
from delta_log.startup.open import Settings
from delta_log.stores import LocalStore, MemoryStore, Store

QUIET = Settings(upkeep=False)
HOLD = """
import sys
from delta_log import Log, Settings
log = Log.open(sys.argv[1], settings=Settings(upkeep=False))
print(log.epoch, flush=True)
sys.stdin.read()
log.close()
"""


@pytest.fixture(params=["local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    return LocalRoot(tmp_path / "root") if request.param == "local" else MemoryRoot()


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()


@pytest.fixture
def other_process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the root until it is told to stop."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "root")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "1"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_owner_in_this_process_is_refused_and_told_who_is_first(root: Root):
    with Log.open(root, settings=QUIET), pytest.raises(RootInUse, match="process"):
        Log.open(root, settings=QUIET)
    with Log.open(root, settings=QUIET) as again:
        assert again.epoch == 2


def test_a_second_owner_in_another_process_is_refused_until_the_first_is_gone(tmp_path: Path, other_process):
    with pytest.raises(RootInUse, match=f"process {other_process.pid} on ") as refused:
        Log.open(tmp_path / "root", settings=QUIET)
    assert refused.value.retriable
    other_process.kill()
    other_process.wait()
    with Log.open(tmp_path / "root", settings=QUIET) as log:
        assert log.epoch == 2


def test_a_root_that_is_being_written_can_be_looked_at(tmp_path: Path, other_process):
    with LogReader.open(tmp_path / "root") as reader:
        assert reader.topics() == []


def test_a_copy_of_the_lock_in_a_child_process_does_not_outlive_its_owner(tmp_path: Path):
    """A descriptor that was inherited must not keep the root of a log that was closed."""
    root = LocalRoot(tmp_path / "root")
    log = Log.open(root, settings=QUIET)
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[root._lock]) as child:
        try:
            log.close()
            Log.open(tmp_path / "root", settings=QUIET).close()
        finally:
            child.kill()


def test_a_directory_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("mine")
    for open_it in (lambda: Log.open(tmp_path), lambda: LogReader.open(tmp_path)):
        with pytest.raises(NotARoot, match=ROOT_FILE):
            open_it()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_no_root(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    for open_it in (lambda: Log.open(tmp_path / "file"), lambda: LogReader.open(tmp_path / "file")):
        with pytest.raises(NotARoot):
            open_it()


def test_a_fresh_file_system_can_become_a_root(tmp_path: Path):
    (tmp_path / "lost+found").mkdir()
    Log.open(tmp_path, settings=QUIET).close()


def test_looking_at_nothing_is_refused_and_makes_nothing(tmp_path: Path):
    with pytest.raises(NotARoot):
        LogReader.open(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_format_is_refused(root: Root):
    root.store.put(ROOT_FILE, b'{"cluster_id": "c", "format": 2}')
    for open_it in (lambda: Log.open(root), lambda: LogReader.open(root)):
        with pytest.raises(NotARoot, match="format 2 is newer"):
            open_it()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cluster_id": 5, "format": 1}', b"\xff"])
def test_a_root_file_that_cannot_be_read_is_named(root: Root, content: bytes):
    root.store.put(ROOT_FILE, content)
    with pytest.raises(NotARoot, match=ROOT_FILE):
        Log.open(root)


def test_a_root_keeps_its_cluster_id(root: Root):
    with Log.open(root, settings=QUIET) as log:
        first = log.cluster_id
    with Log.open(root, settings=QUIET) as log:
        assert log.cluster_id == first
    told = msgspec.json.decode(root.store.read(ROOT_FILE))
    assert (told["cluster_id"], told["format"]) == (first, 1)


def test_two_who_make_a_root_at_once_agree_on_what_it_is(root: Root):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: open_root(root, create=True), range(4)))
    assert len({info.cluster_id for info in found}) == 1


def test_who_finds_a_root_half_made_by_another_takes_it(tmp_path: Path):
    """Between looking for the root's file and looking for foreign ones, another may have made it."""

    class Slow(LocalRoot):
        def is_foreign(self) -> bool:
            Log.open(self.path, settings=QUIET).close()
            return super().is_foreign()

    with Log.open(Slow(tmp_path / "root"), settings=QUIET) as log:
        assert log.epoch == 2


def test_a_root_that_cannot_be_locked_lets_go_of_its_file(tmp_path: Path, monkeypatch):
    root = LocalRoot(tmp_path / "root")
    open_root(root, create=True)

    def no_locks(*_) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(StorageRefused, match="lock"):
        root.hold()
    assert root._lock is None


def test_epochs_rise_by_one_and_only_the_newest_writers_stay_named(store: Store):
    assert [claim_epoch(store, 0) for _ in range(10)] == list(range(1, 11))
    assert [entry.name for entry in store.list("writers")] == [f"{n:010d}.json" for n in (8, 9, 10)]


def test_of_many_claims_at_once_no_two_get_one_epoch(store: Store):
    gate = threading.Barrier(2)

    def claim(_: int) -> list[int]:
        gate.wait()
        return [claim_epoch(store, 0) for _ in range(25)]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(claim, range(2))
    assert first == sorted(first)
    assert second == sorted(second)
    assert len({*first, *second}) == 50


@pytest.mark.parametrize("already", [0, 1, 5])
def test_a_claim_that_slept_through_others_takes_no_number_of_the_past(store: Store, already: int):
    """A number is free once its file is deleted, and must still never be given again."""
    for _ in range(already):
        claim_epoch(store, 0)

    class Sleepy:
        """Sleeps once between looking and taking."""

        def __init__(self) -> None:
            self.slept = False

        def __getattr__(self, name: str) -> Callable:
            return getattr(store, name)

        def create(self, path: str, data: bytes) -> bool:
            if not self.slept:
                self.slept = True
                self.others = [claim_epoch(store, 0) for _ in range(6)]
            return store.create(path, data)

    sleepy = Sleepy()
    late = claim_epoch(sleepy, 0)
    assert late > max(sleepy.others)
    assert claim_epoch(store, 0) > late


def test_a_place_is_a_directory_a_memory_or_a_root_itself(tmp_path: Path, root: Root):
    assert isinstance(as_root("memory://"), MemoryRoot)
    assert as_root(str(tmp_path)).store.location == str(tmp_path)
    assert as_root(root) is root
