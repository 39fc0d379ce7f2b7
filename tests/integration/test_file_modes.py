"""Whom the files of a root are for: its owner, and readers in its group."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.maintenance.lease_holder import Leases
from delta_log.model.transaction_bounds import Bounds
from delta_log.operations import backup, export_topic, restore
from delta_log.transactions.spill import Spill
from jobs.tables import audit, checkpoint, compaction, key_compaction, retention, vacuum
from lakelog.cli.main import main
from tests.support.nobody import run_as_nobody

#: Steps that come again and again are looked at so many times.
_LOOKS = 3
_SETTINGS = Settings(segment_bytes=16 * 1024, transactions=Bounds(memory_bytes=1))


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[int, set[str]]:
    """What there is of each mode, by the kind of it: a path without its numbers."""
    found: dict[int, set[str]] = {}
    for path in [folder, *folder.rglob("*")]:
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        kind = ("folder" if stat.S_ISDIR(mode) else "file") + " " + path.relative_to(folder).as_posix()
        found.setdefault(stat.S_IMODE(mode), set()).add(kind)
    return found


def work(root: Path) -> None:
    """All kinds of files: of the journal, tables, checkpoints, ledgers, leases, jobs, and of what is staged."""
    at_each_step: list[dict[int, set[str]]] = []

    steps: Counter[str] = Counter()

    def look(step: str) -> None:
        steps[step] += 1
        if steps[step] <= _LOOKS:
            at_each_step.append(modes(root))

    with Log.open(root, settings=_SETTINGS, probe=look) as log:
        log.create_topic("orders", 2, {"cleanup.policy": "compact"})
        begun = log.transactions.begin("copier")
        log.transactions.append(begun.id, "orders", [Record(b"x" * 100_000, key=b"k")])
        log.transactions.commit(begun.id)
        for number in range(105):
            log.append("orders", [Record(b"%d" % number, b"tea")], producer=ProducerStamp("shop", 0, number))
            log.flush()
        log.run_upkeep()
        Leases.open(root, "a scheduler").take("audit-0123456789ab", 1000)
        for job in (audit, compaction, key_compaction, retention):
            assert job.main(["--data", str(root), "--all", "--engine", "local"]) == 0
        log.create_topic("deleted")
        log.delete_topic("deleted")
    for job in (checkpoint, vacuum):
        assert job.main(["--data", str(root), "--all"]) == 0
    at_each_step.append(modes(root))
    check_narrow(*at_each_step)


def check_narrow(*found: dict[int, set[str]]) -> None:
    for each in found:
        assert set(each) <= {0o750, 0o640}
        assert all(kind.startswith("folder ") for kind in each.get(0o750, set()))
        assert all(kind.startswith("file ") for kind in each.get(0o640, set()))


def test_all_that_a_root_a_copy_and_an_export_ever_hold_is_closed_to_others(tmp_path: Path):
    root = tmp_path / "a" / "root"
    with umask(0):
        work(root)
        backup(root, tmp_path / "backup")
        restore(tmp_path / "backup", tmp_path / "restored")
        with Log.open(tmp_path / "restored"):
            pass
        export_topic(root, "orders")
    for made in ("a", "backup", "restored"):
        check_narrow(modes(tmp_path / made))


def test_a_stricter_umask_is_respected(tmp_path: Path):
    with umask(0o077), Log.open(tmp_path / "root") as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"x")])
        log.flush()
    assert set(modes(tmp_path / "root")) == {0o700, 0o600}


_TRIES = """
def try_to(what, act):
    try:
        print(what, "done" if act() is None else "read")
    except PermissionError:
        print(what, "closed")

root = pathlib.Path(sys.argv[1])
for path in (root, root / "topics" / "orders", root / "journal"):
    try_to("list", lambda: list(path.iterdir()))
try_to("read", (root / "lakelog.json").read_bytes)
try_to("write", lambda: (root / "lakelog.json").open("r+b").close())
try_to("make", lambda: (root / "topics" / "made").mkdir())
try_to("remove", lambda: (root / "lakelog.json").unlink())
"""


@pytest.mark.parametrize(("in_the_group", "reads"), [(True, "read"), (False, "closed")])
def test_another_user_changes_nothing_and_reads_in_the_owners_group_alone(
    tmp_path: Path, in_the_group: bool, reads: str
):
    """Only root can be another user; the modes are what everybody sees."""
    root = tmp_path / "root"
    with umask(0o022), Log.open(root) as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"x")])
        log.flush()
    check_narrow(modes(root))
    if os.getuid():
        return
    group = root.stat().st_gid if in_the_group else 65534
    ended = run_as_nobody(f"import pathlib; os.setgroups([]); os.setgid({group})", _TRIES, root)
    reading, changing = ["list", "list", "list", "read"], ["write", "make", "remove"]
    told = [f"{what} {reads}" for what in reading] + [f"{what} closed" for what in changing]
    assert (ended.stdout.splitlines(), ended.stderr) == (told, "")


@pytest.mark.parametrize(
    ("widen", "says"),
    [
        (lambda root: root.chmod(0o755), "mode 0755"),
        (lambda root: root.chmod(0o770), "mode 0770"),
        (lambda root: (root / "journal").chmod(0o777), "journal has the mode 0777"),
        (lambda root: (root / "lakelog.json").chmod(0o660), "lakelog.json has the mode 0660"),
    ],
)
def test_what_is_wider_is_warned_of_and_left_as_it_is(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    widen: Callable[[Path], None],
    says: str,
):
    root = tmp_path / "root"
    Log.open(root).close()
    with Log.open(root):
        assert not [each for each in caplog.records if each.levelname == "WARNING"]
    assert main(["doctor", "--data", str(root)]) == main(["check", "--data", str(root)]) == 0
    assert "has the mode" not in capsys.readouterr().out
    widen(root)
    before = modes(root)
    with Log.open(root):
        said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert len(said) == 1
        assert says in said[0]
        assert f"chmod -R g-w,o-rwx {root}" in said[0]
    assert main(["doctor", "--data", str(root)]) == 0
    assert says in capsys.readouterr().out
    assert main(["check", "--data", str(root)]) == 0
    out = capsys.readouterr().out
    assert says in out
    assert "sound" in out
    assert {path: mode for path, mode in modes(root).items() if path in before}.keys() == before.keys()


@pytest.mark.parametrize("refusal", [None, errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_a_spill_has_no_name_and_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None
):
    """Also on a file system that has names for all its files: there the name is gone at once."""
    opened: list[tuple[str, int, int]] = []
    system_open = os.open

    def open_as_there(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if refusal is not None and flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(refusal, os.strerror(refusal))
        opened.append((str(path), flags, mode))
        return system_open(path, flags, mode)

    monkeypatch.setattr(os, "open", open_as_there)
    with umask(0):
        spill = Spill(tmp_path)
    try:
        spill.add(b"records")
        assert bytes(spill.view()) == b"records"
        assert list(tmp_path.iterdir()) == []
        ((path, _, mode),) = opened
        assert Path(path).is_relative_to(tmp_path)
        assert mode == 0o600
    finally:
        spill.close()


def test_a_name_that_a_crash_left_of_a_spill_goes_at_a_later_start(tmp_path: Path):
    Log.open(tmp_path).close()
    left = tmp_path / "journal" / "staging" / "spill-0123456789abcdef0123456789abcdef"
    left.touch(0o600)
    os.utime(left, (1_700_000_000, 1_700_000_000))
    Log.open(tmp_path).close()
    assert not left.exists()


def test_the_spill_of_a_root_lies_in_the_root(tmp_path: Path):
    with Log.open(tmp_path / "root", settings=_SETTINGS) as log:
        log.create_topic("orders")
        begun = log.transactions.begin("copier")
        log.transactions.append(begun.id, "orders", [Record(b"x" * 100_000)])
        spilled = [each for each in map(_target, Path("/proc/self/fd").iterdir()) if each.endswith(" (deleted)")]
        spilled = [each for each in spilled if each.startswith(f"{tmp_path}/root/")]
        assert len(spilled) == 1
        log.transactions.abort(begun.id)


def test_where_there_is_no_root_on_a_disk_a_spill_lies_without_a_name_where_the_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill = Spill(None)
    try:
        spill.add(b"records")
        assert list(tmp_path.iterdir()) == []
    finally:
        spill.close()


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""
