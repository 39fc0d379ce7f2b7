"""What only a directory has to get right: what is synced, what a crash leaves, what an error means."""

import errno
import os
from pathlib import Path

import pytest

from delta_log.model.errors import OutcomeUnknown, StorageRefused
from delta_log.runtime.syscalls import Disk
from delta_log.stores import LocalStore
from delta_log.stores.local import LEFTOVER_MS, STAGING, delete_leftovers


class WatchedDisk(Disk):
    """Remembers what was asked of it, and fails on command."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.failing: set[str] = set()
        self.code = errno.EIO

    def _do(self, name: str, path: str) -> None:
        self.calls.append((name, path))
        if name in self.failing:
            raise OSError(self.code, "the test says so", path)

    def sync(self, fd: int) -> None:
        self._do("sync", "")
        super().sync(fd)

    def link(self, source: str, target: str) -> None:
        self._do("link", target)
        super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._do("rename", target)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._do("unlink", path)
        super().unlink(path)

    def sync_directory(self, path: str) -> None:
        self._do("sync_directory", path)
        super().sync_directory(path)


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def store(tmp_path: Path, disk: WatchedDisk) -> LocalStore:
    return LocalStore(tmp_path, disk=disk)


def staged(root: Path) -> list[str]:
    return [path.name for path in (root / STAGING).iterdir()]


def test_content_is_synced_before_its_name_and_its_name_before_the_answer(store: LocalStore, disk, tmp_path: Path):
    store.create("t/a", b"x")
    kinds = [kind for kind, path in disk.calls if path in ("", str(tmp_path / "t/a"), str(tmp_path / "t"))]
    assert kinds == ["sync", "link", "sync_directory"]
    disk.calls.clear()
    store.put("t/a", b"y")
    kinds = [kind for kind, path in disk.calls if path in ("", str(tmp_path / "t/a"), str(tmp_path / "t"))]
    assert kinds == ["sync", "rename", "sync_directory"]


def test_a_directory_that_somebody_made_and_died_is_synced_before_it_is_relied_on(store: LocalStore, disk, tmp_path):
    """A process made it and died before its sync: the name could still vanish with the power."""
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    store.create("t/_delta_log/0", b"x")
    synced = [path for kind, path in disk.calls if kind == "sync_directory"]
    assert {str(tmp_path), str(tmp_path / "t"), str(tmp_path / "t/_delta_log")} <= set(synced)
    disk.calls.clear()
    store.create("t/_delta_log/1", b"x")
    assert [path for kind, path in disk.calls if kind == "sync_directory"] == [str(tmp_path / "t/_delta_log")]


def test_who_is_told_that_a_name_is_taken_can_rely_on_what_took_it(store: LocalStore, disk, tmp_path: Path):
    """The other one may have died between giving the name and syncing it."""
    store.create("t/a", b"x")
    disk.calls.clear()
    assert not store.create("t/a", b"y")
    assert ("sync_directory", str(tmp_path / "t")) in disk.calls


def test_settling_a_directory_syncs_it(store: LocalStore, disk, tmp_path: Path):
    store.create("t/a", b"x")
    disk.calls.clear()
    store.settle("t")
    assert disk.calls == [("sync_directory", str(tmp_path / "t"))]


@pytest.mark.parametrize(
    ("step", "write"), [("sync", "create"), ("link", "create"), ("sync", "put"), ("rename", "put")]
)
def test_a_failure_before_the_name_is_given_is_a_refusal_and_leaves_nothing(store, disk, tmp_path, step, write):
    disk.failing.add(step)
    disk.code = errno.ENOSPC
    with pytest.raises(StorageRefused, match="t/a"):
        getattr(store, write)("t/a", b"x")
    disk.failing.clear()
    assert store.stat("t/a") is None
    assert staged(tmp_path) == []
    getattr(store, write)("t/a", b"y")
    assert store.read("t/a") == b"y"


@pytest.mark.parametrize(("step", "write"), [("link", "create"), ("rename", "put")])
def test_a_disk_that_fails_while_a_name_is_given_may_have_given_it(store, disk, tmp_path, step, write):
    disk.failing.add(step)
    with pytest.raises(OutcomeUnknown, match="t/a"):
        getattr(store, write)("t/a", b"x")
    assert staged(tmp_path) == []


@pytest.mark.parametrize("write", ["create", "put"])
def test_a_name_that_was_given_but_not_synced_has_an_unknown_outcome(store, disk, tmp_path, write):
    store.put("t/other", b"x")
    disk.failing.add("sync_directory")
    with pytest.raises(OutcomeUnknown, match="t/a"):
        getattr(store, write)("t/a", b"x")
    assert staged(tmp_path) == []


def test_errors_of_the_disk_are_errors_of_the_tree(store: LocalStore, disk: WatchedDisk, tmp_path: Path):
    """Whoever keeps other topics going catches LakelogError, not whatever an operating system knows."""
    store.put("t/a", b"x")
    disk.failing.add("unlink")
    with pytest.raises(StorageRefused, match="t/a"):
        store.delete("t/a")
    (tmp_path / "loop").symlink_to("loop")
    for ask in (store.read, store.stat, store.list):
        with pytest.raises(StorageRefused, match="loop"):
            ask("loop")


def test_a_directory_that_was_removed_behind_our_back_is_made_again(store: LocalStore, tmp_path: Path):
    store.create("t/a", b"x")
    (tmp_path / "t" / "a").unlink()
    (tmp_path / "t").rmdir()
    with pytest.raises(StorageRefused):
        store.create("t/a", b"x")
    assert store.create("t/a", b"x")


def test_deleting_a_directory_takes_it_away_as_a_whole_before_its_content_goes(tmp_path: Path, monkeypatch):
    """A crash on the way must not leave a table with half of its log."""
    store = LocalStore(tmp_path)
    for number in range(5):
        store.create(f"t/_delta_log/{number}", b"x")
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    store.delete_directory("t")
    assert not (tmp_path / "t").exists()
    assert len(staged(tmp_path)) == 1


def test_two_stores_of_one_root_never_stage_under_one_name(tmp_path: Path):
    """Process ids repeat from container to container."""
    stores = [LocalStore(tmp_path) for _ in range(3)]
    assert len({store._fresh_name() for store in stores for _ in range(100)}) == 300


def test_old_leftovers_of_a_crash_go_and_work_in_progress_stays(tmp_path: Path):
    folder = tmp_path / STAGING
    (folder / "old directory").mkdir(parents=True)
    for name in ("old", "new"):
        (folder / name).write_bytes(b"x")
    (folder / "old directory" / "inside").write_bytes(b"x")
    now_ms = (folder / "new").stat().st_mtime_ns // 1_000_000
    for name in ("old", "old directory"):
        os.utime(folder / name, (now_ms / 1000 - LEFTOVER_MS / 1000 - 60,) * 2)
    delete_leftovers(tmp_path, now_ms)
    assert staged(tmp_path) == ["new"]
    delete_leftovers(tmp_path / "no root at all", now_ms)
