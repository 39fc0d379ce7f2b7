"""The AsyncAdmin: topics, their settings, and groups, for one event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition
from lakelog.groups.requests import End, GroupQuestions, Offset, Partition
from lakelog.groups.shapes import GroupDescription, GroupListing, OffsetReset
from lakelog.topics.requests import ConfigValue, TopicQuestions
from lakelog.topics.settings import AdminSettings
from lakelog.topics.shapes import Batch, ConfigEntry, PartitionOffsets, TopicDescription
from lakelog.transport.exchange import AsyncTransport
from lakelog.transport.http import AsyncHttpTransport
from lakelog.transport.retry import run_async

_CONNECTIONS = 4


class AsyncAdmin:
    """The Admin for one event loop: the same settings, the same methods."""

    def __init__(self, settings: Mapping[str, object], *, transport: AsyncTransport | None = None) -> None:
        chosen = AdminSettings.of(settings)
        self._topics = TopicQuestions(chosen.patience)
        self._groups = GroupQuestions(chosen.patience)
        self._transport = transport or AsyncHttpTransport(chosen.bootstrap_servers, chosen.client_id, _CONNECTIONS)

    async def list_topics(self) -> list[str]:
        """The names of all topics, without internal ones."""
        return await run_async(self._topics.list_topics(), self._transport)

    async def describe_topic(self, topic: str) -> TopicDescription:
        return await run_async(self._topics.describe_topic(topic), self._transport)

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
        exist_ok: bool = False,
    ) -> TopicDescription:
        """Create a topic; missing arguments get the server's defaults.

        Raises TopicExists if it exists already; with `exist_ok` only if it differs from the arguments.
        """
        return await run_async(
            self._topics.create_topic(topic, partitions, configs, exist_ok=exist_ok), self._transport
        )

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic with all of its records."""
        await run_async(self._topics.delete_topic(topic), self._transport)

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions to `partitions`. Keys may map to other partitions from then on."""
        await run_async(self._topics.add_partitions(topic, partitions), self._transport)

    async def describe_configs(self, topic: str) -> dict[str, ConfigEntry]:
        """Settings of a topic, each with the source of its value."""
        return await run_async(self._topics.describe_configs(topic), self._transport)

    async def alter_configs(self, topic: str, configs: Mapping[str, ConfigValue]) -> None:
        """Change these settings, all or none; None resets one to its default."""
        await run_async(self._topics.alter_configs(topic, configs), self._transport)

    async def offsets(self, topic: str, partition: int, *, timestamp: int | None = None) -> PartitionOffsets:
        """Offsets at which a partition begins and ends, and its first offset at or after a time."""
        return await run_async(self._topics.offsets(topic, partition, timestamp), self._transport)

    async def batches(self, topic: str, partition: int, *, offset: int = 0) -> list[Batch]:
        """The files of a partition's table that have records from an offset on, in their order."""
        return await run_async(self._topics.batches(topic, partition, offset), self._transport)

    async def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Move the log start offset up to an offset; -1 means the end. Returns the new log start offset."""
        return await run_async(self._topics.delete_records(topic, partition, before_offset), self._transport)

    async def list_groups(self) -> list[GroupListing]:
        """List the groups."""
        return await run_async(self._groups.list_groups(), self._transport)

    async def describe_group(self, group: str) -> GroupDescription:
        """Members of a group, and its progress in each partition that it reads or has read."""
        return await run_async(self._groups.describe_group(group), self._transport)

    async def group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets of a group."""
        return await run_async(self._groups.group_offsets(group), self._transport)

    async def lag(self, group: str) -> dict[TopicPartition, int | None]:
        """Number of records that the group is behind in each partition; None if unknown."""
        return await run_async(self._groups.lag(group), self._transport)

    async def alter_group_offsets(self, group: str, offsets: Mapping[Partition, Offset]) -> None:
        """Set the next offsets to read, all or none, of a group without readers. A missing group is created."""
        await run_async(self._groups.alter_group_offsets(group, offsets), self._transport)

    async def reset_group_offsets(
        self,
        group: str,
        *,
        to: End | None = None,
        timestamp: int | None = None,
        offset: int | None = None,
        shift: int | None = None,
        topics: Sequence[str] | None = None,
        partitions: Iterable[Partition] | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, OffsetReset]:
        """Set offsets by exactly one of `to`, `timestamp`, `offset`, or `shift` records on or back, inside the log.

        For all partitions of `topics`, or for `partitions`, or for all that the group has committed.
        """
        return await run_async(
            self._groups.reset_group_offsets(
                group,
                to=to,
                timestamp=timestamp,
                offset=offset,
                shift=shift,
                topics=topics,
                partitions=partitions,
                dry_run=dry_run,
            ),
            self._transport,
        )

    async def delete_group(self, group: str) -> None:
        """Delete a group with its offsets; it must have no members."""
        await run_async(self._groups.delete_group(group), self._transport)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
