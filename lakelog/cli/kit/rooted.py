"""Choice of the root that a command works on: the named one, or that of a server.

A server returns the location of its root, and never a bucket's credentials: those come from the command's environment
and `--store-option`. A path is of the server's host, so the root that is found there must have the server's cluster id.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakelog.cli.kit.arguments import DEFAULT_SERVER, SERVER_VARIABLE, add_server, server_of
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, NOT_NOW, WRONG_ROOT, Failure

if TYPE_CHECKING:
    from delta_log.model.store_location import Location

__all__ = ["DATA_VARIABLE", "DEFAULT_DATA", "add_root", "find_root"]

DATA_VARIABLE: Final = "LAKELOG_DATA"
DEFAULT_DATA: Final = "./lakelog-data"
_MARK: Final = "lakelog.json"
_ANSWER_S: Final = 10.0


class _Told(NamedTuple):
    """A server's cluster id and location; `data` is None if its log is in memory."""

    cluster_id: str
    data: str | None


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add `--data`, `--store-option` and `--server`."""
    from delta_log.stores.place_arguments import add_place

    otherwise = (
        f"the variable {DATA_VARIABLE}, else what the server of {SERVER_VARIABLE} says, else {DEFAULT_DATA} where that "
        f"is a root, else what a server at {DEFAULT_SERVER} says"
    )
    add_place(parser, os.environ, default=None, text=f"the root (default: {otherwise})")
    add_server(parser, text=f"ask a server where its root is (default: the variable {SERVER_VARIABLE})")
    parser.set_defaults(server=None)


def find_root(args: argparse.Namespace) -> Location:
    """Find the root: arguments precede the environment, and a place precedes a server."""
    from delta_log.model.store_location import Location

    if args.data is not None and args.server is not None:
        raise Failure("both --data and --server are given", "name one of them", exit_code=CALLED_WRONGLY)
    if args.data is not None:
        return args.data
    place = None if args.server else os.environ.get(DATA_VARIABLE)
    if place:
        return Location(place, args.store_option)
    server = args.server or server_of(os.environ)
    if server:
        return _root_of(server, args.store_option)
    if (Path(DEFAULT_DATA) / _MARK).exists():
        return Location(DEFAULT_DATA, args.store_option)
    try:
        return _root_of(DEFAULT_SERVER, args.store_option)
    except Failure as failure:
        if failure.exit_code != NOT_NOW:
            raise
        raise Failure(
            f"no root is named, {DEFAULT_DATA} is none, and no server answers at {DEFAULT_SERVER}",
            "name a root with --data ROOT, or a server with --server URL",
            exit_code=WRONG_ROOT,
        ) from None


def _root_of(server: str, options: dict[str, str]) -> Location:
    from delta_log.model.errors import NotARoot
    from delta_log.model.store_location import Location
    from delta_log.root.root import ROOT_FILE, as_root, open_root

    told = _ask(server)
    if told.data is None:
        raise Failure(
            f"the server {server} keeps its log in memory, where nobody else can read it",
            "ask it by `lakelog consume`, or start it with --data PLACE",
            exit_code=WRONG_ROOT,
        )
    place = Location(told.data, options)
    root = as_root(place)
    if root.store.stat(ROOT_FILE) is None:
        raise _elsewhere(server, told.data, f"it has no {ROOT_FILE}")
    try:
        found = open_root(root, create=False).cluster_id
    except NotARoot:
        return place  # damaged, or of a newer version: the command reports it
    if found != told.cluster_id:
        raise _elsewhere(server, told.data, f"what is there is cluster {found}, and not {told.cluster_id}")
    return place


def _elsewhere(server: str, data: str, why: str) -> Failure:
    cure = "run this on the server's host" if "://" not in data else "give --store-option what opens that store"
    return Failure(
        f"the server {server} has its root at {data}, which from here is another place: {why}",
        f"{cure}, or name the root with --data ROOT",
        exit_code=WRONG_ROOT,
    )


def _ask(server: str) -> _Told:
    import httpx

    from lakelog.transport.addresses import client_options

    try:
        with httpx.Client(**client_options(server), timeout=_ANSWER_S) as client:
            said: Any = client.get("/").json()
        return _Told(said["cluster_id"], said["data"])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Failure(
            f"the server {server} does not answer ({error})",
            "start one with `lakelog serve`, or name the root with --data ROOT",
            exit_code=NOT_NOW,
        ) from None
    except (ValueError, LookupError, TypeError):
        raise Failure(
            f"{server} does not say where its root is: it is no lakelog server, not ready, or an older one",
            "name the root with --data ROOT",
            exit_code=NOT_NOW,
        ) from None
