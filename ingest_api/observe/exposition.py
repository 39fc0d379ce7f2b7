"""Metrics as text, in the two forms that Prometheus reads. Pure.

The library's own writer takes ten times as long for a sample, and a server may have a thousand topics; it only writes
the metrics of the process.
"""

from __future__ import annotations

from collections.abc import Mapping

from delta_log import Distribution
from ingest_api.observe.metric_names import METRICS, MetricName

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Sheet:
    """Values of all metrics in `METRICS`; one without a value yet is shown without samples."""

    def __init__(self) -> None:
        self._lines: dict[MetricName, list[str]] = {metric: [] for metric in METRICS}

    def put(self, metric: MetricName, value: float, **labels: str) -> None:
        self.put_labelled(metric, label_text(labels), value)

    def put_labelled(self, metric: MetricName, labels: str, value: float) -> None:
        """Add a value with labels rendered before, for many metrics with the same labels."""
        self._lines[metric].append(f"{metric.name}{labels} {float(value)!r}\n")

    def put_distribution(self, metric: MetricName, given: Distribution, **labels: str) -> None:
        lines, count = self._lines[metric], 0
        shown = [*map(repr, given.bounds), "+Inf"]
        for bound, more in zip(shown, given.counts, strict=True):
            count += more
            lines.append(f"{metric.name}_bucket{label_text({**labels, 'le': bound})} {count}\n")
        lines.append(f"{metric.name}_count{label_text(labels)} {count}\n")
        lines.append(f"{metric.name}_sum{label_text(labels)} {given.total!r}\n")

    def render(self, *, open_metrics: bool) -> bytes:
        parts: list[str] = []
        for metric, lines in self._lines.items():
            name = metric.name.removesuffix("_total") if open_metrics else metric.name
            parts.append(f"# HELP {name} {metric.help}\n# TYPE {name} {metric.type}\n")
            if open_metrics and metric.unit:
                parts.append(f"# UNIT {name} {metric.unit}\n")
            parts += lines
        return "".join(parts).encode()


def label_text(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"
