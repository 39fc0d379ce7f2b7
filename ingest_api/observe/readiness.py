"""Readiness: decides if a server should be given requests. Pure."""

from __future__ import annotations

from ingest_api.web.counters import State


def reasons_not_ready(state: State, refuses: str | None) -> list[str]:
    """List the reasons; empty if it is ready. `refuses` is the reason why the log takes no writes."""
    reasons: list[str] = []
    if state == "recovering":
        reasons.append("the log is being recovered")
    elif state == "draining":
        reasons.append("the server is about to stop")
    if refuses is not None:
        reasons.append(refuses)
    return reasons
