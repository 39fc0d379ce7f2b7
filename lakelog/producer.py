"""The Producer: hands a caller's records to threads that send them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from time import monotonic
from types import TracebackType
from typing import Any, Self

from lakelog.foundation.errors import IllegalState
from lakelog.produce.futures import OnDelivery, RecordFuture
from lakelog.produce.partitions import Partitions, partitions_of
from lakelog.produce.rows import Headers, Row, RowMaker
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.threads import Sender
from lakelog.transaction import Transaction
from lakelog.transactions.threads import Transacting
from lakelog.transport.exchange import Transport
from lakelog.transport.http import HttpTransport
from lakelog.transport.retry import run


class Producer:
    """Sends records in background batches, each stored once and in order. May be called by several threads at once.

    `settings` has Kafka's names: `Producer({"bootstrap.servers": "http://localhost:8082", "linger.ms": 5})`.
    """

    def __init__(self, settings: Mapping[str, object], *, transport: Transport | None = None) -> None:
        chosen = ProducerSettings.of(settings)
        self._rows = RowMaker(chosen.key_serializer, chosen.value_serializer, chosen.max_request_size)
        self._partitions = partitions_of(chosen)
        connections = chosen.max_in_flight_requests_per_connection + 1
        self._transport = transport or HttpTransport(chosen.bootstrap_servers, chosen.client_id, connections)
        self._sender = Sender(chosen, self._transport)
        self._transacting = None if chosen.transactional_id is None else Transacting(chosen, self._transport)
        # A producer that is garbage collected without `close` still delivers.
        weakref.finalize(self, self._sender.finish).atexit = False

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Add a record to the next batch of its topic. A record that can never be stored is refused here.

        Blocks while the buffer is full, up to `max.block.ms`. A value of None is a null. `on_delivery` is called with
        the error or None and the metadata or None, by a sending thread, in the order of the records.
        """
        row, size = self._rows.make(topic, value, key, partition, timestamp, headers)
        if self._partitions is not None and partition is None:
            self._place(self._partitions, topic, row)
        taker = self._sender if self._transacting is None else self._transacting
        return taker.add(topic, row, size, on_delivery)

    def transaction(self) -> Transaction:
        """A block whose records are committed together at its end, or aborted by an exception.

        Needs `transactional.id`. Entering it begins the transaction, and fences an earlier producer of that name.
        """
        if self._transacting is None:
            raise IllegalState("a transaction needs the setting transactional.id")
        return Transaction(self._transacting)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records sent before are decided and their callbacks called; StillUnderWay after `timeout`."""
        if self._transacting is not None:
            self._transacting.flush()
        self._sender.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Deliver all records, and end.

        Records not decided within `timeout` seconds are given up: the error in their futures tells whether they may be
        stored.
        """
        if self._transacting is not None:
            self._transacting.close()
        self._sender.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _place(self, partitions: Partitions, topic: str, row: Row) -> None:
        now = monotonic()
        if not partitions.place(topic, row, now):
            run(partitions.learn(topic, now), self._transport)
            partitions.place_anyhow(topic, row)
