"""The log: topics of ordered partitions over Delta tables, with a journal that makes an acknowledgement cheap.

`Log` owns a root, `LogReader` looks at one. Everything else here is theirs.
"""

from delta_log.catalog import TopicInfo
from delta_log.errors import LakelogError
from delta_log.fetched import ConsumedRecord, Fetched
from delta_log.later import Begun
from delta_log.ledger import Ledger, Prepared
from delta_log.ledger_table import LedgerTable
from delta_log.log import Log
from delta_log.log_reader import LogReader
from delta_log.opening import Settings
from delta_log.retention import DeleteRecordsPlan, RetentionPlan
from delta_log.statistics import Distribution, JobStatistics, LogStatistics, TopicStatistics, TransactionStatistics
from delta_log.types import Appended, DataFile, OffsetRange, PartitionOffsets, ProducerIdentity, ProducerStamp, Record
from delta_log.writer import Limits

__all__ = [
    "Appended",
    "Begun",
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
