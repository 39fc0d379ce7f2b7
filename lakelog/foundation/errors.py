"""Errors of the clients, and what each means for the caller.

    LakelogError
    ├── InvalidSetting            an unknown setting, or an invalid value
    ├── Refused                   it can never succeed unchanged; nothing was stored or changed
    │   ├── InvalidName           a topic that cannot have this name
    │   ├── InvalidRecord         a record that breaks a rule, of the client or of its topic
    │   │   ├── NotSerializable   its key or value cannot be serialized
    │   │   └── RecordTooLarge    more than max.request.size, or than the topic allows
    │   ├── SharedBatch           a good record, sent together with too many bad ones
    │   ├── ForeignAnswer         a refusal that no lakelog server wrote
    │   ├── UnknownTopic
    │   ├── UnknownPartition
    │   ├── OffsetOutOfRange      knows the valid range
    │   ├── TopicExists
    │   ├── InvalidConfig         a setting of a topic, or a number of partitions, that cannot be
    │   ├── ProducerFenced        another producer uses this producer's id
    │   ├── TransactionError      a transaction of which nothing is stored, and nothing ever will be
    │   │   ├── TransactionAborted    by its producer, or by a restart of the server
    │   │   ├── TransactionFenced     a later one was begun under its transactional.id
    │   │   ├── TransactionTimedOut   it took longer than transaction.timeout.ms
    │   │   ├── TransactionTooLarge   it would have more than the server takes
    │   │   └── UnknownTransaction    the server never had it
    │   ├── InvalidGroup          a group that cannot have this name
    │   ├── UnknownGroup
    │   ├── GroupNotEmpty         not while members read
    │   ├── IllegalState          impossible in this state: no subscription, a partition that is not assigned
    │   ├── NoOffset              nothing is committed, and auto.offset.reset is none
    │   ├── NotDeserializable     a record whose key or value its deserializer cannot read
    │   ├── ConcurrentUse         another thread, or task, is using the consumer
    │   └── Fenced                the group went on without this consumer
    │       ├── CommitFailed      other members may read the same records again
    │       └── FencedInstance    another member took its group.instance.id
    ├── NotAvailable              not now; nothing was stored or changed
    │   ├── Unreachable           no connection could be made
    │   ├── NotDelivered          delivery.timeout.ms or retries were used up
    │   ├── BufferFull            no room in buffer.memory within max.block.ms
    │   └── Closed                the client was closed, or this process is a fork of the one that opened it
    ├── OutcomeUnknown            it may or may not have been done
    ├── WokenUp                   wakeup() was called
    └── StillUnderWay             a wait of flush() is over before everything is delivered; nothing is lost

`outcome` is what a caller may conclude: `not_attempted` means that nothing was stored and never will be.

Longer than 300 lines, because a tree is best read in one place.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple


class Said(NamedTuple):
    """The server's answer; `request_id` finds it in the server's log."""

    status: int
    error_code: int
    message: str
    request_id: str | None = None


class LakelogError(Exception):
    """The root of the tree; `code` is stable, and Kafka's where Kafka has one. `said` is the server's answer."""

    code: ClassVar[str] = "LAKELOG_ERROR"
    retriable: bool = False
    outcome: ClassVar[str] = "not_attempted"

    def __init__(self, message: str, *, said: Said | None = None) -> None:
        super().__init__(message)
        self.said = said


class InvalidSetting(LakelogError):
    code = "INVALID_CONFIG"

    def __init__(self, setting: str, why: str) -> None:
        self.setting, self.why = setting, why
        super().__init__(f"{setting}: {why}")


class Refused(LakelogError):
    code = "INVALID_REQUEST"


class ForeignAnswer(Refused):
    """Refused by a proxy, or by another program at that address."""

    code = "FOREIGN_ANSWER"

    def __init__(self, status: int, text: str, *, said: Said | None = None) -> None:
        self.status, self.text = status, text
        super().__init__(f"{status} was the answer, and no lakelog server wrote it: {text or 'it is empty'}", said=said)


class InvalidName(Refused):
    code = "INVALID_TOPIC_EXCEPTION"

    def __init__(self, topic: str) -> None:
        self.topic = topic
        shown = topic if len(topic) <= 255 else topic[:255] + "…"  # noqa: PLR2004 - more than any name has
        super().__init__(
            f"{shown!r} cannot be a topic: a name has 1 to 249 of A-Z a-z 0-9 . _ - and does not begin with a dot or -"
        )


class InvalidRecord(Refused):
    code = "INVALID_RECORD"

    def __init__(self, topic: str, why: str, *, said: Said | None = None) -> None:
        self.topic, self.why = topic, why
        super().__init__(f"a record for {topic}: {why}", said=said)


class NotSerializable(InvalidRecord):
    code = "SERIALIZATION_ERROR"


class RecordTooLarge(InvalidRecord):
    code = "MESSAGE_TOO_LARGE"

    def __init__(self, topic: str, size: int, limit: int, *, said: Said | None = None) -> None:
        self.size, self.limit = size, limit
        whose = "max.request.size" if said is None else "max.message.bytes of the topic"
        super().__init__(topic, f"{size} bytes are more than {whose}, {limit}", said=said)


class SharedBatch(Refused):
    code = "INVALID_RECORD"

    def __init__(self, topic: str, said: Said | None) -> None:
        self.topic = topic
        super().__init__(f"a record for {topic} was sent together with too many that were refused", said=said)


class UnknownTopic(Refused):
    code = "UNKNOWN_TOPIC_OR_PARTITION"


class UnknownPartition(Refused):
    code = "UNKNOWN_TOPIC_OR_PARTITION"


class OffsetOutOfRange(Refused):
    """An offset outside the log; fields are None if the server's answer lacks them."""

    code = "OFFSET_OUT_OF_RANGE"

    def __init__(
        self,
        message: str,
        *,
        log_start_offset: int | None = None,
        end_offset: int | None = None,
        said: Said | None = None,
    ) -> None:
        self.log_start_offset, self.end_offset = log_start_offset, end_offset
        super().__init__(message, said=said)


class TopicExists(Refused):
    code = "TOPIC_ALREADY_EXISTS"


class InvalidConfig(Refused):
    code = "INVALID_CONFIG"


class ProducerFenced(Refused):
    code = "INVALID_PRODUCER_EPOCH"


class TransactionError(Refused):
    """The transaction failed; the work can be repeated in a new one, unless the producer is fenced."""

    code = "INVALID_TXN_STATE"


class TransactionAborted(TransactionError):
    code = "TRANSACTION_ABORTED"


class TransactionFenced(TransactionError):
    code = "PRODUCER_FENCED"


class TransactionTimedOut(TransactionError):
    code = "TRANSACTION_TIMED_OUT"


class TransactionTooLarge(TransactionError):
    """A transaction above the server's limit; fields are None if the server's answer lacks them."""

    code = "TRANSACTION_TOO_LARGE"

    def __init__(
        self, message: str, *, size: int | None = None, limit: int | None = None, said: Said | None = None
    ) -> None:
        self.size, self.limit = size, limit
        super().__init__(message, said=said)


class UnknownTransaction(TransactionError):
    code = "TRANSACTIONAL_ID_NOT_FOUND"


class InvalidGroup(Refused):
    code = "INVALID_GROUP_ID"

    def __init__(self, group: object) -> None:
        self.group = group
        super().__init__(f"{repr(group)[:100]} cannot be a group: a name has 1 to 255 bytes of UTF-8")


class UnknownGroup(Refused):
    code = "GROUP_ID_NOT_FOUND"


class GroupNotEmpty(Refused):
    code = "NON_EMPTY_GROUP"


class IllegalState(Refused):
    code = "ILLEGAL_STATE"


class NoOffset(Refused):
    """No offset to begin at: seek, or commit one. Fields are None if the server's answer lacks them."""

    code = "NO_OFFSET_FOR_PARTITION"

    def __init__(
        self, message: str, *, topic: str | None = None, partition: int | None = None, said: Said | None = None
    ) -> None:
        self.topic, self.partition = topic, partition
        super().__init__(message, said=said)


class NotDeserializable(Refused):
    """A record that cannot be deserialized; `record` is as it arrived. Seek past its offset to skip it."""

    code = "SERIALIZATION_ERROR"

    def __init__(self, what: str, record: Any, why: object) -> None:
        self.what, self.record = what, record
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        super().__init__(f"the {what} of {self.topic}-{self.partition} at {self.offset} cannot be read: {why}")


class ConcurrentUse(Refused):
    code = "CONCURRENT_MODIFICATION"


class Fenced(Refused):
    code = "FENCED_MEMBER_EPOCH"


class CommitFailed(Fenced):
    code = "COMMIT_FAILED"


class FencedInstance(Fenced):
    code = "FENCED_INSTANCE_ID"

    def __init__(self, group_instance_id: str, *, said: Said | None = None) -> None:
        self.group_instance_id = group_instance_id
        super().__init__(f"another consumer took the group.instance.id {group_instance_id!r}", said=said)


class NotAvailable(LakelogError):
    """Temporarily impossible. `retriable` is from the server: a closed topic does not open by itself."""

    code = "NOT_AVAILABLE"
    retriable = True

    def __init__(self, message: str, *, said: Said | None = None, retriable: bool | None = None) -> None:
        super().__init__(message, said=said)
        if retriable is not None:
            self.retriable = retriable


class Unreachable(NotAvailable):
    code = "NETWORK_EXCEPTION"

    def __init__(self, address: str, why: object) -> None:
        self.address, self.why = address, why
        super().__init__(f"{address} cannot be reached: {why}")


class NotDelivered(NotAvailable):
    code = "REQUEST_TIMED_OUT"

    def __init__(self, topic: str, seconds: float, attempts: int, last: LakelogError | None) -> None:
        self.topic, self.seconds, self.attempts, self.last = topic, seconds, attempts, last
        because = f"; the last attempt of {attempts}: {last}" if last else ""
        self.why = f"given up after {seconds:.3g} s{because}"
        super().__init__(
            f"a record for {topic} was given up after {seconds:.3g} s, and is not stored{because}",
            said=last.said if last else None,
        )


class BufferFull(NotAvailable):
    code = "BUFFER_EXHAUSTED"

    def __init__(self, seconds: float, limit: int) -> None:
        self.seconds, self.limit = seconds, limit
        super().__init__(f"no room within {seconds:.3g} s: records of buffer.memory={limit} bytes are under way")


class Closed(NotAvailable):
    code = "CLOSED"
    retriable = False

    def __init__(self, why: str = "it was closed") -> None:
        self.why = why
        super().__init__(f"the client cannot be used any more: {why}")


class OutcomeUnknown(LakelogError):
    code = "OUTCOME_UNKNOWN"
    retriable = True
    outcome = "unknown"

    def __init__(self, what: str, why: object, *, said: Said | None = None) -> None:
        self.what, self.why = what, why
        super().__init__(f"{what}: it is unknown whether it was done ({why})", said=said)


class WokenUp(LakelogError):
    code = "WAKEUP"
    retriable = True

    def __init__(self) -> None:
        super().__init__("somebody called wakeup()")


class StillUnderWay(LakelogError, TimeoutError):
    code = "REQUEST_TIMED_OUT"
    retriable = True
    outcome = "unknown"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"records are still under way after {seconds:.3g} s")
