"""Context of a job that changes a topic beside the owner: the newest state, and the checks before a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from delta_log.delta.snapshot import Snapshot
from delta_log.delta.table import Table
from delta_log.model.errors import PlanOutdated
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import DataFile
from delta_log.runtime.syscalls import Probe
from delta_log.topics.catalog import Catalog
from delta_log.topics.topic_state import TopicState

#: Deadline to commit a written file: well before files that no commit names are swept.
COMMIT_WITHIN_MS: Final = 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class TopicJobContext:
    """Context of a job on one topic, used by one thread. `clock_ms` is this host's clock."""

    location: str
    catalog: Catalog
    live: TopicState
    clock_ms: Callable[[], int]
    at: Probe

    @property
    def table(self) -> Table:
        return self.live.table

    @property
    def config(self) -> TopicConfig:
        return self.live.config

    def follow(self) -> Snapshot:
        """Returns the newest snapshot."""
        self.catalog.follow(self.live)
        return self.table.snapshot

    def check_young(self, files: Sequence[DataFile], begun_ms: int) -> None:
        """Raise PlanOutdated if written files are gone or too old to be committed."""
        store = self.table.store
        for file in files:
            entry = store.stat(self.table.path(file.path))
            if entry is None or entry.size != file.size:
                raise PlanOutdated(self.live.name, f"{file.path}, which was just written, is not there")
        if files and store.now_ms() - begun_ms > COMMIT_WITHIN_MS:
            raise PlanOutdated(self.live.name, f"{files[0].path} was written too long ago to be committed")

    def delete(self, files: Sequence[DataFile]) -> None:
        """Delete files that no commit names."""
        for file in files:
            self.table.store.delete(self.table.path(file.path))
