"""The laws of key compaction, over any keys, arrivals and clocks."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from delta_log.maintenance.compaction.by_key import (
    KeyCompactionLimits,
    TombstoneMark,
    plan_key_compaction,
)
from delta_log.model.types import DataFile
from tests.support.data_files import merged
from tests.support.key_entries import surviving_offsets

KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"c"])
ROWS = st.lists(st.tuples(KEYS, st.none() | st.sampled_from([b"", b"x"])), max_size=30)


@given(ROWS, st.integers(0, 30), st.integers(0, 30))
def test_survivors_are_those_of_a_plain_dict(rows, dirty_from, tombstones_below):
    numbered = dict(enumerate(rows))
    newest = {key: offset for offset, (key, _) in numbered.items() if offset >= dirty_from}
    expected = [
        offset
        for offset, (key, value) in numbered.items()
        if key is None or (offset >= newest.get(key, 0) and (value is not None or offset >= tombstones_below))
    ]
    rows = [(offset, *row) for offset, row in numbered.items()]
    assert surviving_offsets(rows, dirty_from=dirty_from, tombstones_below=tombstones_below) == expected


def values(rows: dict[int, tuple[bytes | None, bytes | None]]) -> dict[bytes, bytes]:
    """What a reader of the whole log ends up with."""
    state: dict[bytes, bytes | None] = {key: value for key, value in rows.values() if key is not None}
    return {key: value for key, value in state.items() if value is not None}


@given(
    st.lists(st.tuples(ROWS, st.integers(0, 60)), max_size=8),
    st.integers(0, 100),
    st.sampled_from([0.0, 0.3, 0.9]),
)
@settings(deadline=None)
def test_a_life_of_passes_never_changes_what_readers_end_with_nor_drops_a_tombstone_early(
    arrivals, delete_retention_ms, ratio
):
    """A reader under way when a pass comes has delete.retention.ms to read on, and is not misled."""
    limits = KeyCompactionLimits(0, None, ratio, delete_retention_ms, 0)
    live: dict[int, tuple[bytes | None, bytes | None]] = {}
    whole: dict[int, tuple[bytes | None, bytes | None]] = {}
    first_seen: dict[int, int] = {}
    files: list[DataFile] = []
    mark: TombstoneMark | None = None
    dirty_from = end = now = 0
    for rows, passed in arrivals:
        now += passed
        if rows:
            files.append(DataFile(f"{end}", 0, end, end + len(rows) - 1, len(rows), len(rows), now, now, now))
        new = dict(enumerate(rows, start=end))
        live, whole, end = {**live, **new}, {**whole, **new}, end + len(rows)
        facts = {"log_start": 0, "end": end, "limits": limits, "now_ms": now}
        plan = plan_key_compaction(files, dirty_from=dirty_from, mark=mark, **facts)
        if plan is None:
            continue
        before = [(offset, *row) for offset, row in live.items()]
        dirty = plan.dirty[0].base_offset
        kept = surviving_offsets(before, dirty_from=dirty, tombstones_below=plan.tombstones_below)
        for offset in live.keys() - set(kept):
            key, value = live[offset]
            replaced = any(live[later][0] == key for later in live if later > offset)
            assert replaced or (value is None and now - first_seen[offset] > delete_retention_ms)
        live = {offset: live[offset] for offset in kept}
        first_seen.update({offset: now for offset in live if offset not in first_seen})
        assert values(live) == values(whole)
        files = [replace(merged(plan.inputs), path=f"pass at {end}")]
        dirty_from, mark = plan.horizon, plan.mark_after(now)
        assert plan_key_compaction(files, dirty_from=dirty_from, mark=mark, **facts) is None
