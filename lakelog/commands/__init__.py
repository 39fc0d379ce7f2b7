"""The commands of the command line: one module each, imported only when its command is called.

A command's module has `configure(parser)`, which adds its arguments, and `run(args)`, which returns the exit
code. This table is what `lakelog --help` shows; it must import none of them, so that help stays quick.
"""

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

__all__ = ["COMMANDS", "Command", "CommandModule"]


class CommandModule(Protocol):
    """What a command's module must have."""

    def configure(self, parser: "ArgumentParser") -> None: ...
    def run(self, args: "Namespace") -> int: ...


class Command(NamedTuple):
    """Where a command lives, its line in the help, and the extra of the install that it needs."""

    module: str
    summary: str
    extra: str


COMMANDS: Final[dict[str, Command]] = {
    "serve": Command(
        module="lakelog.commands.serve",
        summary="run the server",
        extra="server",
    ),
    "sql": Command(
        module="lakelog.commands.sql",
        summary="query the tables of topics",
        extra="server",
    ),
    "selftest": Command(
        module="lakelog.commands.selftest",
        summary="check this install from record to SQL row in a temporary folder",
        extra="server",
    ),
}
