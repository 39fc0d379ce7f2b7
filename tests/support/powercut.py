"""What a power cut leaves of the steps that a disk was told to do.

The strict model: a file's content survives as far as a sync of that file covered it; a name (create, link, rename,
unlink, mkdir, rmdir) only once its directory was synced. `PowerCut` follows the steps up to any one of them, and lays
out what is there after the power went at that moment: what is durable and no more, or besides it a random part of
what was not synced yet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.recording_disk import ROOT, Cut, Drop, Enter, Leave, Move, Step, Sync, Write

SECTOR = 512


@dataclass
class _File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Cut] = field(default_factory=list)


@dataclass
class _Directory:
    durable: dict[str, int] = field(default_factory=dict)
    pending: list[Enter | Leave | Move] = field(default_factory=list)


class PowerCut:
    """Follows the steps; the power can go at any of them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._at = 0
        self._files: dict[int, _File] = {}
        self._directories: dict[int, _Directory] = {ROOT: _Directory()}

    def go_to(self, count: int) -> None:
        """The first `count` steps were taken."""
        for step in self._steps[self._at : count]:
            self._take(step)
        self._at = max(self._at, count)

    def survivors(self, target: Path, chance: random.Random | None = None) -> None:
        """Lay out what is left; with `chance`, a random part of what was not synced is left, too."""
        self._lay_out(ROOT, target, chance)

    def _take(self, step: Step) -> None:
        match step:
            case Write() | Cut():
                self._files[step.node].pending.append(step)
            case Drop():
                self._files[step.node].pending.clear()
            case Sync() if step.node in self._directories:
                directory = self._directories[step.node]
                _name(directory.durable, directory.pending)
                directory.pending.clear()
            case Sync():
                file = self._files[step.node]
                for change in file.pending:
                    _change(file.durable, change)
                file.pending.clear()
            case Enter():
                if step.is_directory:
                    self._directories.setdefault(step.node, _Directory())
                else:
                    self._files.setdefault(step.node, _File())
                self._directories[step.directory].pending.append(step)
            case Leave() | Move():
                self._directories[step.directory].pending.append(step)

    def _lay_out(self, node: int, target: Path, chance: random.Random | None) -> None:
        target.mkdir()
        directory = self._directories[node]
        names = dict(directory.durable)
        if chance is not None:
            _name(names, directory.pending[: chance.randint(0, len(directory.pending))])
        for name, child in names.items():
            if child in self._directories:
                self._lay_out(child, target / name, chance)
            else:
                (target / name).write_bytes(self._content(self._files[child], chance))

    def _content(self, file: _File, chance: random.Random | None) -> bytes:
        content = bytearray(file.durable)
        for change in file.pending if chance is not None else ():
            if isinstance(change, Cut):
                if chance.random() < 0.5:
                    _change(content, change)
                continue
            for start in range(0, len(change.data), SECTOR):
                if chance.random() < 0.5:
                    _change(content, Write(change.node, change.position + start, change.data[start : start + SECTOR]))
        return bytes(content)


def _change(content: bytearray, change: Write | Cut) -> None:
    if isinstance(change, Cut):
        del content[change.length :]
        content.extend(bytes(change.length - len(content)))
        return
    content.extend(bytes(max(0, change.position - len(content))))
    content[change.position : change.position + len(change.data)] = change.data


def _name(names: dict[str, int], changes: Sequence[Enter | Leave | Move]) -> None:
    for change in changes:
        match change:
            case Enter():
                names[change.name] = change.node
            case Leave():
                names.pop(change.name, None)
            case Move():
                node = names.pop(change.name, None)
                if node is not None:
                    names[change.new] = node
