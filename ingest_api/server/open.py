"""Opens the log and the consumer groups of a server, according to its settings."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from consumer_groups.coordinator.coordinator import Coordinator
from delta_log import Limits, Log, Settings
from delta_log.model.errors import StorageRefused
from delta_log.model.transaction_bounds import Bounds
from delta_log.runtime.clock import wall_clock_ms
from ingest_api.config.settings import ServerSettings
from ingest_api.http1 import WireLimits

_log = logging.getLogger("lakelog.server")
_MS: Final = 1000


class CannotOpen(Exception):
    """The data directory cannot be used, for the reason in the message."""

    code: Final = "NOT_A_ROOT"

    def __init__(self, place: str, reason: object) -> None:
        super().__init__(f"the data directory {place} cannot be used: {reason}")


class Opened(NamedTuple):
    log: Log
    groups: Coordinator


async def open_all(settings: ServerSettings, threads: Executor, open_log: Callable[[ServerSettings], Log]) -> Opened:
    """Open the log and its groups, or neither."""
    loop = asyncio.get_running_loop()
    log = await loop.run_in_executor(threads, open_log, settings)
    try:
        return Opened(log, await open_groups(log, settings))
    except BaseException:
        await loop.run_in_executor(threads, log.close)
        raise


async def open_groups(log: Log, settings: ServerSettings) -> Coordinator:
    return await Coordinator.open(
        log,
        wall_clock_ms,
        lambda: f"lakelog-{uuid.uuid4()}",
        custom_assignors=settings.assignors,
        retention_ms=settings.offsets_retention_ms,
    )


async def close_groups(groups: Coordinator) -> None:
    """Close the groups; call it before the log is closed."""
    if not await groups.close():
        _log.error("what the groups decided last may not be stored; the next start finds what is")


def open_log_of(settings: ServerSettings) -> Log:
    """Open the log that these settings name."""
    place = "memory://" if settings.memory else settings.data
    if settings.store_option and "://" not in place:
        _log.warning("store_option is not used: %s is a directory", place)
    if os.path.lexists(place) and not os.path.isdir(place):  # noqa: PTH112 - a place may be no path at all
        raise CannotOpen(place, "it is no directory")
    try:
        return Log.open(place, settings=log_settings(settings), store_options=dict(settings.store_option))
    except (OSError, StorageRefused) as error:
        raise CannotOpen(place, _reason(error)) from error


def log_settings(settings: ServerSettings) -> Settings:
    limits = Limits(
        memory_bytes=settings.untabled_memory_bytes,
        topic_bytes=settings.untabled_topic_bytes,
        total_bytes=settings.untabled_total_bytes,
    )
    return Settings(
        topic_defaults=settings.topic_defaults,
        limits=limits,
        tail_bytes=settings.tail_bytes,
        table_workers=settings.table_workers,
        journal_linger_ms=settings.journal_linger_ms,
        ballast_bytes=settings.ballast_bytes,
        files_per_second=float(settings.files_per_second),
        producer_expiration_ms=settings.producer_id_expiration_ms,
        max_partitions_per_topic=settings.max_partitions_per_topic,
        max_partitions=settings.max_partitions,
        transactions=Bounds(
            timeout_ms=min(Bounds().timeout_ms, settings.transaction_max_timeout_ms),
            most_timeout_ms=settings.transaction_max_timeout_ms,
            most_bytes=settings.transaction_max_bytes,
            expiration_ms=settings.transactional_id_expiration_ms,
        ),
        max_block_s=0.0,  # backpressure is a retriable 503 at once, without blocking
    )


def wire_limits(settings: ServerSettings) -> WireLimits:
    return WireLimits(
        head_bytes=settings.max_head_bytes,
        head_fields=settings.max_head_fields,
        idle_first_s=settings.first_request_timeout_ms / _MS,
        head_s=settings.head_timeout_ms / _MS,
        body_grace_s=settings.body_timeout_ms / _MS,
        body_bytes_per_s=settings.min_body_bytes_per_second,
        body_deadline_s=settings.body_deadline_ms / _MS,
        keep_alive_s=settings.keep_alive_timeout_ms / _MS,
        write_stall_s=settings.write_timeout_ms / _MS,
        connections=settings.max_connections,
    )


def _reason(error: Exception) -> object:
    """Return the system's message of an error, also of a wrapped one."""
    said = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return (said.strerror if isinstance(said, OSError) else None) or error
