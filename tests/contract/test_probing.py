"""What is tried of a place before a log is kept there: sound places pass, and each fault is found."""

from __future__ import annotations

import errno
import threading
import uuid
from collections import Counter
from pathlib import Path

import pytest

from delta_log.model.errors import StorageRefused
from delta_log.stores import LocalStore, MemoryStore, Store
from delta_log.stores.objects import ObjectStore
from delta_log.stores.store_check import Trial, check_put_if_absent, try_directory, try_rights
from tests.support.failing_disk import FailingDisk


class IgnoresTheCondition(MemoryStore):
    def create(self, path, data):
        self.put(path, data)
        return True


class LooksBeforeItPuts(MemoryStore):
    """Right as long as nobody comes between; where others are about to, it waits for one of them."""

    def __init__(self) -> None:
        super().__init__()
        self._looked = Counter[str]()
        self._looking = threading.Condition()

    def create(self, path, data):
        taken = self.stat(path) is not None
        alone = threading.current_thread() is threading.main_thread()
        with self._looking:
            self._looked[path] += 1
            self._looking.notify_all()
            self._looking.wait_for(lambda: alone or self._looked[path] > 1, timeout=60)
        if not taken:
            self.put(path, data)
        return not taken


class ReplacesAndRefuses(MemoryStore):
    def create(self, path, data):
        taken = self.stat(path) is not None
        self.put(path, data)
        return not taken


class RefusesAll(MemoryStore):
    def create(self, path, data):
        raise StorageRefused(path, "no right to write")


class KeepsAll(MemoryStore):
    def delete(self, path):
        raise StorageRefused(path, "no right to delete")


class WithoutLinks(FailingDisk):
    def link(self, source, target):
        self._check("link")
        super().link(source, target)


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        return ObjectStore(server.root(f"probing-{uuid.uuid4().hex}"), server.options)
    return LocalStore(tmp_path / "root") if request.param == "local" else MemoryStore()


def blobs(store: Store, directory: str = "") -> list[str]:
    found: list[str] = []
    for entry in store.list(directory):
        path = f"{directory}/{entry.name}".lstrip("/")
        found += blobs(store, path) if entry.is_directory else [path]
    return found


def test_a_sound_store_passes_and_nothing_stays_behind(store: Store):
    assert check_put_if_absent(store) is None
    assert try_rights(store) == [Trial(what) for what in ("create", "read", "list", "replace", "delete")]
    assert blobs(store) == []


@pytest.mark.parametrize(
    ("store", "wrong"),
    [
        (IgnoresTheCondition(), "a second creation of the same name was not refused"),
        (ReplacesAndRefuses(), "a refused creation took the place of what was there"),
        (LooksBeforeItPuts(), "creations of the same name at once"),
        (RefusesAll(), "no right to write"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_store_without_put_if_absent_is_found_out(store: Store, wrong: str):
    said = check_put_if_absent(store)
    assert said is not None
    assert wrong in said
    assert blobs(store) == []


def test_a_right_that_is_missing_is_named():
    assert [trial.what for trial in try_rights(KeepsAll()) if trial.wrong is not None] == ["delete"]
    (only,) = try_rights(RefusesAll())
    assert only.what == "create"
    assert "no right to write" in (only.wrong or "")


def test_a_sound_directory_has_all_calls_and_nothing_stays_behind(tmp_path: Path):
    assert [trial.wrong for trial in try_directory(tmp_path)] == [None] * 6
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_links_is_found_out(tmp_path: Path):
    disk = WithoutLinks()
    disk.fail("link", code=errno.EPERM)
    wrong = {trial.what: trial.wrong for trial in try_directory(tmp_path, disk) if trial.wrong is not None}
    assert list(wrong) == ["link", "link to a taken name"]
    assert "Operation not permitted" in (wrong["link"] or "")


@pytest.mark.parametrize(
    ("call", "code", "what"),
    [
        ("rename", errno.EIO, "rename"),
        ("sync", errno.EIO, "write and fsync"),
        ("sync_directory", errno.EINVAL, "fsync of a directory"),
    ],
)
def test_a_call_that_a_file_system_does_not_have_is_named(tmp_path: Path, call: str, code: int, what: str):
    disk = WithoutLinks()
    disk.fail(call, code=code)
    wrong = [trial.what for trial in try_directory(tmp_path, disk) if trial.wrong is not None]
    assert wrong == [what]
    assert list(tmp_path.iterdir()) == []
