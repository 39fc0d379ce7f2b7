"""An operator's verbs where the root lies in a bucket, with its journal of numbered objects."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from delta_log import Log
from delta_log.errors import NotOwner
from delta_log.operators import backup, check, export_topic, repair
from delta_log.roots import ObjectRoot
from delta_log.stores.objects import ObjectStore
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import QUIET, TOPIC
from tests.support.logs import crash
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


def test_who_owned_a_bucket_that_is_repaired_or_exported_was_replaced_by_that(bucket: ObjectRoot):
    """Nobody can be kept out of a bucket; so an operator's verb takes it over as a newcomer does."""
    before = content_of(bucket)
    export_topic(bucket, TOPIC, dry_run=True)
    assert content_of(bucket) == before
    owner = Log.open(bucket, settings=QUIET)
    export_topic(bucket, TOPIC)
    with pytest.raises(NotOwner):
        owner.append(TOPIC, [roots.Record(b"late")])
    crash(owner)
    with Log.open(bucket, settings=QUIET) as log:
        assert TOPIC not in log.topics()
