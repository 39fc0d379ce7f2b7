"""The clients as commands open them: with shorter timeouts than in programs, as a person waits."""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakelog.admin import Admin
    from lakelog.consumer import Consumer

__all__ = ["CLIENT_ID", "open_admin", "open_consumer", "reading_by_hand"]

CLIENT_ID: Final = "lakelog-cli"
#: Enough retries for a short wait while a server restarts.
_RETRIES: Final = 3
_PATIENCE_MS: Final = 15_000
#: Limit of the cleanup, whose result nothing needs.
_TIDYING_MS: Final = 1_000
_MOST_TIDIED: Final = 10
#: Names of the groups of `reading_by_hand`, and the state of a group without members.
_BY_HAND: Final = re.compile(rf"{CLIENT_ID}-[0-9a-f]{{32}}")
_EMPTY: Final = "Empty"
#: Settings of a consumer with short calls.
_READING: Final = {"client.id": CLIENT_ID, "max.poll.records": 10_000, "retries": 3, "default.api.timeout.ms": 10_000}


def open_admin(server: str, *, retries: int = _RETRIES, patience_ms: int = _PATIENCE_MS) -> Admin:
    from lakelog.admin import Admin

    # The clients' log lines would repeat their errors, which the command reports in one sentence.
    logging.getLogger("lakelog").addHandler(logging.NullHandler())
    settings = {
        "bootstrap.servers": server,
        "client.id": CLIENT_ID,
        "retries": retries,
        "default.api.timeout.ms": patience_ms,
    }
    return Admin(settings)


def open_consumer(server: str, settings: Mapping[str, object]) -> Consumer:
    from lakelog.consumer import Consumer

    return Consumer({"bootstrap.servers": server, **_READING, **settings})


@contextlib.contextmanager
def reading_by_hand(server: str, settings: Mapping[str, object]) -> Generator[Consumer]:
    """A consumer that commits nothing, in a group of its own, which is deleted at the end.

    Groups that killed commands left behind are deleted, too.
    """
    from lakelog.foundation.errors import LakelogError

    group = f"{CLIENT_ID}-{uuid.uuid4().hex}"
    try:
        with open_consumer(server, {"group.id": group, "enable.auto.commit": False, **settings}) as consumer:
            try:
                yield consumer
            except KeyboardInterrupt:
                consumer.close(_TIDYING_MS / 1000)
                raise
    finally:
        with contextlib.suppress(LakelogError), open_admin(server, retries=0, patience_ms=_TIDYING_MS) as admin:
            admin.delete_group(group)
            left = [
                each.group for each in admin.list_groups() if each.state == _EMPTY and _BY_HAND.fullmatch(each.group)
            ]
            for name in left[:_MOST_TIDIED]:
                admin.delete_group(name)
