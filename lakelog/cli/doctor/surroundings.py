"""Checks of `lakelog doctor` beside the root: a server, the needs of jobs on Spark, and the installed packages."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Final

import httpx

from lakelog import __version__
from lakelog.cli.doctor.findings import Finding, decide_clock
from lakelog.transport.addresses import client_options

__all__ = [
    "decide_java",
    "decide_python",
    "decide_runtime",
    "examine_packages",
    "examine_server",
    "examine_spark",
    "pinned",
]

_ANSWER_S: Final = 10.0
#: Importing Spark takes seconds.
_IMPORT_S: Final = 60.0
_PACKAGES: Final = (
    "deltalake",
    "pyarrow",
    "obstore",
    "msgspec",
    "httpx",
    "fastapi",
    "uvicorn",
    "pyspark",
    "delta-spark",
)


def examine_server(url: str, cluster_id: str | None, now_ms: int) -> list[Finding]:
    """Check that the server is ready, its clock is right, and it serves the root that was examined, if any."""
    try:
        with httpx.Client(**client_options(url), timeout=_ANSWER_S) as client:
            ready, root = client.get("/readyz"), client.get("/").json()
            reasons: list[str] = ready.json()["reasons"]
            theirs, running = str(root["cluster_id"]), str(root["version"])
            date_ms = round(parsedate_to_datetime(ready.headers["date"]).timestamp() * 1000)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return [_unusable(url, f"it does not answer ({error})")]
    except (ValueError, LookupError, TypeError):
        return [_unusable(url, "what answers is no lakelog server")]
    findings = [_decide_ready(url, running, reasons), decide_clock("server's clock", "the server's", now_ms, date_ms)]
    if cluster_id is not None:
        findings.append(_decide_cluster(cluster_id, theirs))
    return findings


def _unusable(url: str, why: str) -> Finding:
    return Finding(
        "server", "failed", f"{url}: {why}", "start `lakelog serve`, or name its URL as it says it at its start"
    )


def _decide_ready(url: str, running: str, reasons: list[str]) -> Finding:
    if reasons:
        return Finding("server", "failed", f"{url} is not ready: {'; '.join(reasons)}", "see its log")
    if running != __version__:
        cure = "install the same version here and there"
        return Finding("server", "warning", f"{url} is ready, of version {running}; here is {__version__}", cure)
    return Finding("server", "ok", f"{url} is ready, of version {running}")


def _decide_cluster(ours: str, theirs: str) -> Finding:
    if ours == theirs:
        return Finding("cluster", "ok", f"server and root are both {ours}")
    cure = "name the root of that server, or the server of that root"
    return Finding("cluster", "failed", f"the root is {ours}, the server has {theirs}", cure)


def examine_spark(*, needed: bool) -> list[Finding]:
    """Check the needs of Spark. Missing parts are failures only if `needed`; `--engine local` needs none of them."""
    runtime = os.environ.get("DATABRICKS_RUNTIME_VERSION")
    if runtime:
        from jobs.spark.versions import find_spark

        return [decide_runtime(runtime, find_spark())]
    from jobs.spark.java import ask_java

    packages = _examine_pyspark(needed)
    there = [_examine_python(), _examine_jars()] if packages.state == "ok" else []
    return [decide_java(ask_java(), needed=needed), packages, *there]


def decide_runtime(runtime: str, spark: str | None) -> Finding:
    """Judge a Databricks runtime. `spark`: the version of the cluster's Spark; None if unknown."""
    from jobs.spark.versions import OLDEST, is_too_old

    said = f"the cluster brings it, with Databricks Runtime {runtime}{f': {spark}' if spark else ''}"
    if spark is None or not is_too_old(spark):
        return Finding("Spark", "ok", said)
    oldest = ".".join(map(str, OLDEST))
    cure = f"for consume, materialize and format('lakelog') take a runtime with Spark {oldest}; other jobs run"
    return Finding("Spark", "warning", said, cure)


def decide_java(said: str | None, *, needed: bool) -> Finding:
    """Judge Java. `said`: the output of `java -version`; None without Java."""
    from jobs.spark.java import CURE, java_version, trouble_of_java

    trouble = trouble_of_java(said, os.environ.get("JAVA_HOME"))
    if trouble is None:
        return Finding("Java", "ok", f"Java {java_version(said)}")
    return _missing("Java", trouble, CURE, needed=needed)


def _examine_pyspark(needed: bool) -> Finding:  # noqa: FBT001 - its only argument
    wanted = pinned(requires("lakelog") or [], "spark")
    found = {name: _version(name) for name in wanted}
    said = ", ".join(f"{name} {have or 'is not installed'}" for name, have in found.items())
    if found == wanted:
        return Finding("Spark", "ok", said)
    return _missing("Spark", said, "pip install 'lakelog[spark]'", needed=needed)


def _examine_python() -> Finding:
    """Check Spark's Python. Jobs choose their own; a session started by hand takes the environment's."""
    from jobs.spark.python_choice import asked_python

    asked = asked_python(os.environ)
    found = shutil.which(asked)
    return decide_python(asked, found, knows=found is not None and _knows_lakelog(found))


def _knows_lakelog(program: str) -> bool:
    if Path(program).absolute().parent == Path(sys.executable).absolute().parent:
        return True
    try:
        command = [program, "-c", "import pyspark_lakelog; print(*pyspark_lakelog.__all__)"]
        # Another cwd, as this folder, if it has the sources of lakelog, would be in the path.
        asked = subprocess.run(  # noqa: S603 - the program that Spark would start
            command, capture_output=True, text=True, check=False, timeout=_IMPORT_S, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0 and "DefaultSource" in asked.stdout.split()


def decide_python(asked: str, found: str | None, *, knows: bool) -> Finding:
    """Judge Spark's Python. `found`: the program that Spark will start for formats; None if there is none."""
    if knows:
        return Finding("Spark Python", "ok", f"{found} has lakelog")
    said = f"{asked} is {found}, which has no lakelog" if found else f"there is no {asked}"
    cure = (
        "jobs run; for sessions of your own activate the environment, or set PYSPARK_PYTHON to its python, or start "
        "them by pyspark_lakelog.session()"
    )
    return Finding("Spark Python", "warning", f"{said}: format('lakelog') will not be found", cure)


def _examine_jars() -> Finding:
    """Look for Delta's jars, under the names that Spark's resolver gives them after the download."""
    from jobs.spark.jars import absent_jars, cache_folder, jar_folder

    ivy = cache_folder() / "ivy"
    folder, absent = jar_folder(ivy), absent_jars(ivy)
    if not absent:
        return Finding("jars of Delta", "ok", f"in {folder}")
    cure = f"nothing, where packages may be fetched: Spark does at its first start; else copy {ivy} of another machine"
    return Finding("jars of Delta", "warning", f"not in {folder}: {', '.join(absent)}", cure)


def _missing(check: str, why: str, cure: str, *, needed: bool) -> Finding:
    if needed:
        return Finding(check, "failed", why, cure)
    return Finding(check, "warning", f"{why}; jobs with --engine local do without", cure)


def pinned(requirements: list[str], extra: str) -> dict[str, str]:
    """Pinned packages of an extra, with their versions."""
    found = (re.fullmatch(r"([\w.-]+)==([\w.]+) *; *extra == ['\"](\w+)['\"]", each) for each in requirements)
    return {each[1]: each[2] for each in found if each is not None and each[3] == extra}


def examine_packages() -> Finding:
    there: dict[str, Any] = {name: _version(name) for name in _PACKAGES}
    said = [f"lakelog {__version__}", f"Python {platform.python_version()}"]
    said += [f"{name} {have}" for name, have in there.items() if have]
    absent = [name for name, have in there.items() if not have]
    return Finding("packages", "ok", ", ".join(said) + (f"; without {', '.join(absent)}" if absent else ""))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
