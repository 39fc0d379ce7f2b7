"""The page about the Spark source says what the code does, and its program notices when it does not."""

from dataclasses import replace
from types import ModuleType

import pytest

from jobs.source.columns import spark_schema
from jobs.source.declared import OPTIONS, SINK_OPTIONS, Option
from tests.architecture.project_files import ROOT, load_tool

PAGE = (ROOT / "docs" / "reference" / "spark-source.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_spark_source")


def test_the_documented_tables_are_those_of_the_code(docs: ModuleType):
    assert docs.put_tables(PAGE) == PAGE, "run python tools/docs_spark_source.py"


@pytest.mark.parametrize("options", [OPTIONS, SINK_OPTIONS], ids=["reading", "writing"])
def test_every_option_has_a_row_with_its_sentence(options: tuple[Option, ...]):
    lines = PAGE.splitlines()
    for option in options:
        assert any(line.startswith(f"| `{option.name}` |") and line.endswith(f"| {option.doc} |") for line in lines)


def test_a_changed_option_changes_the_page(docs: ModuleType):
    changed = (replace(OPTIONS[0], doc="Other."), *OPTIONS[1:])
    assert docs.put_tables(PAGE, changed) != PAGE


def test_every_column_is_named():
    columns = PAGE.partition("## Columns")[2].partition("\n## ")[0]
    assert [name for name in spark_schema(headers=True).names if f"`{name}`" not in columns] == []
