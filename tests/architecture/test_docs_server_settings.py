"""The page, the file and the help name every setting as the code has it."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from ingest_api.config.settings import SETTINGS, ServerSettings, Setting
from ingest_api.config.settings_file import render_file
from ingest_api.config.sources import NOT_OURS, choose_settings, toml_key
from lakelog.cli.serve import configure
from tests.architecture.project_files import list_files, load_tool

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"jobs", "consumer_groups", "tools"}
FILE = ROOT / "conf" / "server.toml"
ALL = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_server_settings")


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "reference" / "server-settings.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def shown_help() -> str:
    parser = argparse.ArgumentParser()
    configure(parser)
    return " ".join(parser.format_help().split())


def test_the_documented_tables_are_those_of_the_code(docs: ModuleType, page: str):
    assert docs.put_tables(page, docs.render_tables()) == page, "run python tools/docs_server_settings.py"


def test_the_file_is_the_one_of_the_code():
    assert render_file() == FILE.read_text(encoding="utf-8"), "run python tools/docs_server_settings.py"


@ALL
def test_every_setting_is_in_the_page_the_file_and_the_help(page: str, shown_help: str, setting: Setting):
    assert any(
        line.startswith(f"| `{setting.name}` |") and line.endswith(f"| {setting.doc} |") for line in page.splitlines()
    )
    file = FILE.read_text(encoding="utf-8")
    assert len(re.findall(rf"^#{re.escape(toml_key(setting))} = ", file, re.MULTILINE)) == 1
    # Lines of the help may be broken behind a hyphen.
    assert f"{setting.option} " in shown_help
    assert "".join(setting.doc.split()) in "".join(shown_help.split())


def test_the_file_changes_nothing_as_it_is_and_says_the_defaults():
    text = FILE.read_text(encoding="utf-8")
    assert choose_settings({}, {}, text).settings == ServerSettings()
    chosen = choose_settings({}, {}, re.sub(r'^#(?=[a-z"])', "", text, flags=re.MULTILINE))
    assert set(chosen.sources.values()) == {"file "}
    assert replace(chosen.settings, topic_defaults={}) == ServerSettings()
    assert all(chosen.values[setting.name] == setting.default for setting in SETTINGS)


def test_every_variable_of_our_prefix_that_others_read_is_known_not_to_be_a_setting():
    """Else whoever sets it could start no server."""
    programs = [ROOT / "Makefile", *(path for path in list_files() if path.parts[len(ROOT.parts)] in OTHERS)]
    named = {name for path in programs for name in re.findall(r"\bLAKELOG_[A-Z_]+", path.read_text(errors="replace"))}
    others = named - {setting.variable for setting in SETTINGS}
    assert others == NOT_OURS - {"LAKELOG_SERVER"}, "it is for clients"


@pytest.mark.parametrize("change", [{"default": 1}, {"doc": "Other."}, {"name": "other_ms"}])
def test_a_changed_setting_changes_both(docs: ModuleType, page: str, change: dict[str, object]):
    changed = (replace(SETTINGS[0], **change), *SETTINGS[1:])
    assert docs.put_tables(page, docs.render_tables(changed)) != page
    assert render_file(changed) != render_file()


@pytest.mark.parametrize("broken", ["", "no marks", "<!-- tables: end -->"])
def test_a_page_without_its_marks_is_refused(docs: ModuleType, broken: str):
    with pytest.raises(ValueError, match="lacks"):
        docs.put_tables(broken, "")
