# ruff: noqa: INP001, S603, T201 - a program to run, which asks another one of this environment
"""Asks which packages of requirements.lock have known vulnerabilities, and writes what the lock holds as an SBOM.

    make audit

The SBOM, in CycloneDX, lists the lock itself, and needs no network. Vulnerabilities are known by the package index,
which pip-audit asks. One that has a fix ends the program with 1, unless `audit_exceptions.toml` beside this file says
why it is lived with; one without a fix is named. Where the index does not answer, nothing was checked, which is said,
and is no failure: a change is not wrong because a network is missing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
EXCEPTIONS = Path(__file__).with_name("audit_exceptions.toml")
SBOM = ROOT / ".cache" / "audit" / "lakelog.cdx.json"
#: For all questions together; the index answers them in seconds, or not at all.
PATIENCE_S = 300
PIN = re.compile(r"^([\w.-]+)==(\S+)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Finding(NamedTuple):
    """A vulnerability of a package of the lock. `fixes` are versions that do not have it."""

    package: str
    version: str
    names: tuple[str, ...]
    fixes: tuple[str, ...]

    def __str__(self) -> str:
        cure = f"mended in {', '.join(self.fixes)}" if self.fixes else "no version mends it yet"
        return f"{self.package} {self.version}: {', '.join(self.names)}; {cure}"


class Answers(NamedTuple):
    """What the index said. `silent` are packages that it said nothing of."""

    asked: int
    silent: int
    findings: tuple[Finding, ...]


class Verdict(NamedTuple):
    code: int
    lines: tuple[str, ...]


class Pin(NamedTuple):
    """A package may have several, for Pythons of their own. The hashes are those of all files of the release."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_pins(lock: str) -> list[Pin]:
    return [Pin(name, version, tuple(HASH.findall(rest))) for name, version, rest in PIN.findall(lock)]


def write_sbom(lock: str) -> str:
    bom = Bom()
    for name, version, hashes in read_pins(lock):
        purl = PackageURL("pypi", name=name, version=version)
        component = Component(type=ComponentType.LIBRARY, name=name, version=version, purl=purl, bom_ref=str(purl))
        component.hashes = [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in hashes]
        bom.components.add(component)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)


def read_answers(report: Mapping[str, Any]) -> Answers:
    """What pip-audit writes with `--format json`."""
    told: Sequence[Mapping[str, Any]] = report["dependencies"]
    findings = [
        Finding(each["name"], each["version"], (found["id"], *found.get("aliases", ())), tuple(found["fix_versions"]))
        for each in told
        for found in each.get("vulns", ())
    ]
    return Answers(len(told), sum("vulns" not in each for each in told), tuple(findings))


def read_exceptions(text: str) -> dict[str, str]:
    """Why a vulnerability is lived with, by its name."""
    found: dict[str, str] = {}
    for each in tomllib.loads(text).get("exception", ()):
        if set(each) != {"id", "reason"} or not each["reason"].strip():
            raise SystemExit(f"{EXCEPTIONS.name}: an exception has an id and a reason, and nothing else: {each}")
        found[each["id"]] = each["reason"]
    return found


def decide(answers: Answers | None, exceptions: Mapping[str, str]) -> Verdict:
    if answers is None or answers.silent == answers.asked:
        return Verdict(0, ("audit: NOT CHECKED, as the index of packages says nothing of vulnerabilities from here",))
    lines: list[str] = []
    code = 0
    for finding in answers.findings:
        reason = next((exceptions[name] for name in finding.names if name in exceptions), None)
        if reason is None and finding.fixes:
            code = 1
        lines.append(f"audit: {finding}" + (f"; lived with: {reason}" if reason is not None else ""))
    known = {name for finding in answers.findings for name in finding.names}
    lines += [f"audit: {name} is an exception that no package needs" for name in exceptions if name not in known]
    silent = f", {answers.silent} of them without an answer" if answers.silent else ""
    count = len(answers.findings) or "no"
    lines.append(
        f"audit: {answers.asked} packages{silent}, {count} known vulnerabilities: {'RED' if code else 'green'}"
    )
    return Verdict(code, tuple(lines))


def ask() -> Answers | None:
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        return read_answers(json.loads(ended.stdout))
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None


def main() -> int:
    exceptions = read_exceptions(EXCEPTIONS.read_text(encoding="utf-8"))
    SBOM.parent.mkdir(parents=True, exist_ok=True)
    SBOM.write_text(write_sbom(LOCK.read_text(encoding="utf-8")), encoding="utf-8")
    verdict = decide(ask(), exceptions)
    print(*verdict.lines[:-1], f"{verdict.lines[-1]}; SBOM in {SBOM.relative_to(ROOT)}", sep="\n", flush=True)
    return verdict.code


if __name__ == "__main__":
    sys.exit(main())
