"""Deletes a topic: decided in the journal, carried out in the table, and retried until it succeeds."""

from __future__ import annotations

import logging

from delta_log.append.group_commit import Writer
from delta_log.delta.topic_commits import DELETED
from delta_log.model.errors import LakelogError, UnknownTopic
from delta_log.topics.catalog import Catalog
from delta_log.topics.partition_state import wake_all
from delta_log.topics.topic_state import TopicState

_log = logging.getLogger(__name__)


def decide_deletion(writer: Writer, live: TopicState, now_ms: int) -> None:
    """Journal the decision: once that is durable, the topic is gone, even after a crash."""

    def decide() -> None:
        writer.journal_decision(live, {"delete": True}, now_ms)
        live.deleted = True
        writer.producers.forget_topic(live.id)

    writer.alone(decide)


def carry_out_deletion(catalog: Catalog, writer: Writer, live: TopicState) -> None:
    """Empty the table and mark it. If the store refuses, the journal keeps the decision, and upkeep retries."""
    with live.committing:
        catalog.delete(live)
        writer.freed(live.untabled)
        drop_live(live)


def finish_deletion(catalog: Catalog, writer: Writer, name: str) -> None:
    """Carry out a deletion that is decided only, so that a request for the name need not wait for upkeep."""
    live = catalog.opened(name)
    if live is not None and live.deleted and DELETED not in live.table.snapshot.configuration:
        carry_out_deletion(catalog, writer, live)


def finish_deletions(catalog: Catalog, writer: Writer) -> bool:
    """Carry out all deletions; False if one, and the journal with its decision, must wait for the next start."""
    complete = True
    for live in catalog.lives():
        if live.deleted and live.decision.table_offset < live.decision.log_end_offset:
            try:
                carry_out_deletion(catalog, writer, live)
            except LakelogError as error:
                _log.error("topic %s cannot be deleted yet: %s", live.name, error)
                complete = False
    return complete


def drop_live(live: TopicState) -> None:
    """Release all of a deleted topic in the journal, and fail its waiters."""
    live.deleted = True
    live.drop_all_pending()
    live.decision.table_offset = live.decision.log_end_offset
    for tail in live.tails:
        tail.table_offset = tail.log_end_offset
        wake_all(tail.clear())
    live.fail_waiters(UnknownTopic(live.name))
