"""`lakelog completion`: prints the script with which a shell completes the words of this program.

Names of topics and groups come from a server: the script asks for them by this command, too.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Final

from lakelog import __version__
from lakelog.cli.kit.arguments import add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.completion import SHELLS
from lakelog.cli.kit.completion_words import read_places
from lakelog.cli.kit.exit_codes import DONE, exit_code_of
from lakelog.cli.kit.parser import Commands, Parser, Path, build_parser, commands_of

_NAMES: Final = ("topics", "groups")
#: The longest that a completion waits for names.
_PATIENCE_MS: Final = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print what a shell has to be told so that it completes the words of this program."
    parser.add_argument(
        "what",
        choices=(*SHELLS, *_NAMES),
        metavar="|".join((*SHELLS, *_NAMES)),
        help="which shell; or the names to be offered, which a server is asked for",
    )
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.cli.commands import COMMANDS
    from lakelog.foundation.errors import LakelogError

    if args.what in SHELLS:
        sys.stdout.write(_script(args.what, COMMANDS))
        return DONE
    try:
        with open_admin(args.server, retries=0, patience_ms=_PATIENCE_MS) as admin:
            names = admin.list_topics() if args.what == "topics" else [each.group for each in admin.list_groups()]
    except LakelogError as error:
        return exit_code_of(error)  # a message would disturb the user's typing
    sys.stdout.writelines(f"{name}\n" for name in names)
    return DONE


def _script(shell: str, commands: Commands) -> str:
    found = dict(commands_of(commands))

    def configure_all(path: Path, parser: Parser) -> None:
        # If a command's extra is not installed, only its name can be completed.
        with contextlib.suppress(ModuleNotFoundError):
            found[path].load().configure(parser)

    whole, parts = build_parser(commands, __version__, configure_all)
    return SHELLS[shell](read_places(whole, parts))
