"""docs/reference/python-client.md names what the clients have: every method, parameter, setting and error."""

from __future__ import annotations

import ast
import inspect
import re
from types import ModuleType

import pytest

import lakelog
from lakelog.foundation import errors
from lakelog.foundation.errors import LakelogError
from tests.architecture.project_files import ROOT, load_tool

PAGE = (ROOT / "docs" / "reference" / "python-client.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0].strip("# "): part for part in re.split(r"^## (?=\S)", PAGE, flags=re.MULTILINE)}
CLASSES = [lakelog.Producer, lakelog.Transaction, lakelog.RecordFuture, lakelog.Consumer, lakelog.Admin]
COLUMNS = 5


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_python_client")


def written_methods(cls: type) -> dict[str, list[tuple[str, bool, object]]]:
    """Each method with its parameters: name, whether it must be named, default."""
    found: dict[str, list[tuple[str, bool, object]]] = {}
    for text in re.findall(r"^\| `(\w+\([^`]*\))` \|", SECTIONS[cls.__name__], re.MULTILINE):
        (function,) = ast.parse(f"def {text}: ...").body
        assert isinstance(function, ast.FunctionDef)
        given = function.args
        blanks = [...] * (len(given.args) - len(given.defaults))
        defaults = [*blanks, *(ast.literal_eval(default) for default in given.defaults)]
        positional = [(each.arg, False, default) for each, default in zip(given.args, defaults, strict=True)]
        named = [
            (each.arg, True, ... if default is None else ast.literal_eval(default))
            for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        ]
        found[function.name] = positional + named
    return found


def real_methods(cls: type) -> dict[str, list[tuple[str, bool, object]]]:
    return {
        name: [
            (each.name, each.kind is each.KEYWORD_ONLY, ... if each.default is each.empty else each.default)
            for each in list(inspect.signature(member).parameters.values())[1:]
        ]
        for name, member in vars(cls).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_section_has_every_method_as_it_is_called_and_no_other(cls: type):
    assert written_methods(cls) == real_methods(cls)


def test_every_exported_name_is_on_the_page():
    assert [name for name in lakelog.__all__ if not name.startswith("__") and name not in PAGE] == []


def test_the_tables_of_settings_are_those_of_the_code(docs: ModuleType):
    assert docs.put_tables(PAGE, docs.render_tables()) == PAGE, "run python tools/docs_python_client.py"


def test_every_error_has_a_row_with_what_the_code_says_of_it():
    tree = {
        name: [f"`{cls.code}`", "yes" if cls.retriable else "no", f"`{cls.outcome}`"]
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, LakelogError)
    }
    lines = [line for line in SECTIONS["Errors"].splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert {row[0].strip("` "): row[1:4] for row in rows} == tree
    assert all(len(row) == COLUMNS and row[-1] for row in rows)
