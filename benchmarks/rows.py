"""One line of the results: what was measured, beside what, and whether that is good enough. Pure."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

Param = str | int | float | bool


class Target(msgspec.Struct, frozen=True):
    of: Literal["ratio", "value", "p50", "p99"]
    relation: Literal["<=", ">="]
    bound: float

    def __str__(self) -> str:
        return f"{self.of} {self.relation} {self.bound:g}"


class Row(msgspec.Struct, kw_only=True):
    """`value` is the median of all turns, `low` and `high` are their extremes; `p50` and `p99` are milliseconds.

    `baseline_value` is in the same unit; `ratio` is the median of value : baseline of each turn. `also` is what else
    was seen meanwhile, by unit; `note` is a sentence, as why there is nothing to tell.
    """

    name: str
    params: dict[str, Param] = {}
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    p50: float | None = None
    p99: float | None = None
    baseline: str | None = None
    baseline_value: float | None = None
    ratio: float | None = None
    target: str | None = None
    met: bool | None = None
    also: dict[str, float] = {}
    note: str | None = None


def judge(row: Row, *targets: Target) -> Row:
    """Say whether the row meets all its targets."""
    row.target, row.met = " and ".join(map(str, targets)), all(_is_met(row, target) for target in targets)
    return row


def _is_met(row: Row, target: Target) -> bool:
    measured: float | None = getattr(row, target.of)
    within = operator.le if target.relation == "<=" else operator.ge
    return measured is not None and within(measured, target.bound)


def over_turns(values: Sequence[float], unit: str, *, name: str, params: dict[str, Param] | None = None) -> Row:
    """A row of what was measured once in every turn."""
    return Row(name=name, params=params or {}, value=median(values), unit=unit, low=min(values), high=max(values))


def beside(row: Row, baseline: str, measured: Sequence[float], bases: Sequence[float]) -> Row:
    """Compare with a baseline that was measured in the same turns."""
    row.baseline, row.baseline_value = baseline, median(bases)
    row.ratio = median(one / base for one, base in zip(measured, bases, strict=True))
    return row


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


_WIDTHS = (20, 76, 19, 7, 7, 40, 6, 26)
_TITLES = ("name", "params", "value", "p50 ms", "p99 ms", "baseline", "ratio", "target")


def render_titles() -> str:
    return _line(_TITLES) + "\n" + _line(["-" * width for width in _WIDTHS])


def render(row: Row) -> str:
    """The row as a line of the table."""
    params = " ".join(f"{name}={_number(value)}" for name, value in row.params.items())
    baseline = "" if row.baseline is None else row.baseline
    if row.baseline_value is not None:
        baseline += f" {_number(row.baseline_value)}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    verdict = {None: "", True: f"{row.target} met", False: f"{row.target} MISSED"}[row.met]
    latencies = ["" if value is None else _number(value) for value in (row.p50, row.p99)]
    line = _line([row.name, params, f"{_number(row.value)} {row.unit}", *latencies, baseline, ratio, verdict])
    also = [f"{_number(value)} {unit}" for unit, value in row.also.items()]
    return "  ".join([line, *also, *([] if row.note is None else [row.note])])


def _line(cells: Sequence[str]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


_WHOLE_FROM = 100


def _number(value: Param) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
