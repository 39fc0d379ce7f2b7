"""The page about the HTTP API has every route and every error code of the code, and no other."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from types import ModuleType

import pytest

from ingest_api.openapi import ERRORS
from ingest_api.operations import Operation
from tests.architecture.project_files import ROOT


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_http_api", ROOT / "tools" / "docs_http_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def operations(docs: ModuleType) -> list[Operation]:
    return docs.declared_operations()


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")


def test_the_documented_tables_are_those_of_the_code(docs: ModuleType, page: str, operations: list[Operation]):
    assert docs.put_tables(page, docs.render_tables(operations)) == page, "run python tools/docs_http_api.py"


def test_every_route_has_one_row(page: str, operations: list[Operation]):
    rows = re.findall(r"^\| `([A-Z]+ /\S*)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(f"{operation.method} {operation.path}" for operation in operations)


def test_every_error_code_of_the_code_has_a_row_and_every_row_a_code(page: str):
    statuses = "|".join(map(str, ERRORS))
    files = sorted((ROOT / "ingest_api").rglob("*.py"))
    codes = {
        code for file in files for code in re.findall(rf"\b(?:{statuses})\d\d\b", file.read_text(encoding="utf-8"))
    }
    rows = re.findall(r"^\| `(\d{5})` \| \S", page, re.MULTILINE)
    assert rows == sorted(rows)
    assert set(rows) == codes


@pytest.mark.parametrize("change", [{"summary": "Other."}, {"path": "/other"}, {"refuses": (418,)}])
def test_a_changed_route_changes_the_page(
    docs: ModuleType, page: str, operations: list[Operation], change: dict[str, object]
):
    changed = [replace(operations[0], **change), *operations[1:]]
    assert docs.put_tables(page, docs.render_tables(changed)) != page


@pytest.mark.parametrize("broken", ["", "no marks", "<!-- tables: end -->"])
def test_a_page_without_its_marks_is_refused(docs: ModuleType, broken: str):
    with pytest.raises(ValueError, match="lacks"):
        docs.put_tables(broken, "")
