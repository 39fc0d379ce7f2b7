"""Findings of `lakelog doctor`, their cures, and the verdict. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from delta_log.model.clock_tolerance import CLOCK_TOLERANCE_MS
from delta_log.stores.store_check import Trial

__all__ = [
    "LEAST_FREE",
    "SCARCE",
    "Finding",
    "decide_clock",
    "decide_exit",
    "decide_space",
    "decide_trials",
    "show_json",
    "show_lines",
    "worst_of",
]

State = Literal["ok", "warning", "failed"]
_STATES: Final[tuple[State, ...]] = ("ok", "warning", "failed")

#: A journal's segments and a table's next files need room at once.
LEAST_FREE: Final = 256 * 1024 * 1024
SCARCE: Final = 2 * 1024 * 1024 * 1024
_MEBI: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check. `cure`: what to do, empty if nothing."""

    check: str
    state: State
    said: str
    cure: str = ""


def decide_trials(check: str, trials: Sequence[Trial], cure: str) -> Finding:
    wrong = [f"{trial.what}: {trial.wrong}" for trial in trials if trial.wrong is not None]
    if wrong:
        return Finding(check, "failed", "; ".join(wrong), cure)
    return Finding(check, "ok", ", ".join(trial.what for trial in trials))


def decide_clock(check: str, whose: str, host_ms: int, other_ms: int) -> Finding:
    apart = abs(host_ms - other_ms)
    if apart > CLOCK_TOLERANCE_MS:
        limit = CLOCK_TOLERANCE_MS // 60_000
        cure = f"mend the clock that is wrong: jobs refuse to delete anything where they are {limit} min apart"
        return Finding(check, "failed", f"this host's and {whose} are {apart // 1000} s apart", cure)
    return Finding(check, "ok", f"this host's and {whose} are {apart / 1000:.1f} s apart")


def decide_space(free: int, ballast: int = 0) -> Finding:
    """Judge the free space. `ballast`: the reserve of a root there, which only its server can free."""
    said = f"{free // _MEBI:,} MiB" + (f", and {ballast // _MEBI:,} MiB of ballast" if ballast else "")
    if free < LEAST_FREE:
        return Finding("free space", "failed", said, f"make room: less than {LEAST_FREE // _MEBI} MiB is too little")
    if free < SCARCE:
        return Finding("free space", "warning", said, "make room soon, or shorten retention.ms of large topics")
    return Finding("free space", "ok", said)


def worst_of(findings: Iterable[Finding]) -> State:
    return _STATES[max((_STATES.index(finding.state) for finding in findings), default=0)]


def decide_exit(findings: Iterable[Finding]) -> int:
    """Exit code: 1 for a failed check; warnings are not failures."""
    return int(worst_of(findings) == "failed")


def show_lines(findings: Sequence[Finding]) -> str:
    width = max((len(finding.check) for finding in findings), default=0)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.state:8} {finding.check:{width}}  {finding.said}")
        if finding.cure:
            lines.append(f"{'':8} {'':{width}}  -> {finding.cure}")
    return "\n".join(lines)


def show_json(findings: Sequence[Finding]) -> str:
    said = {"outcome": worst_of(findings), "checks": [asdict(finding) for finding in findings]}
    return json.dumps(said, ensure_ascii=False)
