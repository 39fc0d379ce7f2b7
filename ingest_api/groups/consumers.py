"""v2's consumer routes, all of them."""

from __future__ import annotations

from ingest_api.groups.dead_letters import DeadLetters
from ingest_api.groups.instances import Instances
from ingest_api.groups.offsets import InstanceOffsets
from ingest_api.groups.records import Records
from ingest_api.operations import Operation
from ingest_api.tier import Tier


def operations(tier: Tier) -> list[Operation]:
    """Every route of a consumer instance."""
    parts = (Instances(tier), Records(tier), InstanceOffsets(tier), DeadLetters(tier))
    return [operation for of in parts for operation in of.operations()]
