"""`lakelog serve`: runs the server until it is told to stop.

It reads the settings, prints the server's address, and reports in one sentence why a start failed. It knows nothing of
HTTP. SIGTERM and Ctrl-C end it with 0 after a clean stop, with 1 if the time for that was too short; a second Ctrl-C
ends it at once, with 130. A program that starts a server for itself can bind its life to its own, however that ends:
the server watches its standard input, of which the program holds the other end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakelog import __version__
from lakelog.cli.kit.curl import curl_of
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, Failure
from lakelog.cli.kit.streams import standard_input

if TYPE_CHECKING:
    from ingest_api.config.settings import ServerSettings, Setting
    from ingest_api.config.sources import Chosen

_CURE: Final = "`lakelog serve --help` says what may be given"


def configure(parser: argparse.ArgumentParser) -> None:
    from ingest_api.config.settings import GROUPS, SETTINGS

    parser.usage = "lakelog serve [--data PLACE] [--host HOST] [--port PORT] [--config FILE] [--memory] [option ...]"
    parser.description = (
        "Run the server. Every setting is an option here, an environment variable (LAKELOG_ and its name in capitals), "
        "and a key of the file that --config names; the first of these that has it counts."
    )
    parser.allow_abbrev = False
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file of settings: see --print-config")
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument(
        "--check-config", action="store_true", help="print every setting in force and where it came from, and end"
    )
    printed.add_argument(
        "--print-config", action="store_true", help="print a file for --config with every setting as a comment, and end"
    )
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop as SIGTERM would have it when standard input ends, as it does with the program that is behind it",
    )
    for group in GROUPS:
        section = parser.add_argument_group(group)
        for setting in SETTINGS:
            if setting.group == group:
                _add_option(section, setting)


def run(args: argparse.Namespace) -> int:
    from ingest_api.config.settings import UnusableSetting

    if args.print_config:
        from ingest_api.config.settings_file import render_file

        print(render_file(), end="")
        return 0
    try:
        chosen = _choose(args)
    except UnusableSetting as error:
        raise Failure(str(error), _CURE, exit_code=CALLED_WRONGLY) from None
    if args.check_config:
        from ingest_api.config.sources import show

        print(show(chosen))
        return 0
    if args.stop_with_stdin:
        standard_input()
        threading.Thread(target=_stop_with_stdin, name="lakelog-stdin", daemon=True).start()
    return _serve(chosen.settings)


def _add_option(section: Any, setting: Setting) -> None:
    default = "" if setting.default == () else f" (default {str(setting.default).lower()})"
    if setting.metavar == "true|false":
        form: dict[str, Any] = {"nargs": "?", "const": True}
    elif setting.secret:
        form = {"action": "append"}
    else:
        form = {}
    text = f"{setting.doc}{default}".replace("%", "%%")
    section.add_argument(
        setting.option, dest=setting.name, default=argparse.SUPPRESS, metavar=setting.metavar, help=text, **form
    )


def _choose(args: argparse.Namespace) -> Chosen:
    from ingest_api.config.settings import SETTINGS, UnusableSetting
    from ingest_api.config.sources import choose_settings

    given = vars(args)
    options = {setting.name: given[setting.name] for setting in SETTINGS if setting.name in given}
    config: Path | None = args.config
    if config is None:
        return choose_settings(options, os.environ)
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UnusableSetting(f"file {config}: it cannot be read: {reason}") from None
    return choose_settings(options, os.environ, text, file_name=str(config))


def _stop_with_stdin() -> None:
    # Not sys.stdin: a blocked thread would hold its lock and keep the interpreter from ending.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _serve(settings: ServerSettings) -> int:
    from ingest_api.observe.log_writer import logging_to
    from ingest_api.server.app import create_app
    from ingest_api.server.listener import CannotListen
    from ingest_api.server.server import serve

    with logging_to(sys.stderr, log_format=settings.log_format, level=settings.log_level):
        try:
            return serve(settings, Banner(settings), create_app)
        except CannotListen as error:
            raise Failure(str(error)) from error  # its message has the cure, too


class Banner:
    """Messages for people at the start. They go to stdout; the log goes to stderr."""

    def __init__(self, settings: ServerSettings) -> None:
        place = settings.data if "://" in settings.data else str(Path(settings.data).absolute())
        self._data = "in memory, gone at the end" if settings.memory else place

    def listening(self, url: str) -> None:
        _say(f"lakelog {__version__} listens on {url}", f"  data: {self._data}")

    def ready(self, url: str) -> None:
        curl, url = curl_of(url)
        _say(
            "ready; try:",
            f"  {curl} -X PUT {url}/topics/first && \\",
            f"  {curl} {url}/topics/first -H 'Content-Type: application/x-ndjson' -d '{{\"hello\": \"world\"}}'",
            f"  {curl} '{url}/topics/first/partitions/0/records?offset=earliest'",
            "Ctrl-C stops it.",
        )


def _say(*lines: str) -> None:
    # The parent process may have closed stdout. One write, so that no log line comes between.
    with contextlib.suppress(OSError):
        sys.stdout.write("\n".join((*lines, "")))
        sys.stdout.flush()
