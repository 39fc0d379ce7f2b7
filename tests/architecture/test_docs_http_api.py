"""The page about the HTTP API has every route and every error code of the code, and no other."""

from __future__ import annotations

import re
from dataclasses import replace
from types import ModuleType

import pytest

from ingest_api.config.settings import SETTINGS, Setting
from ingest_api.server.app import EXPOSED
from ingest_api.web.errors import TABLE
from ingest_api.web.negotiation import Format
from ingest_api.web.openapi import ERRORS
from ingest_api.web.route_spec import Operation
from tests.architecture.project_files import ROOT, load_tool

#: Settings of connections that limit nothing.
NO_LIMITS = ("drain_timeout_ms", "cors_origins", "advertised_hosts", "trusted_proxies")


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_http_api")


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


def section(page: str, title: str) -> str:
    """What stands below a heading, to the next of its kind."""
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_error_code_says_what_it_means_and_what_to_do(page: str):
    rows = [line.strip("| ").split(" | ") for line in section(page, "Error codes").splitlines() if line[:3] == "| `"]
    assert len(rows) > len(TABLE)
    for row in rows:
        assert len(row) == 3, row
        assert all(len(cell) > 2 for cell in row), row


def test_every_error_of_the_table_has_a_row_that_names_its_facts(page: str):
    rows = {line.split("`")[1]: line for line in section(page, "Error codes").splitlines() if line.startswith("| `")}
    for kind, row in TABLE:
        for fact in row.facts:
            assert f"`{fact}`" in rows[str(row.code)], f"{kind.__name__}: {fact}"
        assert str(row.code) in rows, kind.__name__


def test_every_header_that_is_taken_or_given_has_a_row(page: str, operations: list[Operation]):
    taken = {each.name for route in operations for each in route.parameters if each.place == "header"}
    given = {name for route in operations for says in route.answers for name in says.headers}
    rows = re.findall(r"^\| `([A-Za-z0-9-]+)", section(page, "Headers"), re.MULTILINE)
    assert {*taken, *given, *EXPOSED} <= set(rows)
    assert len(set(rows)) == len(rows)


def shown(setting: Setting) -> str:
    if setting.name.endswith("_ms"):
        return f"{setting.default / 1000:g} s"
    if not setting.name.endswith("_bytes"):
        return f"{setting.default:,}"
    mib, kib = setting.default / 1024**2, setting.default / 1024
    return f"{mib:g} MiB" if mib >= 1 else f"{kib:g} KiB"


def test_every_setting_that_limits_a_request_or_a_connection_is_named_with_its_default(page: str):
    rows = {line.split(" | ")[2].strip("` |"): line for line in section(page, "Limits").splitlines() if " | " in line}
    for setting in SETTINGS:
        if setting.group in ("Limits", "Connections") and setting.name not in NO_LIMITS:
            assert f" | {shown(setting)} | " in rows[setting.name], setting.name


def test_every_format_has_a_row(page: str):
    formats = section(page, "Formats")
    for media in Format:
        assert f"| `{media}` |" in formats, media
    for word in ("auto", "json", "string", "base64"):
        assert f"`decode={word}`" in formats


@pytest.mark.parametrize("change", [{"summary": "Other."}, {"path": "/other"}, {"error_statuses": (418,)}])
def test_a_changed_route_changes_the_page(
    docs: ModuleType, page: str, operations: list[Operation], change: dict[str, object]
):
    changed = [replace(operations[0], **change), *operations[1:]]
    assert docs.put_tables(page, docs.render_tables(changed)) != page


@pytest.mark.parametrize("broken", ["", "no marks", "<!-- tables: end -->"])
def test_a_page_without_its_marks_is_refused(docs: ModuleType, broken: str):
    with pytest.raises(ValueError, match="lacks"):
        docs.put_tables(broken, "")
