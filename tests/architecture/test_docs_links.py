"""No document points at nothing, and every page can be found from the index."""

import re
from pathlib import Path

import pytest

from tests.architecture.project_files import ROOT

DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), EXAMPLES / "README.md", ROOT / "conf" / "README.md"])
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TEST_PATH = re.compile(r"`(tests/[^`]+)`")


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Where a heading can be linked to: lower case, no punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path):
    broken: list[str] = []
    for link in LINK.findall(prose(page)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_index():
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(prose(DOCS / "README.md"))}
    pages = {page for page in DOCS.rglob("*.md") if page.parent.name != "adr"} - {DOCS / "README.md"}
    assert {page.relative_to(ROOT).as_posix() for page in pages - linked} == set()


def test_every_example_is_in_the_page_about_them():
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == set(LINK.findall(prose(EXAMPLES / "README.md"))) & programs
    assert len(programs) > 1


def test_every_test_that_a_guarantee_names_exists():
    named = set(TEST_PATH.findall((DOCS / "explanation" / "guarantees.md").read_text(encoding="utf-8")))
    assert named
    assert {path for path in named if not (ROOT / path).is_file()} == set()
