"""docs/reference/command-line.md has every command with its options, every exit code, and every check of the doctor."""

from __future__ import annotations

import argparse
import re
from types import ModuleType

import pytest

from consumer_groups.model import errors as errors_of_groups
from delta_log.model import errors as errors_of_the_log
from lakelog.cli.commands import COMMANDS, Command
from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.exit_codes import FAILED, exit_code_of
from lakelog.cli.kit.parser import commands_of
from lakelog.foundation import errors as errors_of_clients
from tests.architecture.project_files import ROOT, load_tool

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
#: By their headings, of both levels.
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^###? ", PAGE, flags=re.MULTILINE)}
SHARED = "What commands share"
LEAVES = {" ".join(path): command for path, command in commands_of(COMMANDS)}
#: Described elsewhere, and compared there.
ELSEWHERE = {"serve"}


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_command_line")


def rows(section: str, of: str) -> dict[str, str]:
    """The rows of a table whose first column is called `of`."""
    _, _, table = section.partition(f"| {of} | ")
    return dict(re.findall(r"^\| (`.+?`) \| (.+) \|$", table.split("\n\n")[0], re.MULTILINE))


def test_the_documented_tables_are_those_of_the_code(docs: ModuleType):
    assert docs.put_tables(PAGE, docs.render_tables()) == PAGE, "run python tools/docs_command_line.py"


def test_every_command_has_a_section_and_every_section_a_command():
    named = {*COMMANDS, *LEAVES} - ELSEWHERE
    assert {f"lakelog {name}" for name in named} == {name for name in SECTIONS if name.startswith("lakelog ")}


def test_a_table_stands_in_the_section_of_its_command(docs: ModuleType):
    top = "# The command line"
    apart = {"commands": top, "exit codes": top, "options that are shared": SHARED, "options of a root": SHARED}
    for name in docs.render_tables():
        section = apart.get(name) or f"lakelog {name.partition(' of ')[2]}"
        assert f"<!-- {name}: begin" in SECTIONS[section], name


def test_a_command_without_a_table_of_options_says_so(docs: ModuleType):
    tables = docs.render_tables()
    for name in LEAVES.keys() - ELSEWHERE - {"completion"}:
        says_none = "no options of its own" in " ".join(SECTIONS[f"lakelog {name}"].split())
        assert says_none == (f"options of {name}" not in tables), name


def test_an_option_that_is_changed_or_new_changes_the_page(docs: ModuleType):
    command = Command("tests.architecture.test_docs_command_line", "greet", "server")
    tables = docs.render_tables({"greet": command})
    assert tables["commands"].endswith("| [`lakelog greet`](#lakelog-greet) | greet | `lakelog[server]` |")
    assert tables["options of greet"].splitlines()[2:] == [
        "| `--whom NAME` | say `a.b=1` to them; a\\|b |",
        "| `--how loud\\|low` | as in `--whom` |",
    ]
    page = "".join(f"<!-- {name}: begin (tools/docs_command_line.py) -->\n<!-- {name}: end -->\n" for name in tables)
    assert "`--whom NAME`" in docs.put_tables(page, tables)
    with pytest.raises(ValueError, match="options of greet"):
        docs.put_tables(PAGE, tables)
    with pytest.raises(ValueError, match="of no table"):
        docs.put_tables(page, {name: table for name, table in tables.items() if name != "options of greet"})


def configure(parser: argparse.ArgumentParser) -> None:
    """Of a command that is none."""
    parser.add_argument("--whom", metavar="NAME", help="say a.b=1 to them; a|b")
    parser.add_argument("--how", choices=("loud", "low"), help="as in --whom")
    add_output(parser)


@pytest.mark.parametrize(
    "module", [errors_of_clients, errors_of_the_log, errors_of_groups], ids=lambda each: each.__name__
)
def test_every_error_but_the_root_of_its_tree_has_an_exit_code_of_its_own(module: object):
    kinds = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Exception)]
    ends = {kind.code: exit_code_of(kind.__new__(kind)) for kind in kinds}
    assert ends.pop("LAKELOG_ERROR", FAILED) == FAILED
    assert [code for code, exit_code in ends.items() if exit_code == FAILED] == []


def test_every_check_of_the_doctor_has_a_row():
    written = "".join(path.read_text() for path in (ROOT / "lakelog" / "cli" / "doctor").glob("*.py"))
    named = re.findall(r'(?:Finding|decide_trials|decide_clock|_missing)\(\s*"([^"]+)"', written)
    described = re.findall(r"`([^`]+)`", " ".join(rows(SECTIONS["lakelog doctor"], "check")))
    assert set(described) == set(named)
