"""Errors of groups, and their meaning for the caller.

    LakelogError
    ├── InvalidRequest                  nothing was stored and never will be
    │   ├── InvalidConfig
    │   │   └── InvalidOption           42204  an option of a consumer that there is not, or an unusable value
    │   └── GroupError
    │       ├── UnknownInstance         40403  never created, deleted, expired, or replaced by its successor
    │       ├── NameTaken               40902  the name belongs to another instance
    │       ├── Fenced                  40904  the caller is not, or no longer, the member or owner it claims to be
    │       │   ├── StaleGeneration            a generation that ended for this member, or that never was
    │       │   ├── PartitionNotOwned          the partition has another owner, or none
    │       │   └── PollOverdue                it did not poll in time, so others have its partitions
    │       ├── IllegalState            40903  not possible in the current state
    │       │   ├── MixedSubscription          topics, a pattern and an assignment exclude each other
    │       │   ├── DeliveryForgotten          committing what was delivered before a restart, without naming offsets
    │       │   └── NotAssigned                seeking in a partition that is not assigned
    │       ├── InvalidPattern          42205  not a regular expression of RE2
    │       ├── InvalidOffset           42206  outside of the log, or not an offset
    │       │   └── NotOpen                    a dead letter outside of the log, or one that the group has passed
    │       ├── MetadataTooLarge        42207
    │       ├── NoOffset                40905  nothing is committed and auto.offset.reset is none
    │       ├── UnknownGroup            40404
    │       └── GroupNotEmpty           40906  refused while it has members
    └── NotAvailable
        └── PartitionUnavailable        503    its log cannot be read now; nothing was stored

The numbers are the error codes that a client receives. `outcome` is `not_attempted` throughout.
"""

from __future__ import annotations

from delta_log.model.errors import InvalidConfig, InvalidRequest, NotAvailable
from delta_log.model.quoting import quoted


class InvalidOption(InvalidConfig):
    """An invalid option of a consumer; has `setting`, `value` and `rule`."""


class GroupError(InvalidRequest):
    """Base of refusals by a group; `group` is its name."""

    code = "INVALID_GROUP_REQUEST"

    def __init__(self, group: str, message: str) -> None:
        self.group = group
        super().__init__(message)


class UnknownInstance(GroupError):
    code = "UNKNOWN_MEMBER_ID"

    def __init__(self, group: str, member_id: str) -> None:
        self.member_id = member_id
        super().__init__(group, f"group {quoted(group)} has no consumer instance {quoted(member_id)}")


class NameTaken(GroupError):
    code = "MEMBER_ID_TAKEN"

    def __init__(self, group: str, member_id: str) -> None:
        self.member_id = member_id
        super().__init__(group, f"group {quoted(group)} already has a consumer instance {quoted(member_id)}")


class Fenced(GroupError):
    code = "FENCED_MEMBER_EPOCH"


class StaleGeneration(Fenced):
    code = "ILLEGAL_GENERATION"

    def __init__(self, group: str, member_id: str, received: int, current: int) -> None:
        self.member_id, self.received, self.generation = member_id, received, current
        super().__init__(
            group,
            f"{quoted(member_id)} asks with generation {received}, which is not its own:"
            f" {quoted(group)} is at {current}",
        )


class PartitionNotOwned(Fenced):
    code = "NOT_PARTITION_OWNER"

    def __init__(self, group: str, member_id: str, topic: str, partition: int, generation: int) -> None:
        self.member_id, self.topic, self.partition, self.generation = member_id, topic, partition, generation
        super().__init__(
            group,
            f"{topic}-{partition} does not belong to {quoted(member_id)} in generation {generation} of {quoted(group)}",
        )


class PollOverdue(Fenced):
    code = "MAX_POLL_INTERVAL_EXCEEDED"

    def __init__(self, group: str, member_id: str, max_poll_interval_ms: int, generation: int) -> None:
        self.member_id, self.max_poll_interval_ms, self.generation = member_id, max_poll_interval_ms, generation
        super().__init__(
            group,
            f"{quoted(member_id)} did not poll within max.poll.interval.ms={max_poll_interval_ms}, so its partitions"
            f" went to others of {quoted(group)}; its next poll brings it back",
        )


class IllegalState(GroupError):
    code = "ILLEGAL_STATE"

    def __init__(self, group: str, member_id: str, why: str) -> None:
        self.member_id, self.why = member_id, why
        super().__init__(group, f"{quoted(member_id)} of {quoted(group)}: {why}")


class MixedSubscription(IllegalState):
    """Topics, a pattern and an assignment exclude each other; `unsubscribe` ends each."""


class DeliveryForgotten(IllegalState):
    """The deliveries were in the memory of a process that is gone; the member's next poll repeats them."""

    def __init__(self, group: str, member_id: str) -> None:
        super().__init__(
            group,
            member_id,
            "the server was started anew, and does not know what it delivered before; poll, then commit",
        )


class NotAssigned(IllegalState):
    def __init__(self, group: str, member_id: str, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        super().__init__(group, member_id, f"{topic}-{partition} is not assigned to it")


class InvalidPattern(GroupError):
    code = "INVALID_REGULAR_EXPRESSION"

    def __init__(self, group: str, pattern: str, why: str) -> None:
        self.pattern, self.why = pattern, why
        super().__init__(group, f"{quoted(pattern)} is no regular expression: {why}")


class InvalidOffset(GroupError):
    """Offset out of range; has the range that may be committed."""

    code = "OFFSET_OUT_OF_RANGE"

    def __init__(self, group: str, topic: str, partition: int, offset: object, least: int, most: int) -> None:
        self.topic, self.partition, self.offset, self.least, self.most = topic, partition, offset, least, most
        super().__init__(
            group,
            f"offset {quoted(offset)} of {topic}-{partition} is out of range: the next to read is {least} to {most}",
        )


class NotOpen(InvalidOffset):
    """Offset that cannot be a dead letter; has the range of those that can."""

    def __init__(self, group: str, topic: str, partition: int, offset: int, least: int, most: int) -> None:
        super().__init__(group, topic, partition, offset, least, most)
        what = f"offset {offset} of {topic}-{partition} cannot be a dead letter of {quoted(group)}"
        self.args = (f"{what}: what the group has not passed is {least} to {most}",)


class MetadataTooLarge(GroupError):
    code = "OFFSET_METADATA_TOO_LARGE"

    def __init__(self, group: str, topic: str, partition: int, size: int | None, limit: int) -> None:
        self.topic, self.partition, self.size, self.limit = topic, partition, size, limit
        what = f"of {size} bytes is too large" if size is not None else "is not UTF-8"
        super().__init__(group, f"metadata of {topic}-{partition} {what}: the limit is {limit} bytes of UTF-8")


class NoOffset(GroupError):
    code = "NO_OFFSET_FOR_PARTITION"

    def __init__(self, group: str, topic: str, partition: int, position: int | None) -> None:
        self.topic, self.partition, self.position = topic, partition, position
        has = "no offset" if position is None else f"offset {position}, which is out of range"
        super().__init__(group, f"{quoted(group)} has {has} for {topic}-{partition}, and auto.offset.reset is none")


class UnknownGroup(GroupError):
    code = "GROUP_ID_NOT_FOUND"

    def __init__(self, group: str) -> None:
        super().__init__(group, f"there is no group {quoted(group)}")


class GroupNotEmpty(GroupError):
    code = "NON_EMPTY_GROUP"

    def __init__(self, group: str, members: int) -> None:
        self.members = members
        super().__init__(
            group, f"group {quoted(group)} has {members} active members; this can be done when they have left"
        )


class PartitionUnavailable(NotAvailable):
    code = "KAFKA_STORAGE_ERROR"

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        super().__init__(f"{topic}-{partition} cannot be read now; try again")
