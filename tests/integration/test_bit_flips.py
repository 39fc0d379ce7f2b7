"""Single bits that turned on the disk, at random places of everything that is stored: none goes unnoticed.

What a check names is looked at from the other side, too: whoever reads gets what was written, or an error that names
the damage, and the other topics go on.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from delta_log import Log, LogReader, Record
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.journal.segment_scan import scan_segment
from delta_log.model.errors import LakelogError
from delta_log.operations import check
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import QUIET, TOPIC
from tests.support.logs import crash, hold_tables

#: LAKELOG_BIT_FLIPS=20000 for a long run; LAKELOG_SEED for other places.
FLIPS = int(os.environ.get("LAKELOG_BIT_FLIPS", "500"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
OTHER = "clicks"
#: All of it, the last eight and four in the journal alone.
ACKNOWLEDGED = {TOPIC: roots.expected(24), OTHER: [b"other %d" % number for number in range(5)]}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with everything in it that a root can have, whose owner died."""
    root = tmp_path_factory.mktemp("sound") / "root"
    with Log.open(root, settings=QUIET) as log:
        log.create_topic(TOPIC)
        log.create_topic(OTHER)
        log.append(OTHER, [Record(ACKNOWLEDGED[OTHER][0])])
        roots.write(log, range(8))
        log.flush()
        write_checkpoint(log._running.catalog.live(TOPIC).table)
    log = Log.open(root, settings=QUIET)
    hold_tables(log)
    roots.write(log, range(8, 16))
    log.flush()
    roots.write(log, range(16, 20))
    for value in ACKNOWLEDGED[OTHER][1:]:
        log.append(OTHER, [Record(value)])
    roots.write(log, range(20, 24))
    crash(log)
    assert check(root).findings == ()
    return root


def written_part(root: Path, path: str) -> int:
    """How many bytes of a file mean something: behind a segment's groups there are zeros."""
    file = root / path
    if file.suffix != ".seg":
        return file.stat().st_size
    epoch, number, life = file.stem.split("-")
    return scan_segment(file.read_bytes(), life=int(life, 16), epoch=int(epoch), segment=int(number)).end


def kind_of(name: str) -> str:
    if name.startswith("journal/"):
        return "journal"
    if "/_delta_log/" not in name:
        return "data" if name.endswith(".parquet") else "root"
    return "entry" if name.endswith(".json") else "checkpoint"


def places(root: Path) -> list[tuple[str, int]]:
    """Of each kind as many, and of every file of a kind about as many: a large one must not hide the others."""
    chance = random.Random(SEED)
    files = {name: written_part(root, name) for name in roots.content_of(root) if "spare-" not in name}
    kinds: dict[str, list[str]] = {}
    for name in sorted(name for name, size in files.items() if size):
        kinds.setdefault(kind_of(name), []).append(name)
    assert sorted(kinds) == ["checkpoint", "data", "entry", "journal", "root"]
    turns = [list(kinds.values())[i % len(kinds)] for i in range(FLIPS)]
    names = [names[i // len(kinds) % len(names)] for i, names in enumerate(turns)]
    return [(name, chance.randrange(8 * files[name])) for name in names]


def read_if_sound(root: Path, topic: str) -> list[bytes | None] | None:
    """What a reader gets; None where he is told that something is damaged."""
    try:
        return roots.read_values(LogReader.open(root), topic)
    except LakelogError:
        return None


def is_part_of(found: list[bytes | None], whole: list[bytes | None]) -> bool:
    """In the same order, and none twice."""
    rest = iter(whole)
    return all(value in rest for value in found)


def named(name: str) -> str:
    """What a finding has to say of a file: where it is, or its name; of a segment, which it is."""
    path = Path(name)
    return path.stem.rsplit("-", 1)[0] if path.suffix == ".seg" else path.name


def start_on(root: Path, acknowledged: dict[str, list[bytes]]) -> str | None:
    """What is wrong with a start on a damaged journal: at most what one group held may be missing, and that is said."""
    with Log.open(root, settings=QUIET) as log:
        missing = 0
        for topic, values in acknowledged.items():
            found = roots.read_values(log, topic)
            if not is_part_of(found, list(values)):
                return f"{topic} holds {found}"
            missing += len(values) - len(found)
            given = log.append(topic, [Record(b"next")]).offsets()[0]
            if given != len(values) - (len(values) - len(found)) * ("torn end cut off" in log.recovery):
                return f"{topic} goes on at {given}: {log.recovery}"
        told = any(word in log.recovery for word in ("torn end cut off", "DAMAGE"))
        return None if missing == 0 or (missing == 1 and told) else f"{missing} are missing: {log.recovery}"


def test_no_bit_that_turned_is_overlooked_and_none_makes_up_a_record(sound: Path, tmp_path: Path):
    root, started = tmp_path / "root", tmp_path / "started"
    shutil.copytree(sound, root)
    whole = {topic: read_if_sound(sound, topic) or [] for topic in (TOPIC, OTHER)}
    wrong: list[str] = []
    for name, place in places(sound):
        file = root / name
        content = bytearray(file.read_bytes())
        content[place // 8] ^= 1 << place % 8
        file.write_bytes(content)
        findings = [str(finding) for finding in check(root).findings]
        where = f"{name}, bit {place} of {8 * len(content)}, seed {SEED}"
        if not any(named(name) in finding for finding in findings):
            wrong.append(f"{where}: it is not named by {findings}")
        for topic, values in whole.items():
            found = read_if_sound(root, topic)
            if found is not None and not is_part_of(found, values):
                wrong.append(f"{where}: {topic} holds {found}")
            if kind_of(name) != "root" and f"/{topic}/" not in name and found != values:
                wrong.append(f"{where}: {topic} suffers from it")
        if kind_of(name) == "journal":
            shutil.copytree(root, started)
            wrong += [f"{where}: {what}" for what in [start_on(started, ACKNOWLEDGED)] if what]
            shutil.rmtree(started)
        shutil.copyfile(sound / name, file)
    assert wrong == []
