"""Conflict rules: judges another writer's commit, or a table as loaded. Pure: actions in, a verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from delta_log.delta.actions import EXCLUSIVE_FEATURE, Action, CommitInfo, MetaData, Protocol, Txn
from delta_log.delta.snapshot import EPOCH_TXN, Snapshot
from delta_log.model.errors import NotOwner, TopicClosed

TOPIC_ID = "lakelog.topic.id"
_OUR_PROTOCOL: Final = Protocol()


class Kind(Enum):
    """Purpose of a commit; a commit has one purpose only."""

    APPEND = "append"
    REWRITE = "rewrite"
    REMOVAL = "removal"
    LOG_START = "log start"
    CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties of a table that another writer must never change."""

    protocol: Protocol | None
    metadata: MetaData | None
    epoch: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> Identity:
        return cls(snapshot.protocol, snapshot.metadata, snapshot.epoch)


def check_protocol(table: str, protocol: Protocol | None, *, owned: bool) -> None:
    """Refuse a table whose protocol needs features unknown to this version, or that has no protocol.

    An owner also needs the exclusive feature: without it, other engines may write over its commits.
    """
    if protocol is None:
        raise TopicClosed(table, "its log names no protocol", "see what `lakelog repair --dry-run` would do")
    unknown = {*(protocol.reader_features or ()), *protocol.writer_features} - set(_OUR_PROTOCOL.writer_features)
    if unknown or protocol.min_reader > _OUR_PROTOCOL.min_reader or protocol.min_writer > _OUR_PROTOCOL.min_writer:
        needs = ", ".join(sorted(unknown)) or f"reader {protocol.min_reader}, writer {protocol.min_writer}"
        raise TopicClosed(table, f"its protocol needs more than this version knows: {needs}", "check who wrote to it")
    if owned and EXCLUSIVE_FEATURE not in protocol.writer_features:
        raise TopicClosed(table, f"its protocol lacks {EXCLUSIVE_FEATURE}: others may write to it", "check who does")


def check_winner(table: str, kind: Kind, epoch: int | None, winner: Sequence[Action], before: Identity) -> None:
    """Raise if, after the commit `winner`, this writer's commit must not be retried.

    `epoch` is the owner's, None for a job beside it. Returning means: plan again from the new snapshot. The planner
    itself refuses plans that became impossible, as when a file that it wants to replace is gone.

    Until the table has this owner's epoch, the former owner may still append what it journaled before the takeover.
    """
    ours = epoch is not None and before.epoch >= epoch
    for action in winner:
        match action:
            case Txn() if epoch is not None and action.app_id == EPOCH_TXN and action.version > epoch:
                raise NotOwner(f"{table} was taken by epoch {action.version}, ours is {epoch}")
            case Txn() if ours and kind is Kind.APPEND and action.app_id.startswith("lakelog/end/"):
                raise NotOwner(f"somebody else appended to {table}")
            case Protocol() if action != before.protocol:
                raise TopicClosed(table, "its protocol was changed by another writer", "check who writes to it")
            case MetaData() if before.metadata is not None:
                _check_metadata(table, action, before.metadata)
            case _:
                pass


def _check_metadata(table: str, now: MetaData, before: MetaData) -> None:
    if (now.id, now.schema, now.partition_columns) != (before.id, before.schema, before.partition_columns):
        raise TopicClosed(table, "its schema or identity was changed by another writer", "check who writes to it")


def commit_info(actions: Sequence[Action]) -> CommitInfo | None:
    return next((action for action in actions if isinstance(action, CommitInfo)), None)


def is_ours(actions: Sequence[Action], commit_id: str) -> bool:
    info = commit_info(actions)
    return info is not None and info.commit_id == commit_id
