"""The sources of settings: the command line overrides the environment, that the file, and that the default.

It decides the value in force and its source. Must not know how the values are used, nor read anything itself: options,
variables and the text of the file are arguments.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, cast

import msgspec

from delta_log.model.errors import InvalidConfig
from delta_log.model.topic_config import TopicConfig
from ingest_api.config.settings import SETTINGS, TOPIC, ServerSettings, Setting, UnusableSetting

PREFIX: Final = "LAKELOG_"
#: Variables of that prefix that belong to other programs: the Makefile, clients, the Spark jobs.
NOT_OURS: Final = frozenset({"LAKELOG_VENV", "LAKELOG_SERVER", "LAKELOG_CACHE"})
DEFAULT: Final = "default"

_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
_BY_VARIABLE: Final = {setting.variable: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The settings in force, and the source of each value."""

    settings: ServerSettings
    values: Mapping[str, Any]
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Given:
    value: object
    source: str


def choose_settings(
    options: Mapping[str, object], environment: Mapping[str, str], file: str | None = None, *, file_name: str = ""
) -> Chosen:
    """Choose the settings in force. `options` have the names of settings, `file` is the text of a TOML file."""
    given: dict[str, _Given] = {}
    if file is not None:
        given |= _from_file(file, file_name)
    given |= _from_environment(environment)
    given |= {name: _Given(value, f"option {_BY_NAME[name].option}") for name, value in options.items()}
    values = {name: _BY_NAME[name].parse(each.value, each.source) for name, each in given.items()}
    topic_defaults = {name.removeprefix(TOPIC): value for name, value in values.items() if name.startswith(TOPIC)}
    settings = ServerSettings(
        **{_BY_NAME[name].field: value for name, value in values.items() if not name.startswith(TOPIC)},
        topic_defaults=topic_defaults,
    )
    _check_together(settings)
    in_force = {setting.name: values.get(setting.name, setting.default) for setting in SETTINGS}
    sources = {name: given[name].source if name in given else DEFAULT for name in in_force}
    return Chosen(settings, in_force, sources)


def show(chosen: Chosen) -> str:
    """Show all settings as a file that would set them, each with its source."""
    lines = [
        f"{toml_key(setting)} = {_shown(setting, chosen.values[setting.name])}  # {chosen.sources[setting.name]}"
        for setting in SETTINGS
    ]
    return "\n".join(lines)


def toml_value(value: object) -> str:
    """Write a value of a setting as TOML."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        pairs: tuple[tuple[str, str], ...] = value  # pyright: ignore[reportUnknownVariableType]
        return "{ " + ", ".join(f"{toml_value(key)} = {toml_value(each)}" for key, each in pairs) + " }"
    # All other values are written alike in JSON and TOML.
    return msgspec.json.encode(value).decode()


def toml_key(setting: Setting) -> str:
    """Return its name in a file; quoted if it has dots, which would mean nested tables."""
    return f'"{setting.name}"' if "." in setting.name else setting.name


def _shown(setting: Setting, value: Any) -> str:
    if setting.secret:
        return toml_value(tuple((key, "***") for key, _ in value))
    return toml_value(value)


def _from_file(text: str, name: str) -> dict[str, _Given]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnusableSetting(f"file {name}: it is not TOML: {error}") from None
    given: dict[str, _Given] = {}
    for key, value in _flatten(content):
        if key not in _BY_NAME:
            raise UnusableSetting(f"file {name}: there is no setting {key}{_nearest(key, _BY_NAME)}")
        given[key] = _Given(value, f"file {name}")
    return given


def _flatten(content: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Undo nesting: TOML reads the dots in `topic.retention.ms` as nested tables."""
    found: list[tuple[str, Any]] = []
    for key, value in content.items():
        name = before + key
        if isinstance(value, dict) and name not in _BY_NAME:
            found += _flatten(cast("dict[str, Any]", value), name + ".")
        else:
            found.append((name, cast("object", value)))
    return found


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or variable in NOT_OURS:
            continue
        setting = _BY_VARIABLE.get(variable)
        if setting is None:
            raise UnusableSetting(f"environment: there is no setting for {variable}{_nearest(variable, _BY_VARIABLE)}")
        given[setting.name] = _Given(value, f"environment {variable}")
    return given


def _nearest(name: str, names: Mapping[str, Setting]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"; the nearest is {near[0]}" if near else ""


def _check_together(settings: ServerSettings) -> None:
    """Check rules between several settings."""
    if settings.max_bodies_bytes < settings.max_body_bytes:
        raise UnusableSetting(
            f"max_bodies_bytes={settings.max_bodies_bytes} cannot be below max_body_bytes={settings.max_body_bytes}"
        )
    most = min(settings.max_partitions_per_topic, settings.max_partitions)
    if settings.default_partitions > most:
        raise UnusableSetting(
            f"default_partitions={settings.default_partitions} cannot be above max_partitions_per_topic or"
            f" max_partitions, {most}"
        )
    try:
        TopicConfig.of({}, server_defaults=settings.topic_defaults)
    except InvalidConfig as error:
        raise UnusableSetting(f"{TOPIC}{error}") from None
