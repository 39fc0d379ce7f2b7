"""The jars that Delta needs beside Spark's own: which they are, and that programs do not fetch them at the same time.

Spark fetches them as it starts, by coordinates, through the machine's own resolver settings, into a folder that
programs share. Two that do so at once get halves of files from each other: neither Spark nor its resolver sees to that.
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
    """What LAKELOG_CACHE names, else lakelog's folder among the user's caches."""
    named = environment.get("LAKELOG_CACHE")
    if named:
        return Path(named).absolute()
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "lakelog"


def jar_folder(ivy: Path) -> Path:
    """Where the resolver puts them."""
    return ivy / "jars"


def absent_jars(ivy: Path, coordinates: Sequence[str] = DELTA_JARS) -> list[str]:
    """Also those in a folder that may not be looked into."""
    return [each for each in coordinates if not os.path.exists(jar_folder(ivy) / _file_name(each))]  # noqa: PTH110 - that of Path raises


@contextmanager
def fetched_by_one(ivy: Path, coordinates: Sequence[str]) -> Generator[None]:
    """While Spark starts: alone where jars are to be fetched; else beside others, but behind one who fetches them.

    Where no lock can be had, as in a folder that came with an image, there is nothing to fetch.
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
