"""Whether what a stream comes to is made row by row, by the plan that Spark has of it.

What is not known to be so is not taken to be: state is kept for more kinds of steps with each version of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["is_row_by_row"]

#: Steps of a logical plan, by the names that Spark has for them.
_ROW_BY_ROW: Final = frozenset(
    {
        "StreamingRelation",
        "StreamingRelationV2",
        "StreamingDataSourceV2Relation",
        "StreamingDataSourceV2ScanRelation",
        "SubqueryAlias",
        "View",
        "Project",
        "Filter",
        "TypedFilter",
        "Generate",
        "Expand",
        "Union",
        "MapInArrow",
        "PythonMapInArrow",
        "MapInPandas",
        "MapElements",
        "MapPartitions",
        "DeserializeToObject",
        "SerializeFromObject",
        "EventTimeWatermark",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
        "CollectMetrics",
        "ResolvedHint",
        "UnresolvedHint",
    }
)
#: With what is no stream: each row finds its own by itself.
_JOIN: Final = "Join"


def is_row_by_row(frame: DataFrame) -> bool:
    java: Any = frame._jdf  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - Python is not told of plans
    return _is_row_by_row(java.queryExecution().analyzed())


def _is_row_by_row(step: Any) -> bool:
    if not step.isStreaming():
        return True
    found = step.children()
    children = [found.apply(number) for number in range(found.size())]
    name = step.nodeName()
    if name not in _ROW_BY_ROW and not (name == _JOIN and sum(each.isStreaming() for each in children) == 1):
        return False
    return all(_is_row_by_row(each) for each in children)
