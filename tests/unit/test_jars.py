"""Who fetches jars does it alone."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from jobs.spark.jars import absent_jars, cache_folder, fetched_by_one, jar_folder

JARS = ("org.one:a_2.13:1.0", "org.one:b:2.0")


def fetch(ivy: Path, *names: str) -> None:
    jar_folder(ivy).mkdir(exist_ok=True)
    for name in names:
        (jar_folder(ivy) / name).touch()


def may_enter(ivy: Path, kind: int) -> bool:
    with (ivy / ".lock").open() as lock:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_nobody_starts_beside_one_who_fetches(tmp_path: Path):
    """Also who finds all of them there, as the last one may be half a file."""
    with fetched_by_one(tmp_path, JARS):
        fetch(tmp_path, "org.one_a_2.13-1.0.jar", "org.one_b-2.0.jar")
        assert not may_enter(tmp_path, fcntl.LOCK_SH)
    assert may_enter(tmp_path, fcntl.LOCK_SH)


def test_who_has_all_jars_starts_beside_others_but_none_fetches_meanwhile(tmp_path: Path):
    fetch(tmp_path, "org.one_a_2.13-1.0.jar", "org.one_b-2.0.jar")
    with fetched_by_one(tmp_path, JARS), fetched_by_one(tmp_path, JARS):
        assert not may_enter(tmp_path, fcntl.LOCK_EX)


def test_the_lock_goes_with_a_start_that_fails(tmp_path: Path):
    with pytest.raises(ValueError, match="no Java"), fetched_by_one(tmp_path, JARS):
        raise ValueError("no Java")
    assert may_enter(tmp_path, fcntl.LOCK_EX)


def test_what_is_absent_is_said_by_its_coordinates(tmp_path: Path):
    assert absent_jars(tmp_path, JARS) == list(JARS)
    fetch(tmp_path, "org.one_a_2.13-1.0.jar")
    assert absent_jars(tmp_path, JARS) == ["org.one:b:2.0"]


def test_a_folder_where_nobody_may_write_is_no_hindrance(tmp_path: Path):
    (tmp_path / "file").touch()
    with fetched_by_one(tmp_path / "file" / "ivy", JARS):
        pass


def test_jars_are_among_the_users_caches_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({}) == tmp_path / ".cache" / "lakelog"
    assert cache_folder({"XDG_CACHE_HOME": "/caches"}) == Path("/caches/lakelog")
    assert cache_folder({"XDG_CACHE_HOME": "/caches", "LAKELOG_CACHE": "/mine"}) == Path("/mine")
    monkeypatch.chdir(tmp_path)
    assert cache_folder({"LAKELOG_CACHE": "here"}) == tmp_path / "here"
