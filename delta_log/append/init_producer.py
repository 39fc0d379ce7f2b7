"""Assigns producer ids, and bumps the epoch of transactional ids; the bump is durable before it is returned.

transactional id   the producer's id is that name; each call opens its next epoch and fences earlier holders
none               a random id, unique by its length; nothing is stored, as there is no holder to fence
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
    """Open the next epoch and journal it. After an unknown outcome, a retry opens a higher one still.

    `reserves`: for callers that open many epochs: most of them cost no sync, and a restart skips reserved ones.
    """
    bump = EpochBump(name, clock_ms(), floor, reserves)
    writer.append(None, bump)
    return ProducerIdentity(name, bump.opened)
