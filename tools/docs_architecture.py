# ruff: noqa: INP001 - a program to run, not a package
"""Write the rooms and their folders into ARCHITECTURE.md, as the import contracts have them; --check only compares.

The order of the folders and what a room may import are those of `tool.importlinter` in pyproject.toml; what is in a
folder is the first line of its docstring. All outside of the marks is written by hand.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marked_page import keep_current, put_between

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
#: A contract that forbids all of these is about what decides.
_DOING = frozenset({"socket", "threading", "time"})

Contract = Mapping[str, Any]


def load_contracts() -> tuple[list[str], list[Contract]]:
    """The root packages, and what is said of them."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    return linter["root_packages"], linter["contracts"]


def first_line(module: str) -> str:
    """Of the docstring of a package or a module."""
    path = ROOT / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def render_rooms(packages: Sequence[str], contracts: Sequence[Contract]) -> str:
    """What each package is for, what imports it, and which libraries it imports that no other does."""
    rows = ["| room | what is there | imported by | alone imports |", "|---|---|---|---|"]
    importers = {
        package: each["allowed_importers"]
        for each in contracts
        if each["type"] == "protected"
        for package in each["protected_modules"]
    }
    alone = {
        next(package for package in packages if package not in each["source_modules"]): each["forbidden_modules"]
        for each in contracts
        if each["type"] == "forbidden" and _is_about_a_library(each, packages)
    }
    for package in packages:
        by = _names(importers[package]) if package in importers else "programs of users"
        rows.append(f"| `{package}` | {first_line(package)} | {by} | {_names(alone.get(package, ()))} |")
    return "\n".join(rows)


def _is_about_a_library(contract: Contract, packages: Sequence[str]) -> bool:
    sources = contract["source_modules"]
    return set(sources) < set(packages) and len(sources) > 1 and set(contract["forbidden_modules"]).isdisjoint(packages)


def render_folders(package: str, contracts: Sequence[Contract]) -> str:
    """The folders of one package, the lowest first: each imports only those above it in the table."""
    (contract,) = (each for each in contracts if each.get("containers") == [package])
    pure = {
        module
        for each in contracts
        if each["type"] == "forbidden" and set(each["forbidden_modules"]) >= _DOING
        for module in each["source_modules"]
    }
    rows = ["| | what is there | pure |", "|---|---|---|"]
    for layer in reversed(contract["layers"]):
        for name in map(str.strip, layer.split("|")):
            module = f"{package}.{name}"
            shown = f"{package}/{name}" + ("/" if (ROOT / package / name).is_dir() else ".py")
            rows.append(f"| `{shown}` | {_cell(first_line(module))} | {'yes' if module in pure else ''} |")
    return "\n".join(rows)


def render_tables() -> Mapping[str, str]:
    """Each by the name of its marks: the rooms, and the folders of every room that has an order of them."""
    packages, contracts = load_contracts()
    ordered = [package for package in packages if [package] in [each.get("containers") for each in contracts]]
    found = {f"folders of {package}": render_folders(package, contracts) for package in ordered}
    return {"rooms": render_rooms(packages, contracts)} | found


def put_tables(page: str, tables: Mapping[str, str]) -> str:
    """The page with what stands between the marks replaced. ValueError where a table has no marks."""
    for name, table in tables.items():
        page = put_between(page, table, f"<!-- {name}: begin (tools/docs_architecture.py) -->", f"<!-- {name}: end -->")
    return page


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    """Without the word that has a column of its own."""
    return text.removesuffix(" Pure.").replace("|", "\\|")


def main() -> int:
    return keep_current("docs_architecture.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"), render_tables())})


if __name__ == "__main__":
    sys.exit(main())
