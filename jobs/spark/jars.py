"""Jars that Delta needs beside Spark's own: their coordinates, and a lock for fetching them.

Spark fetches them at its start, by coordinates, through the machine's own resolver settings, into a folder that
programs share. Two that do so at once read partial files of each other: neither Spark nor its resolver prevents that.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["DELTA_JARS", "EXCLUDED_JARS", "absent_jars", "cache_folder", "fetched_by_one", "jar_folder"]

DELTA_JARS: Final = ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")

# The two jars above are all that Delta needs beside Spark's own; without these excludes the resolver brings
# 33, a second Hadoop and a second parquet among them.
EXCLUDED_JARS: Final = (
    "org.apache.*:*",
    "com.fasterxml.*:*",
    "com.github.*:*",
    "com.google.*:*",
    "commons-pool:*",
    "io.airlift:*",
    "io.unitycatalog:*",
    "io.delta:delta-kernel*",
    "javax.*:*",
    "org.locationtech.*:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.*:*",
    "org.antlr:*",
    "org.scala-lang:*",
    "org.codehaus.*:*",
)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in LAKELOG_CACHE, else lakelog's folder in the user's caches."""
    named = environment.get("LAKELOG_CACHE")
    if named:
        return Path(named).absolute()
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "lakelog"


def jar_folder(ivy: Path) -> Path:
    """Return the folder in which the resolver stores jars."""
    return ivy / "jars"


def absent_jars(ivy: Path, coordinates: Sequence[str] = DELTA_JARS) -> list[str]:
    """Return the missing jars; also those in a folder without access."""
    return [each for each in coordinates if not os.path.exists(jar_folder(ivy) / _file_name(each))]  # noqa: PTH110 - that of Path raises


@contextmanager
def fetched_by_one(ivy: Path, coordinates: Sequence[str]) -> Generator[None]:
    """Lock during Spark's start: exclusive if jars must be fetched, else shared, so that it waits for other fetches.

    If no lock can be taken, as in a read-only folder of an image, there is nothing to fetch.
    """
    lock: int | None = None
    with suppress(OSError):
        ivy.mkdir(parents=True, exist_ok=True)
        lock = os.open(ivy / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    if lock is None:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if absent_jars(ivy, coordinates) else fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def _file_name(coordinates: str) -> str:
    name, _, version = coordinates.rpartition(":")
    return f"{name.replace(':', '_')}-{version}.jar"
