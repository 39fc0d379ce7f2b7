"""The page on reliability names tests that are there."""

import ast
import re

from tests.architecture.project_files import ROOT

PAGE = ROOT / "docs/reliability.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def functions(node: ast.Module | ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_named_test_is_there():
    named = NAMED.findall(PAGE.read_text())
    assert named
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        there = functions(tree) | {
            f"{node.name}::{method}"
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            for method in functions(node)
        }
        assert name in there, f"{path} has no test {name}"


def test_every_promise_names_one():
    for line in PAGE.read_text().splitlines():
        if line.startswith("|") and not re.match(r"\| (fault|what) \||\|---", line):
            assert NAMED.search(line), line
