"""Reads a table without trusting it: the files of its log, and the table that they make."""

from __future__ import annotations

from dataclasses import dataclass

from delta_log.delta.actions import EXCLUSIVE_FEATURE
from delta_log.delta.checkpoint import log_versions
from delta_log.delta.conflicts import TOPIC_ID
from delta_log.delta.topic_commits import DELETED, EXPORTED, PARTITIONS
from delta_log.model.errors import LakelogError, StorageRefused
from delta_log.model.lost_ranges import LostRange, read_lost
from delta_log.model.names import is_internal
from delta_log.model.types import DataFile
from delta_log.operations.check.judge_log import HINT, LogFiles, LogVerdict, judge_log
from delta_log.operations.check.read_journal import read_if_there
from delta_log.root.root import read_topic_defaults
from delta_log.runtime.clock import wall_clock_ms
from delta_log.stores import Store
from delta_log.topics.catalog import TOPICS, Catalog
from delta_log.topics.topic_state import TopicState


@dataclass(slots=True)
class TableLook:
    """A table under inspection. `live`: its state as in a server; None if it cannot be opened, for the reason `why`."""

    name: str
    directory: str
    verdict: LogVerdict
    live: TopicState | None
    why: str

    @property
    def exported(self) -> bool:
        return EXPORTED in self.verdict.snapshot.configuration

    @property
    def exclusive(self) -> bool:
        protocol = self.verdict.snapshot.protocol
        return protocol is None or EXCLUSIVE_FEATURE in protocol.writer_features

    @property
    def deleted(self) -> bool:
        return DELETED in self.verdict.snapshot.configuration

    @property
    def internal(self) -> bool:
        return is_internal(self.name)

    @property
    def ours(self) -> bool:
        return {TOPIC_ID, PARTITIONS} <= set(self.verdict.snapshot.configuration)

    @property
    def lost(self) -> list[LostRange]:
        return read_lost(self.verdict.snapshot.configuration)

    def files(self, live: TopicState) -> list[DataFile]:
        """The live files, in order."""
        return sorted(live.table.snapshot.all_files(), key=lambda file: (file.partition, file.base_offset))


def list_tables(store: Store) -> list[str]:
    return [entry.name for entry in store.list(TOPICS) if entry.is_directory]


def look_at_table(store: Store, name: str) -> TableLook:
    directory = f"{TOPICS}/{name}"
    verdict = judge_log(load_log_files(store, directory), directory)
    look = TableLook(name, directory, verdict, None, "")
    if verdict.readable and look.ours and look.exclusive:
        try:
            look.live = open_live(store, name)
        except LakelogError as error:
            look.why = str(error)
    return look


def open_live(store: Store, name: str) -> TopicState | None:
    """Open a table like a server, without an epoch, like jobs do."""
    return open_catalog(store).find(name)


def open_catalog(store: Store) -> Catalog:
    try:
        defaults = read_topic_defaults(store)
    except StorageRefused:
        defaults = {}
    return Catalog(store, epoch=None, server_defaults=defaults, clock_ms=wall_clock_ms)


def load_log_files(store: Store, directory: str) -> LogFiles:
    """Read a table's log. The hint is read before the listing, because a new checkpoint may come meanwhile."""
    hint = read_if_there(store, f"{directory}/{HINT}")
    names = [entry.name for entry in store.list(f"{directory}/_delta_log")]
    entries = {
        version: read_if_there(store, f"{directory}/_delta_log/{version:020d}.json")
        for version in log_versions(names, ".json")
    }
    checkpoints = {
        version: read_if_there(store, f"{directory}/_delta_log/{version:020d}.checkpoint.parquet")
        for version in log_versions(names, ".checkpoint.parquet")
    }
    return LogFiles(
        {version: data for version, data in entries.items() if data is not None},
        {version: data for version, data in checkpoints.items() if data is not None},
        hint,
    )
