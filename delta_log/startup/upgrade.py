"""From an older format of a root to the present one, step by step and in place.

There has been one format so far, so there is no step yet: a change of what is stored comes with its own. A step must be
such that it can be done again: a death in the middle of it leaves the older number, and the next try begins with it. In
a bucket its former owner can journal nothing more by then, but what he journaled he may still bring to the tables.
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
#: What makes of a root of this format one of the next.
STEPS: Final[Mapping[int, Step]] = {}


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """From which format to which; `str` is what there is to print."""

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
    """The formats to leave, in order; NotARoot where there is no way. Pure."""
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
    """Bring a root to the present format. RootInUse while somebody owns it. `steps` and `wanted` are for tests."""
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
    """The same, by whoever holds the root; a start does it before anything else."""
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
