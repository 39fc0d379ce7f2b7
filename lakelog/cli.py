"""The program `lakelog`: finds the command, runs it, and turns an error into one sentence.

Exit codes: 0 done, 1 failed, 2 called wrongly or installed without a part it needs, 130 interrupted.
It knows the table of commands and nothing of what they do.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, cast

from lakelog import __version__
from lakelog.commands import COMMANDS, Command, CommandModule

__all__ = ["main"]

# An absent module of these packages is a fault of ours; any other is a part that was not installed.
OUR_PACKAGES: Final = frozenset({"lakelog", "ingest_api", "delta_log", "consumer_groups", "jobs"})
DEBUG_HELP: Final = "show the stack trace of an error"


def main(argv: Sequence[str] | None = None, *, commands: Mapping[str, Command] = COMMANDS) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Global options take no value, so the first word that is not an option names the command.
    name = next((word for word in words if not word.startswith("-")), "")
    try:
        return _run(name, words, commands)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away; Python's own flush at exit must not complain about it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if "--debug" in words:
            raise
        if isinstance(error, ModuleNotFoundError) and _is_missing_part(error):
            extra = commands[name].extra
            print(f"lakelog {name} needs the {extra} parts: pip install 'lakelog[{extra}]'", file=sys.stderr)
            return 2
        print(f"lakelog {name}: {_one_sentence(error)}", file=sys.stderr)
        return 1


def _run(name: str, words: list[str], commands: Mapping[str, Command]) -> int:
    module = cast("CommandModule", import_module(commands[name].module)) if name in commands else None
    parser = argparse.ArgumentParser(prog="lakelog", description="A streaming log on the lakehouse.")
    parser.add_argument("--version", action="version", version=f"lakelog {__version__}")
    parser.add_argument("--debug", action="store_true", help=DEBUG_HELP)
    choices = parser.add_subparsers(title="commands", metavar="COMMAND")
    for each, command in commands.items():
        chosen = choices.add_parser(each, help=command.summary, description=f"{command.summary.capitalize()}.")
        if each == name and module is not None:
            chosen.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=DEBUG_HELP)
            module.configure(chosen)
    args = parser.parse_args(words)
    if module is None:
        parser.print_help()
        return 2
    return module.run(args)


def _is_missing_part(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] not in OUR_PACKAGES


def _one_sentence(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
