"""The program `lakelog`: finds the command, runs it, and turns an error into one sentence and an exit code.

It knows the table of commands and nothing of what they do.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

from lakelog import __version__
from lakelog.cli.commands import COMMANDS
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, INTERRUPTED, NOBODY_READS, Failure, exit_code_of, show_failure
from lakelog.cli.kit.parser import (
    Command,
    CommandModule,
    Commands,
    Parser,
    Path,
    build_parser,
    find_command,
    find_misplaced,
    settle,
    wants_json,
)
from lakelog.cli.kit.sigint import sigint_guard
from lakelog.cli.kit.streams import prepare_streams
from lakelog.cli.kit.word_order import Options, options_of
from lakelog.foundation.extras import OUR_PACKAGES

__all__ = ["main", "options_below", "read", "run_task"]


def main(argv: Sequence[str] | None = None, *, commands: Commands = COMMANDS) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        prepare_streams()
        with sigint_guard():
            words = settle(words, commands, lambda path: options_below(path, commands))
            code = _run(words, commands)
        # Flush here: a failure to write the buffer at exit could no longer be reported.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python's own flush at exit must not complain about it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except Exception as error:  # noqa: BLE001 - any failure ends the command, and is reported
        if "--debug" in words:
            import traceback

            traceback.print_exc()
        path, command = find_command(words, commands)
        if isinstance(error, ModuleNotFoundError) and command is not None and _is_missing_part(error):
            error = _missing_part(command)
        print(show_failure(" ".join(("lakelog", *path)), error, as_json=wants_json(words)), file=sys.stderr)
        return exit_code_of(error)
    return code


def run_task() -> None:
    """Run like `main`, but raise on failure: for callers that ignore exit codes, as wheel tasks of Databricks do."""
    code = main()
    if code:
        raise RuntimeError(f"lakelog {' '.join(sys.argv[1:3])} ended with exit code {code}")


def _run(words: list[str], commands: Commands) -> int:
    module, args = read(words, commands)
    return CALLED_WRONGLY if module is None else module.run(args)


def read(words: list[str], commands: Commands) -> tuple[CommandModule | None, Namespace]:
    """Parse the words; returns the command's module and its arguments. Without a command, show help."""
    wanted, command = find_command(words, commands)
    module = None if command is None else command.load()

    def configure(path: Path, parser: Parser) -> None:
        if path == wanted and module is not None:
            module.configure(parser)

    parser, parts = build_parser(commands, __version__, configure, as_json=wants_json(words))
    if (misplaced := find_misplaced(words, commands)) is not None:
        parser.error(f"{misplaced} stands before the command, and is no option of it, or lacks its value")
    args = parser.parse_args(words)
    if module is None:
        parts.get(wanted, parser).print_help()
    return module, args


def options_below(path: Path, commands: Commands) -> Options:
    """The options of a command; none if its extra is not installed."""
    _, command = find_command(path, commands)
    parser = Parser()
    try:
        module = None if command is None else command.load()
        if module is None:
            return {}
        module.configure(parser)
    except ModuleNotFoundError:
        return {}
    more: Callable[[], Options] = getattr(module, "options", dict)
    return {**options_of(parser), **more()}


def _is_missing_part(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] not in OUR_PACKAGES


def _missing_part(command: Command) -> Failure:
    what = f"lakelog[{command.extra}]" if command.extra else "lakelog"
    parts = f"the {command.extra} parts" if command.extra else "all of its parts"
    return Failure(f"it needs {parts}", f"pip install '{what}'", exit_code=CALLED_WRONGLY)
