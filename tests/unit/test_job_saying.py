"""What a job has to say is no reason to stop where there is no room for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jobs.groups.group_client import Groups
from jobs.materialize.batches import GroupOffsets


def test_a_query_whose_warnings_have_no_room_goes_on(monkeypatch: pytest.MonkeyPatch):
    """Nobody listens at that port."""
    groups = Groups("http://127.0.0.1:1", patience_s=0.1)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        GroupOffsets(groups, "readers", "orders").tell({0: 5})
        monkeypatch.undo()
    groups.close()
