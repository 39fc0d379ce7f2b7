"""ARCHITECTURE.md names what is there, and its tables are those of the code and of the import contracts."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType

import pytest

from tests.architecture.project_files import ROOT, list_files, load_tool

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
#: A path from the root, and behind a colon a name of its module.
NAMED = re.compile(r"`([\w.-]*/[\w./-]*?)(?::([A-Za-z_][\w.]*))?`")
STATIONS = 10
KINDS = ("record format", "store", "partitioner", "setting", "error", "route", "job", "command", "metric")


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_architecture")


def find_name(path: str, name: str) -> object:
    """The value of a name, also of a member of a class."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    found: object = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def test_the_tables_are_those_of_the_code(docs: ModuleType):
    assert docs.put_tables(PAGE, docs.render_tables()) == PAGE, "run python tools/docs_architecture.py"


def test_every_path_exists():
    named = {path for path, _ in NAMED.findall(PAGE)}
    assert len(named) > STATIONS
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize(("path", "name"), sorted({(path, name) for path, name in NAMED.findall(PAGE) if name}))
def test_every_name_exists(path: str, name: str):
    assert find_name(path, name) is not None


def test_every_station_of_a_record_names_the_code_that_does_it():
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, STATIONS + 1))
    assert [number for number, by in rows if not any(name for _, name in NAMED.findall(by))] == []


def test_it_says_where_to_add_each_kind_of_thing():
    said = re.findall(r"^\*\*An? (.+?)\.\*\*", PAGE, re.MULTILINE)
    assert [kind for kind in KINDS if kind not in said] == []


def test_every_room_with_an_order_of_folders_is_on_the_page(docs: ModuleType):
    packages, contracts = docs.load_contracts()
    ordered = [each["containers"][0] for each in contracts if each["type"] == "layers"]
    assert {f"folders of {package}" for package in ordered if package in packages} < docs.render_tables().keys()
    assert [package for package in packages if f"| `{package}` |" not in PAGE] == []


def test_every_folder_of_a_room_says_in_one_line_what_is_there(docs: ModuleType):
    packages, _ = docs.load_contracts()
    folders = {
        path.parent.relative_to(ROOT) for path in list_files(".py") if path.relative_to(ROOT).parts[0] in packages
    }
    lines = {str(folder): docs.first_line(".".join(folder.parts)) for folder in folders}
    assert len(lines) > len(packages)
    assert {folder: line for folder, line in lines.items() if not line.endswith(".")} == {}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/README.md"])
def test_it_is_found_from_the_first_pages(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.search(r"\]\((?:\.\./)?ARCHITECTURE\.md\)", text)


def test_another_order_or_another_docstring_changes_the_tables(docs: ModuleType, monkeypatch: pytest.MonkeyPatch):
    _, contracts = docs.load_contracts()
    (contract,) = (each for each in contracts if each.get("containers") == ["delta_log"])
    before = docs.render_folders("delta_log", contracts)
    turned = {**contract, "layers": contract["layers"][::-1]}
    others = [each for each in contracts if each is not contract]
    assert docs.render_folders("delta_log", [*others, turned]) != before
    assert docs.render_folders("delta_log", [contract]).count("| yes |") < before.count("| yes |")
    monkeypatch.setattr(docs, "first_line", lambda _: "Another line.")
    assert docs.render_folders("delta_log", contracts) != before


@pytest.mark.parametrize("broken", ["", "no marks", "<!-- rooms: end -->"])
def test_a_page_without_its_marks_is_refused(docs: ModuleType, broken: str):
    with pytest.raises(ValueError, match="lacks"):
        docs.put_tables(broken, {"rooms": ""})


def test_a_path_or_a_name_that_is_gone_is_noticed():
    assert NAMED.findall("`delta_log/gone.py:Name` `a/b/` `Log`") == [("delta_log/gone.py", "Name"), ("a/b/", "")]
    with pytest.raises(ModuleNotFoundError):
        find_name("delta_log/gone.py", "Name")
    with pytest.raises(AttributeError):
        find_name("delta_log/log.py", "Gone")


def test_the_page_is_short_enough_to_be_read():
    assert len(PAGE.splitlines()) <= 220
