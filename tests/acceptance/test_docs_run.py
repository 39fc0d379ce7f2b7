"""What the pages under docs/ tell a reader to type works: each page in order, in an empty folder, leaving it empty."""

from pathlib import Path

import pytest

from tests.architecture.project_files import ROOT
from tests.support.marked_blocks import find_blocks, run_blocks

PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if find_blocks(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_marked_block_of_a_page_runs_and_they_clean_up(page: Path, tmp_path: Path):
    run_blocks(find_blocks(page.read_text(encoding="utf-8")), tmp_path, page.relative_to(ROOT).as_posix())
    assert list(tmp_path.iterdir()) == []


def test_the_tutorial_is_among_them():
    assert "first-log" in [page.stem for page in PAGES]
