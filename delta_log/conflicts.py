"""Another commit took the version that ours wanted: what that means for us. Pure: commits in, a verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from delta_log.actions import Action, CommitInfo, MetaData, Protocol, Txn
from delta_log.errors import NotOwner, TopicClosed
from delta_log.snapshot import EPOCH_TXN, Snapshot

TOPIC_ID = "lakelog.topic.id"


class Kind(Enum):
    """What a commit is for; each kind stands alone in its commit."""

    APPEND = "append"
    REWRITE = "rewrite"
    REMOVAL = "removal"
    LOG_START = "log start"
    CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Identity:
    """What another writer must never change under us."""

    protocol: Protocol | None
    metadata: MetaData | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> Identity:
        return cls(snapshot.protocol, snapshot.metadata)


def check_winner(table: str, kind: Kind, epoch: int | None, winner: Sequence[Action], before: Identity) -> None:
    """Raise when, after `winner`, our commit must not be tried again.

    `epoch` is the owner's, None for a job beside it. Returning means: plan again from the new snapshot. The planner
    itself refuses what can no longer be done, as when a file that it wants to replace is gone.
    """
    for action in winner:
        match action:
            case Txn() if epoch is not None and action.app_id == EPOCH_TXN and action.version > epoch:
                raise NotOwner(f"{table} was taken by epoch {action.version}, ours is {epoch}")
            case Txn() if epoch is not None and kind is Kind.APPEND and action.app_id.startswith("lakelog/end/"):
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
