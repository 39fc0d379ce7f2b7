"""Command-line options for a root's location and its store options."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from delta_log.model.store_location import Location, parse_options

__all__ = ["OPTIONS_VARIABLE", "add_place"]

OPTIONS_VARIABLE: Final = "LAKELOG_STORE_OPTION"
_HELP: Final = (
    "what the store of a bucket has to be told beyond its own environment variables; may be given many times "
    f"(default: the variable {OPTIONS_VARIABLE}, with commas between them)"
)


def add_place(
    parser: argparse.ArgumentParser, environment: Mapping[str, str], *, default: str | None, text: str
) -> None:
    """Add `--data` and `--store-option`; the resulting location includes the store options."""
    try:
        options = parse_options(environment.get(OPTIONS_VARIABLE, "").split(","))
    except ValueError as error:
        parser.error(f"{OPTIONS_VARIABLE}: {error}")
    place = None if default is None else Location(default, options)
    parser.add_argument("--data", action=_Place, metavar="ROOT", default=place, help=text)
    parser.add_argument("--store-option", action=_StoreOption, metavar="K=V", default=options, help=_HELP)


class _Place(argparse.Action):
    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, __: str | None = None) -> None:
        setattr(namespace, self.dest, Location(values, namespace.store_option))


class _StoreOption(argparse.Action):
    """Collects store options; the first one given replaces those of the environment."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, __: str | None = None) -> None:
        try:
            given = parse_options([values])
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        known: dict[str, str] = namespace.store_option
        options = given if known is self.default else known | given
        namespace.store_option = options
        if namespace.data is not None:
            namespace.data = Location(namespace.data, options)
