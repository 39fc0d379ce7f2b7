"""Handing out producer ids, and bumping the epoch of those that have a name, durably, before anybody is told.

transactional id   the producer's id is that name; each call opens its next epoch and shuts out the holders before
none               an id that nobody has, by its very size; nothing is stored, as nobody is to be shut out
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from delta_log.append.group_commit import Writer
from delta_log.model.names import check_id
from delta_log.model.types import ProducerIdentity
from delta_log.records.epoch_bump import EpochBump


def check_transactional_id(name: str) -> None:
    check_id("transactional id", name)


def fresh_identity() -> ProducerIdentity:
    return ProducerIdentity(uuid4().hex, 0)


def bump_epoch(
    writer: Writer, name: str, clock_ms: Callable[[], int], floor: int = 0, *, reserves: bool = False
) -> ProducerIdentity:
    """The next epoch, journaled. Where it is unknown whether it was, a repeat opens one that is higher still.

    Who `reserves` opens many: most of them cost no sync, and a restart skips what was reserved.
    """
    bump = EpochBump(name, clock_ms(), floor, reserves)
    writer.append(None, bump)
    return ProducerIdentity(name, bump.opened)
