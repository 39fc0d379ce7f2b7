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
from delta_log.errors import LakelogError
from delta_log.housekeeping import write_checkpoint
from delta_log.journal_scan import scan_segment
from delta_log.operators import check
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import QUIET, TOPIC
from tests.support.logs import crash, hold_tables

#: LAKELOG_BIT_FLIPS=20000 for a long run; LAKELOG_SEED for other places.
FLIPS = int(os.environ.get("LAKELOG_BIT_FLIPS", "500"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
OTHER = "clicks"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with everything in it that a root can have, whose owner died."""
    root = tmp_path_factory.mktemp("sound") / "root"
    with Log.open(root, settings=QUIET) as log:
        log.create_topic(TOPIC)
        log.create_topic(OTHER)
        log.append(OTHER, [Record(b"other")])
        roots.write(log, range(8))
        log.flush()
        write_checkpoint(log._running.catalog.live(TOPIC).table)
    log = Log.open(root, settings=QUIET)
    hold_tables(log)
    roots.write(log, range(8, 16))
    log.flush()
    roots.write(log, range(16, 24))
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


def places(root: Path) -> list[tuple[str, int]]:
    """Of every file about as many: a large one must not hide the others."""
    chance = random.Random(SEED)
    files = {name: written_part(root, name) for name in roots.content_of(root) if "spare-" not in name}
    names = sorted(name for name, size in files.items() if size)
    return [(name, chance.randrange(8 * files[name])) for name in (names[i % len(names)] for i in range(FLIPS))]


def read_if_sound(root: Path, topic: str) -> list[bytes | None] | None:
    """What a reader gets; None where he is told that something is damaged."""
    try:
        return roots.read_values(LogReader.open(root), topic)
    except LakelogError:
        return None


def test_no_bit_that_turned_is_overlooked_and_none_makes_up_a_record(sound: Path, tmp_path: Path):
    root = tmp_path / "root"
    shutil.copytree(sound, root)
    whole = {topic: read_if_sound(sound, topic) for topic in (TOPIC, OTHER)}
    silent: list[str] = []
    misled: list[str] = []
    for name, place in places(sound):
        file = root / name
        content = bytearray(file.read_bytes())
        content[place // 8] ^= 1 << place % 8
        file.write_bytes(content)
        report = check(root)
        where = f"{name}, bit {place} of {8 * len(content)}, seed {SEED}"
        if not report.findings:
            silent.append(where)
        for topic, values in whole.items() if name.startswith(("topics/", "journal/")) else ():
            found = read_if_sound(root, topic)
            if found is not None and not set(found) <= set(values or ()):
                misled.append(where)
            if name.startswith("topics/") and f"/{topic}/" not in name and found != values:
                misled.append(f"{where}: {topic} suffers from it")
        shutil.copyfile(sound / name, file)
    assert (silent, misled) == ([], [])
