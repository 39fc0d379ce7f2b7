"""What every file of the project keeps to."""

import re

import yaml

from tests.architecture.project_files import ROOT, list_files

MOST_LINES = 500
MOST_LINES_OF_A_DECISION = 60
# Between the slashes stands a folder in which people keep their checkouts.
WORKPLACES = re.compile(r"(?<![\w.])/(?:work|farm|home|Users)/\w")
HOST = re.compile(r"https?:|\w\.(?:org|com|io|net)\b")


def test_no_file_names_a_folder_of_the_machine_it_was_written_on():
    offenders = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in list_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if WORKPLACES.search(line)
    ]
    assert offenders == []


def test_no_python_file_passes_500_lines():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in list_files(".py")}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_no_decision_passes_60_lines():
    decisions = list((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert decisions
    assert [path.name for path in decisions if len(path.read_text().splitlines()) > MOST_LINES_OF_A_DECISION] == []


def test_the_lock_names_no_host():
    assert HOST.search((ROOT / "requirements.lock").read_text()) is None


def test_documents_name_only_targets_that_the_makefile_has():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", "docs/adr"):
        for path in [ROOT / name] if name.endswith(".md") else (ROOT / name).glob("*.md"):
            named = set(re.findall(r"(?:^|`)make ([a-z]+)", path.read_text(), re.MULTILINE))
            assert named <= targets, path.name


def test_the_hooks_before_a_commit_are_those_targets_and_fetch_nothing():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    assert [(hook["entry"], hook["language"], hook["pass_filenames"]) for hook in repo["hooks"]] == [
        ("make lint", "system", False),
        ("make types", "system", False),
    ]
