"""v3: Confluent's admin and produce subset, for one cluster with one broker.

It knows Confluent's shapes, links and codes. It must not know how a topic is stored.
"""

from __future__ import annotations

from ingest_api.routes.v3 import clusters, configs, groups, partitions, records, records_batch, topics
from ingest_api.web.context import ServerContext
from ingest_api.web.route_spec import Operation

__all__ = ["operations"]


def operations(tier: ServerContext) -> list[Operation]:
    """List every route of v3."""
    modules = (clusters, topics, configs, partitions, groups, records, records_batch)
    return [operation for module in modules for operation in module.operations(tier)]
