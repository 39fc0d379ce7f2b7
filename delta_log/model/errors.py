"""The errors of the log, and the meaning of each for the caller.

    LakelogError
    ├── InvalidRequest            the request can never succeed as it is; nothing was stored
    │   ├── InvalidName           a topic name or id against the rules
    │   ├── InvalidConfig         an unknown setting or an unusable value
    │   ├── InvalidRecord         a record of a wrong type or shape
    │   │   ├── RecordTooLarge
    │   │   └── InvalidTimestamp
    │   ├── InvalidPartitions     a partition count that cannot be
    │   │   └── TooManyPartitions     more than a topic, or all of them, may have
    │   ├── UnknownTopic
    │   ├── UnknownPartition
    │   ├── TopicExists
    │   ├── OffsetOutOfRange      knows the valid range
    │   ├── TransactionError      the state of a transaction
    │   │   ├── UnknownTransaction           there never was one
    │   │   ├── TransactionFenced            a later epoch of its transactional id was opened
    │   │   ├── TransactionTimedOut
    │   │   ├── TransactionAborted           by its producer, or by a restart
    │   │   ├── TransactionDecided           it is committed, or about to be
    │   │   ├── VersionDecided               it, or a higher one, is committed
    │   │   ├── UnknownStage
    │   │   ├── TransactionTooLarge
    │   │   └── InvalidTransactionTimeout
    │   └── ProducerError         the sequence rules of an idempotent producer
    │       ├── InvalidStamp      an epoch or sequence that cannot be one
    │       ├── OutOfOrderSequence
    │       ├── StaleProducerEpoch
    │       ├── ProducerEpochTooHigh  neither the current one, nor the next
    │       └── SequenceReused    the same sequence with other content
    ├── NotAvailable              not now; nothing was stored
    │   ├── Overloaded            bounds on what waits or is not yet in the tables
    │   ├── TopicClosed           one topic is damaged or stuck; the others work
    │   ├── RootInUse             another process owns the root
    │   ├── NotOwner              another owner took over; this process must not write again
    │   ├── ReadOnly
    │   ├── Closed
    │   ├── PredecessorFailed         it depended on a request that was refused; decide again
    │   └── StorageRefused        the store refused before anything was stored
    │       └── DiskFull          no space left
    ├── NotARoot                  the directory holds something else, or a format this version cannot read
    ├── Corruption                stored bytes are not those that were written: names the file
    ├── PlanOutdated              the table changed during a rewrite or removal; plan again
    └── OutcomeUnknown            it may or may not be stored; never retried blindly

`outcome` is the conclusion for a client: `not_attempted` means that nothing was stored and never will be.
"""

from __future__ import annotations

import errno
from typing import ClassVar

from delta_log.model.quoting import quoted, tell


class LakelogError(Exception):
    """The root of the tree; `code` is stable and machine-readable."""

    code: ClassVar[str] = "LAKELOG_ERROR"
    retriable: ClassVar[bool] = False
    outcome: ClassVar[str] = "not_attempted"


class InvalidRequest(LakelogError):
    code = "INVALID_REQUEST"


class InvalidName(InvalidRequest):
    code = "INVALID_TOPIC_EXCEPTION"

    def __init__(self, name: str, rule: str) -> None:
        self.name, self.rule = name, rule
        super().__init__(f"{quoted(name)} is not a valid name: {rule}")


class InvalidConfig(InvalidRequest):
    code = "INVALID_CONFIG"

    def __init__(self, setting: str, value: object, rule: str) -> None:
        self.setting, self.value, self.rule = setting, value, rule
        super().__init__(f"{setting}={quoted(value)} cannot be used: {rule}")


class InvalidRecord(InvalidRequest):
    """A bad record, which fails its whole request; `index` is its place in it."""

    code = "INVALID_RECORD"

    def __init__(self, index: int, rule: str) -> None:
        self.index, self.rule = index, rule
        super().__init__(f"record {index}: {rule}")


class RecordTooLarge(InvalidRecord):
    code = "MESSAGE_TOO_LARGE"

    def __init__(self, index: int, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(index, f"{size} bytes are more than max.message.bytes={limit}")


class InvalidTimestamp(InvalidRecord):
    code = "INVALID_TIMESTAMP"

    def __init__(self, index: int, timestamp: int, rule: str) -> None:
        self.timestamp = timestamp
        super().__init__(index, f"timestamp {timestamp}: {rule}")


class InvalidPartitions(InvalidRequest):
    code = "INVALID_PARTITIONS"

    def __init__(self, topic: str, wanted: object, rule: str) -> None:
        self.topic, self.wanted, self.rule = topic, wanted, rule
        super().__init__(f"{topic}: {quoted(wanted)} partitions: {rule}")


class TooManyPartitions(InvalidPartitions):
    """A limit on partitions is exceeded. `present`: the number in all topics, if `setting` is a limit on all."""

    code = "POLICY_VIOLATION"

    def __init__(self, topic: str, wanted: int, setting: str, limit: int, present: int | None = None) -> None:
        self.setting, self.limit, self.present = setting, limit, present
        there = "" if present is None else f", and there are {present}"
        super().__init__(topic, wanted, f"{setting} is {limit}{there}")


class UnknownTopic(InvalidRequest):
    code = "UNKNOWN_TOPIC_OR_PARTITION"

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"there is no topic {quoted(topic)}")


class UnknownPartition(InvalidRequest):
    code = "UNKNOWN_TOPIC_OR_PARTITION"

    def __init__(self, topic: str, partition: int, partitions: int) -> None:
        self.topic, self.partition, self.partitions = topic, partition, partitions
        super().__init__(f"{topic} has no partition {partition}: it has 0 to {partitions - 1}")


class TopicExists(InvalidRequest):
    code = "TOPIC_ALREADY_EXISTS"

    def __init__(self, topic: str, existing: str) -> None:
        self.topic, self.existing = topic, existing
        same = topic == existing
        super().__init__(
            f"topic {quoted(topic)} exists already"
            if same
            else f"topic {quoted(topic)} collides with {quoted(existing)}"
        )


class OffsetOutOfRange(InvalidRequest):
    code = "OFFSET_OUT_OF_RANGE"

    def __init__(self, topic: str, partition: int, offset: int, log_start_offset: int, end_offset: int) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset
        self.log_start_offset, self.end_offset = log_start_offset, end_offset
        super().__init__(
            f"offset {offset} of {topic}-{partition} is out of range: it holds {log_start_offset} to {end_offset}"
        )


class ProducerError(InvalidRequest):
    code = "INVALID_PRODUCER_STATE"


class InvalidStamp(ProducerError):
    def __init__(self, producer_id: str, rule: str) -> None:
        self.producer_id, self.rule = producer_id, rule
        super().__init__(f"producer {quoted(producer_id)}: {rule}")


class OutOfOrderSequence(ProducerError):
    code = "OUT_OF_ORDER_SEQUENCE_NUMBER"

    def __init__(self, producer_id: str, expected: int, received: int) -> None:
        self.producer_id, self.expected, self.received = producer_id, expected, received
        super().__init__(f"producer {quoted(producer_id)}: expected sequence {expected}, received {received}")


class StaleProducerEpoch(ProducerError):
    code = "INVALID_PRODUCER_EPOCH"

    def __init__(self, producer_id: str, current: int, received: int) -> None:
        self.producer_id, self.current, self.received = producer_id, current, received
        super().__init__(f"producer {quoted(producer_id)}: epoch {received} was replaced by {current}")


class ProducerEpochTooHigh(ProducerError):
    """An epoch that was never assigned. `current` is −1 for an unknown producer."""

    code = "PRODUCER_EPOCH_TOO_HIGH"

    def __init__(self, producer_id: str, current: int, received: int) -> None:
        self.producer_id, self.current, self.received = producer_id, current, received
        known = f"its epoch is {current}" if current >= 0 else "it is not known"
        super().__init__(
            f"producer {quoted(producer_id)}: epoch {received} was not handed out, and {known}:"
            " go on in the next epoch, or have one handed out"
        )


class SequenceReused(ProducerError):
    code = "DUPLICATE_SEQUENCE_NUMBER"

    def __init__(self, producer_id: str, sequence: int) -> None:
        self.producer_id, self.sequence = producer_id, sequence
        super().__init__(f"producer {quoted(producer_id)}: sequence {sequence} was used for other content")


class TransactionError(InvalidRequest):
    code = "INVALID_TXN_STATE"


class UnknownTransaction(TransactionError):
    code = "TRANSACTIONAL_ID_NOT_FOUND"

    def __init__(self, transaction: str) -> None:
        self.transaction = transaction
        super().__init__(f"there never was a transaction {quoted(transaction)}")


class TransactionFenced(TransactionError):
    code = "PRODUCER_FENCED"

    def __init__(self, transaction: str, current: int) -> None:
        self.transaction, self.current = transaction, current
        super().__init__(f"transaction {transaction} was aborted: epoch {current} of its transactional id was opened")


class TransactionTimedOut(TransactionError):
    code = "TRANSACTION_TIMED_OUT"

    def __init__(self, transaction: str) -> None:
        self.transaction = transaction
        super().__init__(f"transaction {transaction} was aborted: it took longer than it may")


class TransactionAborted(TransactionError):
    code = "TRANSACTION_ABORTED"

    def __init__(self, transaction: str, why: str) -> None:
        self.transaction, self.why = transaction, why
        super().__init__(f"transaction {transaction} was aborted: {why}")


class TransactionDecided(TransactionError):
    def __init__(self, transaction: str, state: str) -> None:
        self.transaction, self.state = transaction, state
        super().__init__(f"transaction {transaction} is {state}")


class TransactionTooLarge(TransactionError):
    code = "TRANSACTION_TOO_LARGE"

    def __init__(self, transaction: str, what: str, size: int, limit: int) -> None:
        self.transaction, self.what, self.size, self.limit = transaction, what, size, limit
        super().__init__(f"transaction {transaction} would have {size}, and {what} is {limit}; nothing was added to it")


class VersionDecided(TransactionError):
    code = "TRANSACTION_VERSION_DECIDED"

    def __init__(self, transactional_id: str, version: int, decided: int) -> None:
        self.transactional_id, self.version, self.decided = transactional_id, version, decided
        super().__init__(
            f"{quoted(transactional_id)} has committed version {decided}: version {version} is not taken again"
        )


class UnknownStage(TransactionError):
    code = "UNKNOWN_TRANSACTION_STAGE"

    def __init__(self, transaction: str, stage: str) -> None:
        self.transaction, self.stage = transaction, stage
        super().__init__(f"transaction {transaction} has no stage {quoted(stage)}; it is open as before")


class InvalidTransactionTimeout(TransactionError):
    code = "INVALID_TRANSACTION_TIMEOUT"

    def __init__(self, timeout_ms: object, limit: int) -> None:
        self.timeout_ms, self.limit = timeout_ms, limit
        super().__init__(f"a transaction cannot take {quoted(timeout_ms)} ms: it takes 1 to {limit}")


class NotAvailable(LakelogError):
    code = "NOT_AVAILABLE"
    retriable = True


class Overloaded(NotAvailable):
    code = "THROTTLING_QUOTA_EXCEEDED"

    def __init__(self, what: str, held: int, limit: int, of: str = "bytes wait") -> None:
        self.what, self.held, self.limit = what, held, limit
        super().__init__(f"{what}: {held} {of}, the limit is {limit}; try again")


class TopicClosed(NotAvailable):
    code = "KAFKA_STORAGE_ERROR"
    retriable = False

    def __init__(self, topic: str, why: str, cure: str = "") -> None:
        self.topic, self.why, self.cure = topic, why, cure
        super().__init__(f"topic {quoted(topic)} is closed: {why}" + (f"; {cure}" if cure else ""))


class RootInUse(NotAvailable):
    code = "ROOT_IN_USE"

    def __init__(self, root: str, owner: str, cure: str = "stop that process, or ask it") -> None:
        self.root, self.owner = root, owner
        super().__init__(f"{root} is being written by {owner}; {cure}")


class NotOwner(NotAvailable):
    code = "NOT_LEADER_OR_FOLLOWER"
    retriable = False

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"this process no longer owns the root: {why}")


class ReadOnly(NotAvailable):
    code = "READ_ONLY"
    retriable = False

    def __init__(self) -> None:
        super().__init__("the root was opened read-only")


class Closed(NotAvailable):
    code = "CLOSED"
    retriable = False

    def __init__(self) -> None:
        super().__init__("the log is closed")


class PredecessorFailed(NotAvailable):
    """A request that this one depended on was refused, for reasons of its own. This one may be retried."""

    def __init__(self, why: object) -> None:
        self.why = why
        super().__init__(f"what was stored before it was refused: {tell(why)}; try again")


class StorageRefused(NotAvailable):
    code = "KAFKA_STORAGE_ERROR"

    def __init__(self, what: str, why: object, *, by: str = " by the store") -> None:
        self.what, self.why = what, why
        super().__init__(f"{what} was refused{by}: {tell(why)}")


class DiskFull(StorageRefused):
    """The disk has no space left, or only the reserve for operations that free space."""


def is_full(error: OSError, *, by_quota: bool = False) -> bool:
    """True if a system call failed for lack of space; with `by_quota`, only if a quota was exhausted."""
    return error.errno == errno.EDQUOT or (not by_quota and error.errno == errno.ENOSPC)


def refusal_of(what: str, error: OSError) -> StorageRefused:
    """Convert a system error after which certainly nothing is stored."""
    return DiskFull(what, error) if is_full(error) else StorageRefused(what, error)


class NotARoot(LakelogError):
    code = "NOT_A_ROOT"

    def __init__(self, root: str, why: str) -> None:
        self.root, self.why = root, why
        super().__init__(f"{root} cannot be opened as a lakelog root: {why}")


class Corruption(LakelogError):
    code = "CORRUPT_MESSAGE"

    def __init__(self, file: str, why: str) -> None:
        self.file, self.why = file, why
        super().__init__(f"{file} is damaged: {why}")


class PlanOutdated(LakelogError):
    code = "PLAN_OUTDATED"
    retriable = True

    def __init__(self, table: str, why: str) -> None:
        self.table, self.why = table, why
        super().__init__(f"{table} changed under the plan: {why}")


class OutcomeUnknown(LakelogError):
    code = "OUTCOME_UNKNOWN"
    retriable = True
    outcome = "unknown"

    def __init__(self, what: str, why: object) -> None:
        self.what, self.why = what, why
        super().__init__(f"{what}: it is unknown whether it was stored ({tell(why)})")
