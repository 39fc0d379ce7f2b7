"""Findings of a check, with their severity. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """Severity of a finding. `DAMAGE`: not what was stored. `WASTE`: not needed. `NOTE`: worth knowing."""

    DAMAGE = "damage"
    WASTE = "waste"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. `place` is a path below the root; empty for the root itself."""

    place: str
    what: str
    severity: Severity = Severity.DAMAGE

    def __str__(self) -> str:
        """Always one line, even if a library's message has several."""
        what = " ".join(self.what.split())
        where = f"{self.place}: " if self.place else ""
        return f"{self.severity.value}: {where}{what}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check: counts and findings; `str` is the text to print."""

    location: str
    findings: tuple[Finding, ...]
    tables: int
    files: int
    records: int
    size: int

    @property
    def sound(self) -> bool:
        """True without damage; waste and notes do not count."""
        return not any(finding.severity is Severity.DAMAGE for finding in self.findings)

    @property
    def exit_code(self) -> int:
        return 0 if self.sound else 1

    def __str__(self) -> str:
        found = Counter(finding.severity for finding in self.findings)
        counted = ", ".join(f"{found[severity]} {severity.value}" for severity in Severity if found[severity])
        looked = f"{self.tables} tables, {self.files} files, {self.records} records, {self.size} bytes"
        verdict = "sound" if self.sound else "DAMAGED"
        last = f"{self.location}: {verdict}; {looked}" + (f"; {counted}" if counted else "")
        return "\n".join([*map(str, self.findings), last])


def damage(place: str, what: str) -> Finding:
    return Finding(place, what, Severity.DAMAGE)


def waste(place: str, what: str) -> Finding:
    return Finding(place, what, Severity.WASTE)


def note(place: str, what: str) -> Finding:
    return Finding(place, what, Severity.NOTE)


def seen_twice(first: Sequence[Finding], second: Iterable[Finding]) -> list[Finding]:
    """Findings of both checks: a change under way is no finding."""
    again = set(second)
    return [finding for finding in dict.fromkeys(first) if finding in again]
