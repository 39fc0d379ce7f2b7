"""What `transaction()` of a Producer and of an AsyncProducer returns: a block that is stored whole, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakelog.consume.shapes import GroupOffsets
from lakelog.consume.subscription import Offset, Partition, read_offsets
from lakelog.foundation.errors import IllegalState
from lakelog.transactions.lifecycle import TransactionLifecycle
from lakelog.transactions.tasks import AsyncTransacting
from lakelog.transactions.threads import Transacting

if TYPE_CHECKING:
    from lakelog.async_consumer import AsyncConsumer
    from lakelog.consumer import Consumer


class Transaction:
    """A transaction as a block: records and offsets sent in it become visible together, or never."""

    def __init__(self, transacting: Transacting) -> None:
        self._transacting = transacting
        self._course: TransactionLifecycle[Any] | None = None

    def send_offsets(
        self, group_or_consumer: str | Consumer | AsyncConsumer, offsets: Mapping[Partition, Offset] | None = None
    ) -> None:
        """Commit a group's offsets with the transaction: by default behind what the consumer's polls returned.

        For a consumer, while it has the partitions; for a named group, the given offsets, while the group has no
        readers.
        """
        self._transacting.move_offsets(_begun(self._course), _read(group_or_consumer, offsets))

    def __enter__(self) -> Self:
        if self._course is not None:
            raise IllegalState("a transaction is entered once")
        self._course = self._transacting.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transacting.leave(_begun(self._course), error)


class AsyncTransaction:
    """The Transaction of an AsyncProducer, for one event loop."""

    def __init__(self, transacting: AsyncTransacting) -> None:
        self._transacting = transacting
        self._course: TransactionLifecycle[Any] | None = None

    async def send_offsets(
        self, group_or_consumer: str | Consumer | AsyncConsumer, offsets: Mapping[Partition, Offset] | None = None
    ) -> None:
        """Commit a group's offsets with the transaction: by default behind what the consumer's polls returned."""
        await self._transacting.move_offsets(_begun(self._course), _read(group_or_consumer, offsets))

    async def __aenter__(self) -> Self:
        if self._course is not None:
            raise IllegalState("a transaction is entered once")
        self._course = await self._transacting.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transacting.leave(_begun(self._course), error)


def _begun(course: TransactionLifecycle[Any] | None) -> TransactionLifecycle[Any]:
    if course is None:
        raise IllegalState("a transaction begins when its block is entered")
    return course


def _read(
    group_or_consumer: str | Consumer | AsyncConsumer, offsets: Mapping[Partition, Offset] | None
) -> GroupOffsets:
    if not isinstance(group_or_consumer, str):
        return group_or_consumer.group_offsets(offsets)
    given = read_offsets(offsets)
    if given is None:
        raise IllegalState("of a group that is named, the offsets must be given")
    return GroupOffsets(group_or_consumer, None, None, given)
