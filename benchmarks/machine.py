"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.rows import Param, Row
from benchmarks.wrk import PROGRAM

_LIBRARIES = (
    "lakelog",
    "pyarrow",
    "deltalake",
    "pyspark",
    "msgspec",
    "mmh3",
    "murmurhash2",
    "uvloop",
    "uvicorn",
    "httptools",
)


def describe_machine(place: Path) -> Row:
    facts: dict[str, Param] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": _cores(),
        "load": round(os.getloadavg()[0], 2),
        "kernel": f"{platform.system()} {platform.release()}",
        "filesystem": _filesystem(place),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    versions = {name: _version(name) for name in _LIBRARIES} | {"wrk": _wrk_version()}
    return Row(name="machine", params=facts | versions, value=_cores(), unit="cores")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _filesystem(place: Path) -> str:
    """The kind of the mount that holds `place`: on one that lives in memory a sync costs nothing."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    within = [(len(point), kind) for point, kind in mounts if place.resolve().is_relative_to(point)]
    return max(within, default=(0, "unknown"))[1]


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"


def _wrk_version() -> str:
    if PROGRAM is None:
        return "absent"
    said = subprocess.run([PROGRAM, "-v"], capture_output=True, text=True, check=False).stdout.split()
    return said[1] if len(said) > 1 else "unknown"
