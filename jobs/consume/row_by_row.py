"""Check of Spark's plan for whether a stream is computed row by row.

Unknown steps count as stateful: each version of Spark adds more kinds of those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["is_row_by_row"]

#: Steps of a logical plan, by their names in Spark.
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
#: With a static side, it is row by row, too: each row finds its matches independently.
_JOIN: Final = "Join"


def is_row_by_row(frame: DataFrame) -> bool:
    java: Any = frame._jdf  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - plans have no Python API
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
