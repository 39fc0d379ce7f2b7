"""List of v2's consumer routes."""

from __future__ import annotations

from ingest_api.routes.groups.dead_letters import DeadLetters
from ingest_api.routes.groups.instances import Instances
from ingest_api.routes.groups.offsets import InstanceOffsets
from ingest_api.routes.groups.poll import Records
from ingest_api.web.context import ServerContext
from ingest_api.web.route_spec import Operation


def operations(tier: ServerContext) -> list[Operation]:
    """List every route of a consumer instance."""
    parts = (Instances(tier), Records(tier), InstanceOffsets(tier), DeadLetters(tier))
    return [operation for of in parts for operation in of.operations()]
