# ruff: noqa: INP001 - a program to run, not a package
"""Write the tables of docs/reference/command-line.md: commands, exit codes, arguments; with --check only compare.

Rows say what the help of the commands says; `LINKS` leads from phrases of it to other pages. The sentences around the
tables are written by hand; what stands between two marks belongs to this program.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from marked_page import keep_current, put_between

from lakelog.cli.commands import COMMANDS, Command, Group
from lakelog.cli.jobs.command import EVERY, OUTPUT
from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.exit_codes import EXITS
from lakelog.cli.kit.parser import Commands, Parser, build_parser, commands_of
from lakelog.cli.kit.rooted import add_root

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "command-line.md"
#: Described on pages of their own.
ELSEWHERE = frozenset({"serve"})
#: Where a phrase of a meaning leads, the first time that it is there.
LINKS = {
    r"a setting(?=,)": "topic-config.md",
    r"as their keys say": "topic-config.md#partitions-and-keys",
    r"a member of it": "../explanation/consumer-groups.md",
    r"a whole record|an object a line(?=;)": "#a-record-as-json",
    r"record these offsets": "../how-to/recover.md#give-offsets-up",
    r"Python Producer": "python-client.md#producer",
    r"Python Consumer": "python-client.md#consumer",
}
#: What is to be typed, where the help does not quote it.
_CODE = re.compile(
    r"(`.*?`)|(?<![\w/])(--[a-z-]+|[a-z.]+=\w+|\\t|name:value,name:value|\./lakelog-data|http://[\d.:]+)(?![\w/])"
)
Options = dict[str, str]


def options_of(parser: argparse.ArgumentParser) -> Options:
    """What each argument is called and takes, and its help: what stands in its place first, then the options."""
    found: Options = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if not action.option_strings and action.metavar:
            name = str(action.metavar)
            found[{"+": f"{name} [{name} ...]", "?": f"[{name}]"}.get(str(action.nargs), name)] = action.help or ""
        if action.option_strings and not isinstance(action, argparse._HelpAction | argparse._VersionAction):  # noqa: SLF001
            takes = action.metavar or "|".join(action.choices or ()) or action.dest.upper()
            name = action.option_strings[-1] if action.nargs == 0 else f"{action.option_strings[-1]} {takes}"
            found[name] = (action.help or "") % {"default": action.default}
    return found


def shared_tables() -> Mapping[str, Options]:
    """What commands share that ask a server, and what those do that work on the files of a root."""
    asking, rooted = _empty(), _empty()
    add_server(asking, {})
    add_output(asking)
    add_root(rooted)
    whole, _ = build_parser({}, "", lambda _, __: None)
    debug = {name: text for name, text in options_of(whole).items() if name == "--debug"}
    return {"options that are shared": options_of(asking) | debug, "options of a root": options_of(rooted)}


def own_options(command: str, configure: Callable[[argparse.ArgumentParser], None]) -> Options:
    """Without those that stand in the shared tables already, as they are there."""
    if command == "jobs":
        return dict([EVERY, OUTPUT])
    parser = _empty()
    configure(parser)
    shared = [each for table in shared_tables().values() for each in table.items()]
    return {name: text for name, text in options_of(parser).items() if (name, text) not in shared}


def render_tables(commands: Commands = COMMANDS) -> Mapping[str, str]:
    """Each by the name of its marks."""
    found = {"commands": _commands_table(commands), "exit codes": _exits_table()}
    found |= {name: _options_table(options) for name, options in shared_tables().items()}
    found |= {f"commands of {name}": _below_table(name, each) for name, each in _groups(commands)}
    for path, command in commands_of(commands):
        name = " ".join(path)
        options = {} if name in ELSEWHERE else own_options(name, command.load().configure)
        if options:
            found[f"options of {name}"] = _options_table(options)
    return found


def put_tables(page: str, tables: Mapping[str, str]) -> str:
    """The page with what stands between the marks replaced. ValueError where there is a mark of no table."""
    for name, table in tables.items():
        page = put_between(page, table, f"<!-- {name}: begin (tools/docs_command_line.py) -->", f"<!-- {name}: end -->")
    marked = set(re.findall(r"^<!-- (.+): begin \(tools/docs_command_line\.py\) -->$", page, re.MULTILINE))
    if marked != tables.keys():
        raise ValueError(f"the page has marks of no table: {sorted(marked - tables.keys())}")
    return page


def _commands_table(commands: Commands) -> str:
    rows = ["| command | what it does | needs |", "|---|---|---|"]
    for name, each in commands.items():
        needs = f" `lakelog[{each.extra}]`" if isinstance(each, Command) and each.extra else ""
        rows.append(f"| [`lakelog {name}`]({_page_of(name)}) | {each.summary} |{needs} |")
    return "\n".join(rows)


def _page_of(name: str) -> str:
    return "server-settings.md" if name in ELSEWHERE else f"#lakelog-{name}"


def _below_table(name: str, group: Group) -> str:
    rows = ["| command | what it does |", "|---|---|"]
    for below, command in group.commands.items():
        needs = f"; needs `lakelog[{command.extra}]`" if command.extra else ""
        rows.append(f"| [`lakelog {name} {below}`](#lakelog-{name}-{below}) | {command.summary}{needs} |")
    return "\n".join(rows)


def _exits_table() -> str:
    return "\n".join(["| exit code | meaning |", "|---|---|", *(f"| {each.code} | {each.meaning} |" for each in EXITS)])


def _options_table(options: Options) -> str:
    rows = (f"| `{_cell(name)}` | {_meaning(text)} |" for name, text in options.items())
    return "\n".join(["| argument | meaning |", "|---|---|", *rows])


def _meaning(text: str) -> str:
    """With what is to be typed as code, and the links."""
    text = _CODE.sub(lambda found: found[1] or f"`{found[2]}`", _cell(text))
    for phrase, where in LINKS.items():
        text = re.sub(phrase, lambda found, where=where: f"[{found[0]}]({where})", text, count=1)
    return text


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _groups(commands: Commands) -> Iterator[tuple[str, Group]]:
    return ((name, each) for name, each in commands.items() if isinstance(each, Group))


def _empty() -> Parser:
    return Parser(add_help=False)


def main() -> int:
    return keep_current("docs_command_line.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"), render_tables())})


if __name__ == "__main__":
    sys.exit(main())
