"""An operator's verbs where the root lies in a bucket, with its journal of numbered objects."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from delta_log import Log
from delta_log.model.errors import NotOwner
from delta_log.operations import backup, check, export_topic, repair, upgrade
from delta_log.root.root import FORMAT, ROOT_FILE, ObjectRoot, RootInfo, encode_info, open_root
from delta_log.startup import upgrade as upgrading
from delta_log.stores import Store
from delta_log.stores.objects import ObjectStore
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import QUIET, TOPIC
from tests.support.logs import crash, hold_tables
from tests.support.s3_server import S3Server


class NeverDeletes(ObjectStore):
    """As one that died before it came to that: a bucket's journal lets go of each group by itself, and soon."""

    def delete_all(self, paths: Sequence[str]) -> None:
        pass


@pytest.fixture
def bucket(s3_server: S3Server) -> Any:
    """As `dead` is in a directory: the journal has everything, and of the last records it alone has them."""
    url = s3_server.root(uuid.uuid4().hex)
    roots.make_dead_root(ObjectRoot(NeverDeletes(url, s3_server.options), linger_ms=0))  # type: ignore[arg-type]
    return ObjectRoot(ObjectStore(url, s3_server.options), linger_ms=0)


def newest(root: ObjectRoot, directory: str, suffix: str, place: int = -1) -> str:
    names = [entry.name for entry in root.store.list(directory) if entry.name.endswith(suffix)]
    return f"{directory}/{names[place]}"


def flip(root: ObjectRoot, path: str) -> None:
    content = bytearray(root.store.read(path))
    content[len(content) // 2] ^= 0x55
    root.store.put(path, bytes(content))


def content_of(root: ObjectRoot, directory: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in root.store.list(directory):
        path = f"{directory}/{entry.name}".lstrip("/")
        found |= content_of(root, path) if entry.is_directory else {path: root.store.read(path)}
    return found


def test_what_is_damaged_in_a_bucket_is_named_and_cured(bucket: ObjectRoot):
    assert check(bucket).sound
    entry = newest(bucket, f"topics/{TOPIC}/_delta_log", ".json")
    file = newest(bucket, f"topics/{TOPIC}/partition=0", ".parquet", 0)
    for path, damage in (
        (file, lambda: flip(bucket, file)),
        (entry, lambda: bucket.store.put(entry, bucket.store.read(entry)[:100])),
    ):
        damage()
        report = check(bucket)
        assert report.exit_code == 1
        assert any(path in str(finding) for finding in report.findings)

    before = content_of(bucket)
    said: list[str] = []
    planned = repair(bucket, dry_run=True, say=said.append)
    assert content_of(bucket) == before
    assert said
    done = repair(bucket)
    assert len(done.done) >= len(planned.done) > 0
    assert (done.left, done.exit_code) == ((), 0)
    assert check(bucket).sound
    assert roots.values(bucket) == roots.expected()  # type: ignore[arg-type]


def test_a_damaged_group_of_the_journal_is_named_and_its_records_are_given_up_by_the_start(bucket: ObjectRoot):
    groups = [entry.name for entry in bucket.store.list("journal")]
    flip(bucket, f"journal/{groups[-3]}")
    assert any(groups[-3] in str(finding) for finding in check(bucket).findings)
    with Log.open(bucket, settings=QUIET) as log:
        kept = roots.read_values(log)
        assert [value for value in roots.expected() if value in kept] == kept
        assert len(roots.expected()) - 1 <= len(kept) <= len(roots.expected())
        assert log.append(TOPIC, [roots.Record(b"new")]).offsets() == [len(roots.expected())]


def test_a_bucket_is_copied_while_its_owner_lives_and_the_copy_starts(bucket: ObjectRoot, tmp_path: Path):
    with Log.open(bucket, settings=QUIET) as log:
        roots.write(log, range(32, 36))
        assert backup(bucket, tmp_path / "copy", dry_run=True).exit_code == 0
        assert not (tmp_path / "copy/lakelog.json").exists()
        assert backup(bucket, tmp_path / "copy").exit_code == 0
        roots.write(log, range(36, 40))
    assert roots.values(tmp_path / "copy") == roots.expected(36)


def bump(store: Store) -> None:
    """A step to another format, to be done again and again."""
    store.put("bumped.json", b"1")


VERBS: dict[str, Callable[[ObjectRoot, bool], object]] = {
    "repair": lambda root, dry_run: repair(root, dry_run=dry_run),
    "export": lambda root, dry_run: export_topic(root, TOPIC, dry_run=dry_run),
    "upgrade": lambda root, dry_run: upgrade(root, steps={FORMAT: bump}, wanted=FORMAT + 1, dry_run=dry_run),
}


@pytest.mark.parametrize("verb", VERBS)
def test_who_owned_a_bucket_that_a_verb_works_on_was_replaced_by_that(bucket: ObjectRoot, verb: str):
    """Nobody can be kept out of a bucket; so it is taken over as by a newcomer, and its owner acknowledges no more.

    This one does not look by itself whether somebody came: what it writes shows it.
    """
    before = content_of(bucket)
    VERBS[verb](bucket, True)
    assert content_of(bucket) == before
    owner = Log.open(bucket, settings=QUIET)
    assert owner.append(TOPIC, [roots.Record(b"%06d" % 32)]).offsets() == [32]
    VERBS[verb](bucket, False)
    with pytest.raises(NotOwner):
        owner.append(TOPIC, [roots.Record(b"late")])
    crash(owner)
    if verb == "upgrade":
        bucket.store.put(ROOT_FILE, before[ROOT_FILE])
    with Log.open(bucket, settings=QUIET) as log:
        if verb == "export":
            assert TOPIC not in log.topics()
        else:
            assert roots.read_values(log) == roots.expected(33)
            assert log.append(TOPIC, [roots.Record(b"new")]).offsets() == [33]


class Died(BaseException):
    pass


@pytest.mark.parametrize("dies_at", [None, "repair.owner_barred", "repair.entry_written"])
def test_who_had_a_bucket_does_not_append_behind_an_entry_of_his_that_was_emptied(
    s3_server: S3Server, dies_at: str | None
):
    """He knows the entry as it was: behind it his next commit would say that its records are there."""
    url = s3_server.root(uuid.uuid4().hex)
    owner = Log.open(ObjectRoot(NeverDeletes(url, s3_server.options), linger_ms=0), settings=QUIET)
    hold_tables(owner)
    owner.create_topic(TOPIC)
    for begin in (0, 8):
        roots.write(owner, range(begin, begin + 8))
        owner.flush()
    roots.write(owner, range(16, 24))
    bucket = ObjectRoot(ObjectStore(url, s3_server.options), linger_ms=0)
    entry = newest(bucket, f"topics/{TOPIC}/_delta_log", ".json")
    bucket.store.put(entry, bucket.store.read(entry)[:100])

    def die(step: str) -> None:
        if step == dies_at:
            raise Died

    with pytest.raises(Died) if dies_at else contextlib.nullcontext():
        repair(bucket, probe=die)
    with pytest.raises(NotOwner):
        owner.flush(TOPIC)
    crash(owner)
    report = repair(bucket)
    assert (report.left, report.exit_code) == ((), 0)
    assert check(bucket).sound
    assert roots.values(bucket) == roots.expected(24)  # type: ignore[arg-type]


def test_an_entry_that_its_owner_has_gone_on_from_is_not_emptied(bucket: ObjectRoot):
    """Neither is anything else behind it taken for what a repair wrote there."""
    log = f"topics/{TOPIC}/_delta_log"
    entry = newest(bucket, log, ".json", -2)
    bucket.store.put(entry, bucket.store.read(entry)[:100])
    report = repair(bucket)
    assert report.done == ()
    assert any("not the newest alone" in what for what in report.left)


def test_a_step_of_an_upgrade_begins_when_the_owner_of_a_bucket_acknowledges_nothing_more(bucket: ObjectRoot):
    owner = Log.open(bucket, settings=QUIET)

    def step(_store: Store) -> None:
        with pytest.raises(NotOwner):
            owner.append(TOPIC, [roots.Record(b"late")])

    upgrade(bucket, steps={FORMAT: step}, wanted=FORMAT + 1)
    crash(owner)


def test_a_start_that_upgrades_a_bucket_has_its_owner_out_before(bucket: ObjectRoot, monkeypatch: pytest.MonkeyPatch):
    owner = Log.open(bucket, settings=QUIET)
    info = open_root(bucket, create=False)
    bucket.store.put(ROOT_FILE, encode_info(RootInfo(info.cluster_id, FORMAT - 1)))
    late: list[str] = []

    def step(_store: Store) -> None:
        with pytest.raises(NotOwner) as refused:
            owner.append(TOPIC, [roots.Record(b"late")])
        late.append(str(refused.value))

    known = upgrading.upgrade_held.__kwdefaults__
    monkeypatch.setattr(upgrading.upgrade_held, "__kwdefaults__", known | {"steps": {FORMAT - 1: step}})
    with Log.open(bucket, settings=QUIET) as log:
        assert roots.read_values(log) == roots.expected()
    assert late
    crash(owner)


def test_a_bucket_whose_writers_are_older_than_its_tables_goes_on_behind_them(bucket: ObjectRoot):
    for name in ("0000000002.json", "0000000003.json"):
        Log.open(bucket, settings=QUIET).close()
        assert bucket.store.stat(f"writers/{name}") is not None
    with Log.open(bucket, settings=QUIET) as log:
        assert log.append(TOPIC, [roots.Record(b"%06d" % 32)]).offsets() == [32]
    for name in ("0000000002.json", "0000000003.json", "0000000004.json"):
        bucket.store.delete(f"writers/{name}")
    bucket.store.put("writers/0000000001.json", b'{"pid":0}')
    said: list[str] = []
    planned = repair(bucket, dry_run=True, say=said.append)
    done = repair(bucket)
    assert list(map(str, done.done)) == list(map(str, planned.done))
    assert (len(said), done.left, done.exit_code) == (1, (), 0)
    assert roots.values(bucket) == roots.expected(33)  # type: ignore[arg-type]
