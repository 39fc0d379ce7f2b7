"""Deleting a topic: decided in the journal, carried out in the table, however often that must be tried."""

from __future__ import annotations

from delta_log.catalog import Catalog
from delta_log.errors import UnknownTopic
from delta_log.live import Live
from delta_log.tail import wake_all
from delta_log.writer import Writer


def decide_deletion(writer: Writer, live: Live, now_ms: int) -> None:
    """From here on the topic is gone, whatever happens."""

    def decide() -> None:
        writer.journal_decision(live, {"delete": True}, now_ms)
        live.deleted = True
        writer.producers.forget_topic(live.id)

    writer.alone(decide)


def carry_out_deletion(catalog: Catalog, writer: Writer, live: Live) -> None:
    """Empty the table and mark it. Where the store refuses, the journal keeps the decision, and upkeep tries again."""
    with live.committing:
        catalog.delete(live)
        writer.freed(live.untabled)
        drop_live(live)


def drop_live(live: Live) -> None:
    """A deleted topic needs nothing from the journal any more, and nobody may wait for it."""
    live.deleted = True
    with live.lock:
        live.pending.clear()
        live.untabled = 0
        live.recovered_left = 0
    live.decision.tabled = live.decision.next
    for tail in live.tails:
        tail.tabled = tail.next
        wake_all(tail.clear())
    live.fail_waiters(UnknownTopic(live.name))
