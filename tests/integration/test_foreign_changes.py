"""What somebody else did to a table, met by the background before anybody appends."""

import pytest

from delta_log import Log, Record, Settings
from delta_log.delta.actions import CommitInfo, Protocol, encode_commit
from delta_log.delta.table import entry_path
from delta_log.model.errors import TopicClosed
from delta_log.root.root import MemoryRoot


def test_a_protocol_that_another_writer_changed_closes_the_topic_and_no_other():
    root = MemoryRoot()
    with Log.open(root, settings=Settings(upkeep=False)) as log:
        for topic in ("theirs", "ours"):
            log.create_topic(topic)
            log.append(topic, [Record(b"before")])
        log.flush()
        live = log._running.catalog.live("theirs")
        foreign = [CommitInfo("theirs", 1, "UPGRADE"), Protocol(writer_features=("appendOnly", "rowTracking"))]
        version = live.table.snapshot.version + 1
        assert root.store.create(live.table.path(entry_path(version)), encode_commit(foreign))

        live.last_follow = float("-inf")
        log.run_upkeep()

        with pytest.raises(TopicClosed, match="protocol"):
            log.append("theirs", [Record(b"after")])
        assert log.offsets("theirs", 0).end_offset == 1
        assert log.append("ours", [Record(b"after")]).offsets() == [1]
