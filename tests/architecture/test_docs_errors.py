"""docs/reference/errors.md has every error of the tree, with what the code says of it."""

import inspect
from types import ModuleType

import pytest

from consumer_groups.model import errors as group_errors
from delta_log.model import errors
from delta_log.model.errors import LakelogError
from tests.architecture.project_files import ROOT, load_tool

PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
COLUMNS = 6


def documented_rows() -> dict[str, list[str]]:
    lines = (line for line in PAGE.splitlines() if line.startswith("| `"))
    rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    return {row[0].strip("` "): row for row in rows}


def tree() -> dict[str, type[LakelogError]]:
    found = [each for module in (errors, group_errors) for each in inspect.getmembers(module, inspect.isclass)]
    return {name: cls for name, cls in found if issubclass(cls, LakelogError)}


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_errors")


def test_the_documented_tables_are_those_of_the_code(docs: ModuleType):
    assert docs.put_tables(PAGE) == PAGE, "run python tools/docs_errors.py"


def test_a_changed_error_changes_the_page_and_keeps_its_sentences(docs: ModuleType):
    class NotOwner(LakelogError):
        code = "OTHER"

    page = docs.put_tables(PAGE, {"log": [NotOwner]})
    assert "| `NotOwner` | `OTHER` | no | `not_attempted` | a later process took the root | end this process |" in page


def test_an_error_that_is_new_has_a_row_without_sentences(docs: ModuleType):
    class Tired(LakelogError):
        code = "TIRED"

    assert "| `Tired` | `TIRED` | no | `not_attempted` |  |  |" in docs.put_tables(PAGE, {"log": [Tired]})


def test_every_error_has_a_row_and_every_row_an_error():
    assert sorted(documented_rows()) == sorted(tree())


def test_code_retriable_and_outcome_are_those_of_the_code():
    said = {name: row[1:4] for name, row in documented_rows().items()}
    true = {
        name: [f"`{cls.code}`", "yes" if cls.retriable else "no", f"`{cls.outcome}`"] for name, cls in tree().items()
    }
    assert said == true


def test_every_error_says_what_it_means_and_what_to_do():
    for name, row in documented_rows().items():
        assert len(row) == COLUMNS, name
        assert all(row), name


def test_the_drawing_in_the_code_has_every_error_too():
    drawing = f"{errors.__doc__}{group_errors.__doc__}"
    assert [name for name in tree() if name not in drawing] == []
