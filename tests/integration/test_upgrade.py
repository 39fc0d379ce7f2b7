"""Older formats become the present one in place. There is none older yet, so these roots are made up."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from delta_log import Log
from delta_log.model.errors import NotARoot, RootInUse
from delta_log.operations import check, repair, upgrade
from delta_log.root.root import FORMAT, RootInfo, encode_info
from delta_log.startup import upgrade as upgrading
from delta_log.stores import Store
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import KINDS, QUIET, expected


class Died(BaseException):
    pass


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of a format that had a file of another name: the marks of two steps."""
    made = roots.make_dead_root(tmp_path / "root")
    write_format(made, FORMAT - 2)
    (made / "first.json").write_bytes(b"1")
    return made


def write_format(root: Path, number: int) -> None:
    told = msgspec.json.decode((root / "lakelog.json").read_bytes())
    (root / "lakelog.json").write_bytes(encode_info(RootInfo(told["cluster_id"], number)))


def format_of(root: Path) -> int:
    return msgspec.json.decode((root / "lakelog.json").read_bytes())["format"]


def rename(old: str, new: str) -> upgrading.Step:
    def step(store: Store) -> None:
        if store.stat(old) is not None:
            store.put(new, store.read(old))
            store.delete(old)

    return step


STEPS = {FORMAT - 2: rename("first.json", "second.json"), FORMAT - 1: rename("second.json", "third.json")}


def test_a_root_of_the_present_format_is_left_alone(tmp_path: Path):
    root = roots.make_dead_root(tmp_path / "root")
    before = roots.content_of(root)
    assert "nothing to do" in str(upgrade(root))
    assert roots.content_of(root) == before


def test_an_older_format_is_brought_to_the_present_one_step_by_step(root: Path):
    before = roots.content_of(root)
    assert "would be upgraded" in str(upgrade(root, steps=STEPS, dry_run=True))
    assert roots.content_of(root) == before
    report = upgrade(root, steps=STEPS)
    assert (report.before, report.after) == (FORMAT - 2, FORMAT)
    assert (format_of(root), (root / "third.json").read_bytes()) == (FORMAT, b"1")
    assert roots.values(root) == expected()


@pytest.mark.parametrize("hit", [1, 2, 3, 4])
def test_an_upgrade_that_died_goes_on_where_it_was(root: Path, hit: int):
    left = hit

    def die(step: str) -> None:
        nonlocal left
        left -= step.startswith("upgrade.")
        if left == 0:
            raise Died

    with pytest.raises(Died):
        upgrade(root, steps=STEPS, probe=die)
    upgrade(root, steps=STEPS)
    assert (format_of(root), (root / "third.json").read_bytes()) == (FORMAT, b"1")


def test_a_start_upgrades_too(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        upgrading.upgrade_held, "__kwdefaults__", upgrading.upgrade_held.__kwdefaults__ | {"steps": STEPS}
    )
    with Log.open(root, settings=QUIET) as log:
        assert roots.read_values(log) == expected()
    assert format_of(root) == FORMAT


def test_a_newer_format_and_one_without_a_way_from_it_are_refused(root: Path):
    before = roots.content_of(root)
    for attempt in (lambda: upgrade(root), lambda: Log.open(root, settings=QUIET)):
        with pytest.raises(NotARoot, match="older than this version can upgrade"):
            attempt()
    assert roots.content_of(root).items() >= {n: c for n, c in before.items() if not n.startswith("writers/")}.items()
    write_format(root, FORMAT + 1)
    for attempt in (lambda: upgrade(root), lambda: Log.open(root, settings=QUIET)):
        with pytest.raises(NotARoot, match="newer than this version"):
            attempt()


@pytest.mark.parametrize("kind", KINDS)
def test_a_root_that_cannot_say_its_format_is_not_upgraded(root: Path, kind: str):
    KINDS[kind](root / "lakelog.json")
    before = roots.content_of(root)
    for dry_run in (True, False):
        with pytest.raises(NotARoot):
            upgrade(root, steps=STEPS, dry_run=dry_run)
    assert roots.content_of(root) == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_upgrade_leaves_to_a_repair_what_is_damaged_and_all_that_cures_it(root: Path, kind: str):
    KINDS[kind](roots.topic_files(root)[1])
    upgrade(root, steps=STEPS)
    assert not check(root).sound
    assert repair(root).exit_code == 0
    assert roots.values(root) == expected()


def test_a_root_that_somebody_owns_is_not_upgraded(tmp_path: Path):
    root = roots.make_dead_root(tmp_path / "root")
    with Log.open(root, settings=QUIET):
        write_format(root, FORMAT - 1)
        upgrade(root, steps=STEPS, dry_run=True)
    with Log.open(tmp_path / "other", settings=QUIET):
        told = msgspec.json.decode((tmp_path / "other" / "lakelog.json").read_bytes())
        with (tmp_path / "other" / "lakelog.json").open("r+b") as file:
            file.write(encode_info(RootInfo(told["cluster_id"], FORMAT - 1)))
            file.truncate()
        with pytest.raises(RootInUse):
            upgrade(tmp_path / "other", steps=STEPS)
