"""The face of lakelog, a streaming log on the lakehouse: clients that speak HTTP, and the command line.

The clients know the wire format and nothing of the rooms behind it, so that a client's install stays light.

A name is loaded when it is used first, so that `import lakelog` itself loads nothing.
"""

from __future__ import annotations

from importlib import import_module

#: As in `typing`, whose import would take most of the time to import this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from lakelog import errors as errors
    from lakelog.admin import Admin
    from lakelog.async_admin import AsyncAdmin
    from lakelog.async_consumer import AsyncConsumer
    from lakelog.async_producer import AsyncProducer
    from lakelog.consume.shapes import ConsumerRecord, GroupMetadata, GroupOffsets, Header
    from lakelog.consumer import Consumer
    from lakelog.foundation.errors import LakelogError
    from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition
    from lakelog.groups.shapes import GroupDescription, GroupListing, GroupMember, GroupPartition, OffsetReset
    from lakelog.produce.batch import RecordMetadata
    from lakelog.produce.futures import RecordFuture
    from lakelog.producer import Producer
    from lakelog.topics.shapes import Batch, ConfigEntry, PartitionOffsets, TopicDescription
    from lakelog.transaction import AsyncTransaction, Transaction

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncTransaction",
    "Batch",
    "ConfigEntry",
    "Consumer",
    "ConsumerRecord",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "GroupOffsets",
    "GroupPartition",
    "Header",
    "LakelogError",
    "OffsetAndMetadata",
    "OffsetReset",
    "PartitionOffsets",
    "Producer",
    "RecordFuture",
    "RecordMetadata",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "__version__",
    "errors",
]

__version__ = "0.1.0"

_HOMES: Final = {
    "Admin": "lakelog.admin",
    "AsyncAdmin": "lakelog.async_admin",
    "AsyncConsumer": "lakelog.async_consumer",
    "AsyncProducer": "lakelog.async_producer",
    "AsyncTransaction": "lakelog.transaction",
    "Batch": "lakelog.topics.shapes",
    "ConfigEntry": "lakelog.topics.shapes",
    "Consumer": "lakelog.consumer",
    "ConsumerRecord": "lakelog.consume.shapes",
    "GroupDescription": "lakelog.groups.shapes",
    "GroupListing": "lakelog.groups.shapes",
    "GroupMember": "lakelog.groups.shapes",
    "GroupMetadata": "lakelog.consume.shapes",
    "GroupOffsets": "lakelog.consume.shapes",
    "GroupPartition": "lakelog.groups.shapes",
    "Header": "lakelog.consume.shapes",
    "LakelogError": "lakelog.foundation.errors",
    "OffsetAndMetadata": "lakelog.foundation.topic_partition",
    "OffsetReset": "lakelog.groups.shapes",
    "PartitionOffsets": "lakelog.topics.shapes",
    "Producer": "lakelog.producer",
    "RecordFuture": "lakelog.produce.futures",
    "RecordMetadata": "lakelog.produce.batch",
    "TopicDescription": "lakelog.topics.shapes",
    "TopicPartition": "lakelog.foundation.topic_partition",
    "Transaction": "lakelog.transaction",
    "errors": "lakelog.errors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(_HOMES[name])
    return home if name == "errors" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
