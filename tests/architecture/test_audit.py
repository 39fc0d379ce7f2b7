"""What is known of the locked packages: a vulnerability with a fix is red, and what was not checked is not green."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.architecture.project_files import ROOT, load_tool

audit = load_tool("audit")
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
FIXED = {"id": "PYSEC-1", "aliases": ["CVE-1", "GHSA-1"], "fix_versions": ["2.1"]}
OPEN = {"id": "PYSEC-2", "aliases": [], "fix_versions": []}


def report(*vulnerabilities: dict[str, object]) -> dict[str, list[dict[str, object]]]:
    """As pip-audit writes it."""
    found = {"name": "bad", "version": "2.0", "vulns": list(vulnerabilities)}
    return {"dependencies": [found, {"name": "good", "version": "1.0", "vulns": []}], "fixes": []}


def decide(*vulnerabilities: dict[str, object], **exceptions: str) -> tuple[int, str]:
    lived_with = {name.replace("_", "-"): reason for name, reason in exceptions.items()}
    verdict = audit.decide(audit.read_answers(report(*vulnerabilities)), lived_with)
    return verdict.code, "\n".join(verdict.lines)


def test_a_vulnerability_with_a_fix_is_red():
    code, said = decide(FIXED)
    assert code == 1
    assert "bad 2.0: PYSEC-1, CVE-1, GHSA-1; mended in 2.1" in said
    assert "2 packages, 1 known vulnerabilities: RED" in said


def test_one_without_a_fix_is_named_alone():
    code, said = decide(OPEN)
    assert code == 0
    assert "bad 2.0: PYSEC-2; no version mends it yet" in said


@pytest.mark.parametrize("name", ["PYSEC_1", "CVE_1", "GHSA_1"])
def test_one_that_is_lived_with_is_named_with_the_reason(name: str):
    code, said = decide(FIXED, **{name: "never called"})
    assert code == 0
    assert "lived with: never called" in said
    assert decide(FIXED, FIXED | {"id": "PYSEC-9", "aliases": []}, **{name: "never called"})[0] == 1


def test_an_exception_that_no_package_needs_is_named():
    assert "CVE-7 is an exception that no package needs" in decide(OPEN, CVE_7="gone")[1]


def test_an_exception_needs_a_reason():
    assert audit.read_exceptions('[[exception]]\nid = "CVE-1"\nreason = "x"\n') == {"CVE-1": "x"}
    for bad in ('id = "CVE-1"', 'id = "CVE-1"\nreason = " "', 'id = "CVE-1"\nreason = "x"\nuntil = "y"'):
        with pytest.raises(SystemExit, match="an id and a reason"):
            audit.read_exceptions(f"[[exception]]\n{bad}\n")
    audit.read_exceptions(audit.EXCEPTIONS.read_text(encoding="utf-8"))


def test_where_the_index_says_nothing_that_is_not_taken_for_no_vulnerability():
    """pip-audit itself says "No known vulnerabilities found" there."""
    silent = {"dependencies": [{"name": "a", "skip_reason": "not found"}, {"name": "b", "skip_reason": "not found"}]}
    for answers in (None, audit.read_answers(silent)):
        verdict = audit.decide(answers, {})
        assert (verdict.code, len(verdict.lines)) == (0, 1)
        assert "NOT CHECKED" in verdict.lines[0]
    partly = audit.decide(
        audit.read_answers({"dependencies": [*silent["dependencies"], *report()["dependencies"]]}), {}
    )
    assert partly.lines == ("audit: 4 packages, 2 of them without an answer, no known vulnerabilities: green",)


def test_without_a_network_it_says_so_in_a_line_and_writes_the_sbom():
    nowhere = {f"{kind}_proxy": "http://127.0.0.1:1" for kind in ("http", "https", "all")}
    upper = {name.upper(): value for name, value in nowhere.items()}
    ended = subprocess.run(
        [sys.executable, "tools/audit.py"],
        cwd=ROOT,
        env=os.environ | nowhere | upper,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("\n") == 1
    assert "NOT CHECKED" in ended.stdout
    assert json.loads(audit.SBOM.read_text(encoding="utf-8"))["bomFormat"] == "CycloneDX"


def test_the_sbom_has_every_package_of_the_lock_with_its_hashes():
    components = json.loads(audit.write_sbom(LOCK))["components"]
    names = re.findall(r"^([\w.-]+)==", LOCK, re.MULTILINE)
    assert sorted(each["name"] for each in components) == sorted(names)
    assert sum(len(each["hashes"]) for each in components) == LOCK.count("--hash=")
    assert all(each["purl"].startswith("pkg:pypi/") for each in components)


def test_ci_asks():
    assert "\nmake audit\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
