"""Handing out producer ids, and bumping the epoch of those that have a name, durably, before anybody is told.

transactional id   the producer's id is that name; each call opens its next epoch and shuts out the holders before
none               an id that nobody has, by its very size; nothing is stored, as nobody is to be shut out
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from delta_log.errors import LakelogError, OutcomeUnknown
from delta_log.names import check_id
from delta_log.sequencer import Group
from delta_log.types import ProducerIdentity
from delta_log.writer import Writer


def check_transactional_id(name: str) -> None:
    check_id("transactional id", name)


def fresh_identity() -> ProducerIdentity:
    return ProducerIdentity(uuid4().hex, 0)


def bump_epoch(writer: Writer, name: str, clock_ms: Callable[[], int]) -> ProducerIdentity:
    """The next epoch, journaled. Where it is unknown whether it was, a repeat opens one that is higher still."""
    opened: list[int] = []

    def bump() -> None:
        if writer.fatal is not None:
            raise writer.fatal
        group = Group([])
        try:
            opened.append(writer.sequencer.bump(group, name, clock_ms()))
            places = writer.write_journal(group.frames, group.payloads, 1)
        except LakelogError as error:
            writer.fail(group, error)
            raise
        except BaseException as error:
            writer.fail(group, error)
            if isinstance(error, Exception):
                raise OutcomeUnknown(f"the new epoch of {name!r}", repr(error)) from error
            raise
        writer.finish(group, places)
        if writer.fatal is not None:
            raise OutcomeUnknown(f"the new epoch of {name!r}", str(writer.fatal))

    writer.alone(bump)
    return ProducerIdentity(name, opened[0])
