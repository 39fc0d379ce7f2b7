"""The log: topics of ordered partitions over Delta tables, with a journal that makes an acknowledgement cheap.

`Log` owns a root, `LogReader` reads one. The other names are their parameters and results.
"""

from lakelog.foundation.extras import needs_extra

with needs_extra("server", "delta_log"):
    from delta_log.append.group_commit import Limits
    from delta_log.fetch.deferred_rows import PartialFetch
    from delta_log.fetch.fetch_result import ConsumedRecord, Fetched
    from delta_log.keyed import Ledger, Prepared
    from delta_log.log import Log
    from delta_log.maintenance.retention import DeleteRecordsPlan, RetentionPlan
    from delta_log.model.errors import LakelogError
    from delta_log.model.transaction_bounds import Bounds
    from delta_log.model.types import (
        Appended,
        DataFile,
        OffsetRange,
        PartitionOffsets,
        ProducerIdentity,
        ProducerStamp,
        Record,
    )
    from delta_log.reader import LogReader
    from delta_log.records.keyed_table import LedgerTable
    from delta_log.runtime.meters import (
        Distribution,
        JobStatistics,
        LogStatistics,
        TopicStatistics,
        TransactionStatistics,
    )
    from delta_log.startup.open import Settings
    from delta_log.topics.catalog import TopicInfo

__all__ = [
    "Appended",
    "Bounds",
    "ConsumedRecord",
    "DataFile",
    "DeleteRecordsPlan",
    "Distribution",
    "Fetched",
    "JobStatistics",
    "LakelogError",
    "Ledger",
    "LedgerTable",
    "Limits",
    "Log",
    "LogReader",
    "LogStatistics",
    "OffsetRange",
    "PartialFetch",
    "PartitionOffsets",
    "Prepared",
    "ProducerIdentity",
    "ProducerStamp",
    "Record",
    "RetentionPlan",
    "Settings",
    "TopicInfo",
    "TopicStatistics",
    "TransactionStatistics",
]
