"""Upgrades a root from an older format to the present one, step by step and in place.

There has been only one format so far, so there is no step yet: a change of the stored format adds its step. A step must
be repeatable: a crash in the middle leaves the older number, and the next try begins with that step. In a bucket, the
former owner can journal nothing more by then, but it may still bring journaled records to the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delta_log.model.errors import NotARoot
from delta_log.root.root import FORMAT, ROOT_FILE, Root, RootInfo, as_root, encode_info, open_root
from delta_log.root.takeover import take_over
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Store

Step = Callable[[Store], None]
#: The step that turns a root of this format into one of the next.
STEPS: Final[Mapping[int, Step]] = {}


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """The formats before and after; `str` is the text to print."""

    location: str
    before: int
    after: int
    dry_run: bool

    @property
    def exit_code(self) -> int:
        return 0

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.location}: format {self.before} is the present one; nothing to do"
        would = "would be upgraded" if self.dry_run else "upgraded"
        return f"{self.location}: {would} from format {self.before} to {self.after}"


def plan_upgrade(location: str, found: int, wanted: int, steps: Mapping[int, Step]) -> list[int]:
    """The formats whose steps are needed, in order; NotARoot if a step is missing. Pure."""
    if found > wanted:
        why = f"its format {found} is newer than this version, which knows {wanted}: install a newer one"
        raise NotARoot(location, why)
    missing = [number for number in range(found, wanted) if number not in steps]
    if missing:
        raise NotARoot(location, f"its format {found} is older than this version can upgrade; use an older one first")
    return list(range(found, wanted))


def upgrade(
    root: str | Path | Root,
    *,
    dry_run: bool = False,
    steps: Mapping[int, Step] = STEPS,
    wanted: int = FORMAT,
    probe: Probe = no_probe,
) -> UpgradeReport:
    """Upgrade a root to the present format. RootInUse while it has an owner. `steps` and `wanted` are for tests."""
    place = as_root(root, probe=probe)
    info = open_root(place, create=False)
    plan = plan_upgrade(place.store.location, info.format, wanted, steps)
    if plan and not dry_run:
        place.hold()
        try:
            upgrade_held(place, info, steps=steps, wanted=wanted, probe=probe)
        finally:
            place.let_go()
    return UpgradeReport(place.store.location, info.format, wanted, dry_run)


def upgrade_held(
    place: Root,
    info: RootInfo,
    *,
    steps: Mapping[int, Step] = STEPS,
    wanted: int = FORMAT,
    probe: Probe = no_probe,
) -> RootInfo:
    """Upgrade a root that the caller holds; a start does it before anything else."""
    plan = plan_upgrade(place.store.location, info.format, wanted, steps)
    if plan:
        take_over(place)
    for number in plan:
        steps[number](place.store)
        probe("upgrade.step_done")
        info = RootInfo(info.cluster_id, number + 1)
        place.store.put(ROOT_FILE, encode_info(info))
        probe("upgrade.format_written")
    return info
