"""docs/how-to/recover.md explains every word that a start may say."""

import re

from delta_log.model.errors import LakelogError
from delta_log.startup.recovery import Report
from tests.architecture.project_files import ROOT

PAGE = (ROOT / "docs" / "how-to" / "recover.md").read_text(encoding="utf-8")
EVERYTHING = Report(
    dropped=1,
    aside=["a-0 0 to 1 (why)"],
    lost=["a-0 0 to 1"],
    torn=["a segment from byte 1"],
    damage=["a segment: bytes"],
    closed={"a": LakelogError()},
)


def test_every_part_of_the_line_has_a_row():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {word for row in rows for word in re.findall(r"`([^`]+)`", row)}
    said = str(EVERYTHING).split("; ")[2:]
    parts = {re.sub(r"^\d+ ", "", part.partition(":")[0]) for part in said}
    assert parts - named == set()


def test_its_example_is_a_line_that_a_start_says():
    example = Report(segments=1, size=139382, records=1010, topics={"orders"}, tabled=1)
    assert f"\n{example}\n" in PAGE
