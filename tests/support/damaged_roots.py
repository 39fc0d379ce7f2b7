"""Roots that have seen work and then died, and every way in which a part of one can be damaged."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from delta_log import Log, LogReader, ProducerStamp, Record, Settings
from delta_log.journal.segment_scan import FoundGroup, scan_segment
from tests.support.keyed_rows import READERS, reader
from tests.support.logs import crash, hold_tables

QUIET = Settings(upkeep=False, tail_bytes=0)
TOPIC = "orders"
RECORDS = 24


def write(log: Log, numbers: range, *, topic: str = TOPIC) -> None:
    """One record a request, by an idempotent producer, and a row of a ledger with each."""
    ledger = log.open_ledger([READERS])
    for number in numbers:
        record = Record(b"%06d" % number, key=b"k%d" % (number % 3), headers=(("h", b"1"), ("n", None)))
        log.append(topic, [record], producer=ProducerStamp("p", 0, number))
        ledger.append([reader(f"r{number % 4}", number)])


def make_dead_root(path: Path, *, journal: bool = True) -> Path:
    """Three commits of eight records, of which the journal has all, and of a fourth the journal alone has them.

    Without a `journal`, a clean stop has brought everything into the tables.
    """
    log = Log.open(path, settings=QUIET)
    hold_tables(log)
    log.create_topic(TOPIC)
    for begin in range(0, RECORDS, 8):
        write(log, range(begin, begin + 8))
        log.flush()
    write(log, range(RECORDS, RECORDS + 8))
    if journal:
        crash(log)
    else:
        log.close()
    return path


def expected(count: int = RECORDS + 8) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


def values(root: Path, topic: str = TOPIC) -> list[bytes | None]:
    with Log.open(root, settings=QUIET) as log:
        return read_values(log, topic)


def read_values(log: Log | LogReader, topic: str = TOPIC) -> list[bytes | None]:
    return [record.value for part in log.scan(topic, 0) for record in part.records()]


def readers_of(root: Path) -> list[tuple[object, ...]]:
    with Log.open(root, settings=QUIET) as log:
        return sorted(log.open_ledger([READERS]).load(READERS.name))


def content_of(root: Path) -> dict[str, str]:
    """Every file with what is in it; two roots that are equal in this are the same."""
    return {
        path.relative_to(root).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "staging" not in path.parts
    }


def entries(root: Path, table: str = TOPIC) -> list[Path]:
    return sorted((root / "topics" / table / "_delta_log").glob("*.json"))


def topic_files(root: Path) -> list[Path]:
    return sorted((root / "topics" / TOPIC / "partition=0").glob("*.parquet"))


def table_files(root: Path, table: str) -> list[Path]:
    return sorted((root / "topics" / table).glob("*.parquet"))


def segment_of(root: Path) -> Path:
    (segment,) = (root / "journal").glob("*.seg")
    return segment


def groups_of(segment: Path) -> list[FoundGroup]:
    epoch, number, life = segment.stem.split("-")
    return scan_segment(segment.read_bytes(), life=int(life, 16), epoch=int(epoch), segment=int(number)).groups


def flip(path: Path, at: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 0x55
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


KINDS: dict[str, Callable[[Path], None]] = {"flipped": flip, "cut": cut, "empty": empty, "missing": remove}
