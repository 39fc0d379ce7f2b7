"""The file of all settings, each as a comment with its default, to be edited and given to `--config`. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from ingest_api.config.settings import GROUPS, SETTINGS, Setting
from ingest_api.config.sources import toml_key, toml_value

_HEAD: Final = """\
# The settings of a server, each with its default: `lakelog serve --config FILE` reads them, and
# `lakelog serve --print-config` writes this file. An option of the command line goes before an environment variable,
# and that before the file: port is --port and LAKELOG_PORT. docs/reference/server-settings.md says the same as a table.
"""
_WIDTH: Final = 118


def render_file(settings: Sequence[Setting] = SETTINGS) -> str:
    """Render a configuration file with every setting as a comment."""
    parts = [_HEAD]
    for group in GROUPS:
        parts += ["", f"# --- {group} ---"]
        for setting in settings:
            if setting.group == group:
                says = textwrap.wrap(f"{setting.doc} Allowed: {setting.check}.", _WIDTH)
                parts += ["", *(f"# {line}" for line in says), f"#{toml_key(setting)} = {_default(setting)}"]
    return "\n".join(parts).replace("\n\n\n", "\n\n") + "\n"


def _default(setting: Setting) -> str:
    if setting.default == ():
        return "{}" if setting.secret else "[]"
    return toml_value(setting.default)
