"""Settings of a producer: Kafka's settings under Kafka's names. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakelog.foundation.errors import InvalidSetting
from lakelog.foundation.settings import INT32_MAX, INT64_MAX, SHARED, Agent, Flag, Setting, Whole, Word, read_settings
from lakelog.transport.backoff import Backoff

#: The server remembers this many requests of a producer, so no more may be in flight.
MOST_NUMBERED: Final = 5
_MIB = 1024 * 1024
_SERIALIZERS: Final = Word(("bytes", "string", "json"), callables=True)

PRODUCER_SETTINGS: Final = (
    *SHARED,
    Setting("acks", Word(("all", "-1", "1", "0")), "all",
            "`all`, `-1` and `1` wait until a record is durable; `0` until it was accepted, which a crash may undo."),
    Setting("enable.idempotence", Flag(), default=True,
            doc="Requests are numbered, so that a repeat is stored once and order is kept. With `acks=0` it must be "
            "off, and is if it is not given."),
    Setting("transactional.id", Agent(), None,
            "Who this producer is, over its restarts. With it everything is sent in transactions; beginning one shuts "
            "out whoever had the name before."),
    Setting("transaction.timeout.ms", Whole(1, INT64_MAX), None,
            "After so long the server aborts a transaction; without it after a minute."),
    Setting("batch.size", Whole(1, INT32_MAX), _MIB,
            "How many bytes of records go together at most, of all partitions of a topic."),
    Setting("linger.ms", Whole(0, INT64_MAX), 0,
            "How long a batch that is not full waits for more. With 0 it goes at once, or, while other batches of its "
            "topic are under way, when those are answered."),
    Setting("max.request.size", Whole(1, INT32_MAX), _MIB,
            "The most bytes of one record, and of one batch, before they are encoded."),
    Setting("buffer.memory", Whole(1, INT64_MAX), 32 * _MIB,
            "How many bytes of records may wait; then `send` blocks."),
    Setting("max.block.ms", Whole(0, INT64_MAX), 60_000,
            "How long `send` may block, for room or for the number of a topic's partitions; and how long beginning a "
            "transaction, moving offsets with it and committing it may each take."),
    Setting("retries", Whole(0, INT32_MAX), INT32_MAX,
            "How often a batch is sent again; usually `delivery.timeout.ms` ends it."),
    Setting("delivery.timeout.ms", Whole(1, INT32_MAX), 120_000,
            "How long after `send` a record's future is resolved at the latest."),
    Setting("max.in.flight.requests.per.connection", Whole(1, 1_000), 5,
            "How many requests are under way at once; at most 5 with idempotence."),
    Setting("compression.type", Word(("none", "gzip", "zstd")), "none",
            "How bodies are compressed; `zstd` needs the package `zstandard`."),
    Setting("partitioner", Word(("server", "murmur2", "murmur3", "md5"), callables=True), "server",
            "Who finds a record's partition by its key. A callable is given the topic, the key's bytes or None, and "
            "the number of partitions, and returns a partition, or None to leave it to the server, which also places "
            "records without keys."),
    Setting("metadata.max.age.ms", Whole(0, INT64_MAX), 300_000,
            "With a partitioner: how long a topic's number of partitions is taken for true."),
    Setting("key.serializer", _SERIALIZERS, "bytes", "How keys become bytes; a callable is given the key. None stays."),
    Setting("value.serializer", _SERIALIZERS, "bytes", "How values become bytes, likewise."),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """The settings, with underscores in place of dots."""

    bootstrap_servers: str
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    acks: str
    enable_idempotence: bool
    transactional_id: str | None
    transaction_timeout_ms: int | None
    batch_size: int
    linger_ms: int
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    retries: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    compression_type: str
    partitioner: str | Callable[..., Any]
    metadata_max_age_ms: int
    key_serializer: str | Callable[..., Any]
    value_serializer: str | Callable[..., Any]

    @classmethod
    def of(cls, given: Mapping[str, object]) -> ProducerSettings:
        """Reads the settings; raises InvalidSetting if they contradict each other."""
        values = read_settings(given, PRODUCER_SETTINGS)
        if values["acks"] == "0":
            if "enable.idempotence" in given and values["enable_idempotence"]:
                raise InvalidSetting("enable.idempotence", "acks=0 is told nothing that could be repeated")
            values["enable_idempotence"] = False
        if values["transactional_id"] is not None and not values["enable_idempotence"]:
            raise InvalidSetting("transactional.id", "it needs acks=all and enable.idempotence")
        settings = cls(**values)
        if settings.enable_idempotence and settings.max_in_flight_requests_per_connection > MOST_NUMBERED:
            raise InvalidSetting(
                "max.in.flight.requests.per.connection", f"it is at most {MOST_NUMBERED} with enable.idempotence"
            )
        return settings

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.retry_backoff_ms / 1000, max(self.retry_backoff_ms, self.retry_backoff_max_ms) / 1000)
