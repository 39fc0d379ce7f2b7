"""What programs may say, found in their source: calls of loggers at warning and above, and what goes to stderr.

`warnings` is what the deciding parts of a consumer hand to its logger.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

LEVELS: Final = {"warning": "warning", "error": "error", "exception": "error", "critical": "error"}
#: What differs from one time to the next.
VARYING: Final = "…"
_PLACEHOLDER: Final = re.compile(r"%(?:[.\d]*[sdrf])")


class Said(NamedTuple):
    """One line, with its level as people see it."""

    line: str
    level: str


def said_in(source: str, *, says: str | None = None) -> Iterator[Said]:
    """Of one module. A line that is not written where it is said raises ValueError: nobody could look it up.

    `says` is a function of the module by which it speaks on stderr.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, method = called.rpartition(".")
        of_a_logger = owner.rpartition(".")[2].strip("_").lower() in {"log", "logger"}
        if of_a_logger and method in LEVELS:
            yield Said(_text(node.args[0], called), LEVELS[method])
        elif of_a_logger and method == "log":
            raise ValueError(f"{ast.unparse(node)}: its level is not written there")
        elif method == "append" and owner.rpartition(".")[2] == "warnings":
            yield Said(_text(node.args[0], called), "warning")
        elif called in {"sys.stderr.write", says} or _prints_to_stderr(node, called):
            yield Said(_text(node.args[0], called).rstrip("\n"), "error")
        elif called == "write_if_room" and ast.unparse(node.args[0]) == "sys.stderr":
            yield Said(_text(node.args[1], called).rstrip("\n"), "error")


def said_by(folders: Iterator[Path] | list[Path]) -> dict[Said, str]:
    """Each line of all modules below these folders, with one place where it is said."""
    found: dict[Said, str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            found |= dict.fromkeys(said_in(path.read_text(encoding="utf-8")), str(path))
    return found


def _prints_to_stderr(node: ast.Call, called: str) -> bool:
    return called == "print" and any(
        each.arg == "file" and ast.unparse(each.value) == "sys.stderr" for each in node.keywords
    )


def _text(given: ast.expr, called: str) -> str:
    match given:
        case ast.Constant(value=str(text)):
            return _PLACEHOLDER.sub(VARYING, text)
        case ast.Call(func=ast.Name("str")):
            return VARYING
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, called) if isinstance(part, ast.Constant) else VARYING for part in parts)
        case _:
            raise ValueError(f"{called}({ast.unparse(given)}): the line is not written there")
