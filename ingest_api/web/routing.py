"""Finds the operation of a request: one step for each part of its path, however many routes there are. Pure.

FastAPI's own layers around a request cost more than most operations do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingest_api.web.route_spec import Operation


class Found(NamedTuple):
    """An operation, and the parameters of its path as received: still encoded."""

    operation: Operation
    path: Mapping[str, bytes]


class _Step:
    """Node of the tree of paths. A literal part takes precedence over a parameter."""

    __slots__ = ("operations", "parameter", "spelt")

    def __init__(self) -> None:
        self.spelt: dict[bytes, _Step] = {}
        self.parameter: _Step | None = None
        self.operations: dict[str, tuple[Operation, Sequence[str]]] = {}


class RoutingTable:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self._start = _Step()
        for operation in operations:
            self._add(operation)

    def find(self, method: str, path: bytes) -> Found | None:
        """Return the operation, or None; the fallback of the app then answers why there is none."""
        step, values = self._start, list[bytes]()
        for part in path.split(b"/")[1:]:
            following = step.spelt.get(part)
            if following is None:
                following = step.parameter
                if following is None or not part:
                    return None
                values.append(part)
            step = following
        entry = step.operations.get(method)
        if entry is None:
            return None
        operation, names = entry
        return Found(operation, dict(zip(names, values, strict=True)))

    def _add(self, operation: Operation) -> None:
        step, names = self._start, list[str]()
        for part in operation.path.split("/")[1:]:
            if part.startswith("{"):
                names.append(part[1:-1])
                step.parameter = step.parameter or _Step()
                step = step.parameter
            else:
                step = step.spelt.setdefault(part.encode(), _Step())
        step.operations[operation.method] = operation, names
