"""The page about topic settings says what the code does, and its program notices when it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from delta_log.model.topic_settings import SETTINGS, Setting
from tests.architecture.project_files import load_tool

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_topic_config")


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "reference" / "topic-config.md").read_text(encoding="utf-8")


def test_the_documented_table_is_the_table_of_the_code(docs: ModuleType, page: str) -> None:
    assert docs.put_table(page, docs.render_table()) == page, "run python tools/docs_topic_config.py"


@pytest.mark.parametrize("setting", SETTINGS, ids=[setting.name for setting in SETTINGS])
def test_every_setting_is_documented_with_its_sentence(page: str, setting: Setting) -> None:
    assert any(
        line.startswith(f"| `{setting.name}` |") and line.endswith(f"| {setting.doc} |") for line in page.splitlines()
    )


@pytest.mark.parametrize("change", [{"default": 1}, {"doc": "Other."}, {"name": "other.ms"}])
def test_a_changed_setting_changes_the_page(docs: ModuleType, page: str, change: dict[str, object]) -> None:
    changed = (replace(SETTINGS[1], **change), *SETTINGS[2:])
    assert docs.put_table(page, docs.render_table((SETTINGS[0], *changed))) != page


@pytest.mark.parametrize("broken", ["", "no marks", "<!-- table: end -->"])
def test_a_page_without_its_marks_is_refused(docs: ModuleType, broken: str) -> None:
    with pytest.raises(ValueError, match="lacks"):
        docs.put_table(broken, "")
