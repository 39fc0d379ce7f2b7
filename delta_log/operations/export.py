"""`export_topic`: hands a topic's table over to other writers, in place. It is then no topic any more.

    flush to the table  →  one commit: no writer feature, and a mark that the table was exported

This empties the journal, so nothing is done if the journal is damaged, or if damage could only be repaired from it.
To keep the topic, export from a copy: a backup has the same table.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delta_log.delta.actions import Action, CommitInfo, MetaData, Protocol
from delta_log.delta.conflicts import Kind
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.topic_commits import EXPORTED
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.topic_deletion import drop_live
from delta_log.model.errors import Corruption, InvalidName, PlanOutdated, TopicClosed, UnknownTopic
from delta_log.model.names import is_internal
from delta_log.operations.check.check import Progress, check_topic, say_nothing
from delta_log.operations.check.read_journal import load_journal
from delta_log.operations.check.read_table import TableLook, list_tables, look_at_table
from delta_log.root.root import Root, as_root, open_root, read_topic_defaults
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.startup.open import Running, Settings, start, stop, take_ownership

#: A table without features, to which every engine can write.
_OPEN_TO_ALL = Protocol(min_reader=1, min_writer=2, writer_features=())


_CURE: Final = "see what `lakelog repair --dry-run` would do"


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export; `str` is the text to print."""

    location: str
    topic: str
    version: int
    already: bool
    dry_run: bool

    @property
    def exit_code(self) -> int:
        return 0

    def __str__(self) -> str:
        if self.already:
            return f"{self.location}: it was exported before; nothing to do"
        if self.dry_run:
            return f"{self.location}: would be exported, and {self.topic} be no topic any more"
        return f"{self.location}: exported as version {self.version}; {self.topic} is no topic any more"


def export_topic(
    root: str | Path | Root,
    topic: str,
    *,
    dry_run: bool = False,
    say: Progress = say_nothing,
    probe: Probe = no_probe,
) -> ExportReport:
    """Open a topic's table to all writers. RootInUse while the root has an owner.

    UnknownTopic if there is no such topic; TopicClosed if its log is damaged; Corruption if its files, the journal, or
    files that the journal can still restore are damaged: then nothing is changed.
    """
    place = as_root(root, probe=probe)
    open_root(place, create=False)
    look = _look(place, topic)
    location = f"{place.store.location}/{look.directory}"
    version = look.verdict.snapshot.version
    if look.exported:
        return ExportReport(location, topic, version, already=True, dry_run=dry_run)
    if look.live is None:
        raise TopicClosed(topic, look.why or "its log is damaged", _CURE)
    damaged = check_topic(place.store, topic)
    if damaged:
        raise Corruption(damaged[0].place, f"{damaged[0].what}; {_CURE}")
    waiting = [each.frame for each in load_journal(place.store).of(topic, look.live.id)]
    journaled = sum(f.count for f in waiting if f.next_offset > look.verdict.snapshot.end(max(f.partition, 0)))
    say(f"bring {journaled} records from the journal into {location}")
    say(f"drop lakelog.exclusive from {location}: everybody may write to it, and {topic} is no topic any more")
    if dry_run:
        return ExportReport(location, topic, version, already=False, dry_run=True)
    running = start(place, Settings(topic_defaults=read_topic_defaults(place.store), upkeep=False), probe=probe)
    try:
        version = _export(running, topic, probe)
    finally:
        stop(running)
    return ExportReport(location, topic, version, already=False, dry_run=False)


def plan_export(snapshot: Snapshot, topic: str, now_ms: int) -> list[Action]:
    """Plan the commit; PlanOutdated if the topic was deleted meanwhile. Pure except for the id."""
    metadata = snapshot.metadata
    if metadata is None:
        raise PlanOutdated(topic, "it is gone")
    marked = MetaData(
        metadata.id,
        metadata.schema,
        metadata.partition_columns,
        {**metadata.configuration, EXPORTED: str(now_ms)},
        metadata.created_ms,
    )
    info = CommitInfo(f"export-{uuid.uuid4().hex}", now_ms, "EXPORT", read_version=snapshot.version)
    return [info, _OPEN_TO_ALL, marked]


def _look(place: Root, topic: str) -> TableLook:
    if is_internal(topic):
        raise InvalidName(topic, "it is a table of the server's own")
    if topic not in list_tables(place.store):
        raise UnknownTopic(topic)
    look = look_at_table(place.store, topic)
    if look.verdict.newest < 0 or look.deleted:
        raise UnknownTopic(topic)
    return look


def _export(running: Running, topic: str, at: Probe) -> int:
    """Export with all records in the table, so that the journal has none of them left to replay."""
    live = running.catalog.live(topic)
    running.tabler.bring_up(live)
    take_ownership(running, live)
    at("export.brought_up")
    now_ms = live.table.store.now_ms()
    version = live.table.commit(Kind.CONFIG, lambda snapshot: plan_export(snapshot, topic, now_ms))
    at("export.committed")
    write_checkpoint(live.table)
    drop_live(live)
    return version
