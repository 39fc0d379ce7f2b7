"""The AsyncProducer: hands a caller's records to tasks that send them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from lakelog.foundation.errors import IllegalState
from lakelog.produce.batch import RecordMetadata
from lakelog.produce.futures import OnDelivery
from lakelog.produce.partitions import Partitions, partitions_of
from lakelog.produce.rows import Headers, Row, RowMaker
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.tasks import AsyncSender
from lakelog.transaction import AsyncTransaction
from lakelog.transactions.tasks import AsyncTransacting
from lakelog.transport.exchange import AsyncTransport
from lakelog.transport.http import AsyncHttpTransport
from lakelog.transport.retry import run_async


class AsyncProducer:
    """The Producer for one event loop, with the same settings and guarantees."""

    def __init__(self, settings: Mapping[str, object], *, transport: AsyncTransport | None = None) -> None:
        chosen = ProducerSettings.of(settings)
        self._rows = RowMaker(chosen.key_serializer, chosen.value_serializer, chosen.max_request_size)
        self._partitions = partitions_of(chosen)
        connections = chosen.max_in_flight_requests_per_connection + 1
        self._transport = transport or AsyncHttpTransport(chosen.bootstrap_servers, chosen.client_id, connections)
        self._sender = AsyncSender(chosen, self._transport)
        self._transacting = None if chosen.transactional_id is None else AsyncTransacting(chosen, self._transport)

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Add a record to the next batch of its topic; the returned future is resolved when its batch is decided.

        Waits while the buffer is full, up to `max.block.ms`. A record that can never be stored is refused here.
        """
        row, size = self._rows.make(topic, value, key, partition, timestamp, headers)
        if self._partitions is not None and partition is None:
            await self._place(self._partitions, topic, row)
        taker = self._sender if self._transacting is None else self._transacting
        return await taker.add(topic, row, size, on_delivery)

    def transaction(self) -> AsyncTransaction:
        """Like the Producer's, for `async with`."""
        if self._transacting is None:
            raise IllegalState("a transaction needs the setting transactional.id")
        return AsyncTransaction(self._transacting)

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in the Producer
        """Wait until all records sent before are decided and their callbacks called; StillUnderWay after `timeout`."""
        if self._transacting is not None:
            await self._transacting.flush()
        await self._sender.flush(timeout)

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as in the Producer
        """Deliver all records, and end.

        Records not decided within `timeout` seconds are given up: the error in their futures tells whether they may be
        stored.
        """
        if self._transacting is not None:
            await self._transacting.close()
        await self._sender.close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _place(self, partitions: Partitions, topic: str, row: Row) -> None:
        now = asyncio.get_running_loop().time()
        if not partitions.place(topic, row, now):
            await run_async(partitions.learn(topic, now), self._transport)
            partitions.place_anyhow(topic, row)
