"""The configuration of one topic: its own settings, over the server's defaults, over the built-in ones.

Knows how a setting is resolved, described, altered and stored among the properties of the topic's table. Must
not know where a setting is used, or when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from delta_log.model.errors import InvalidConfig
from delta_log.model.topic_settings import SETTINGS, Setting, Value, find_setting

Source = Literal["DYNAMIC_TOPIC_CONFIG", "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"]
Values = tuple[tuple[str, Value], ...]
V = TypeVar("V")

__all__ = ["SETTINGS", "Described", "ParquetCodec", "Setting", "Source", "TopicConfig"]


class ParquetCodec(NamedTuple):
    """A codec under pyarrow's name; level None is the codec's own default."""

    name: str = "zstd"
    level: int | None = 1


class Described(NamedTuple):
    """Description of a setting. `synonyms`: its values in all layers, with their sources, the one in force first."""

    name: str
    value: str
    source: Source
    doc: str
    synonyms: tuple[tuple[str, Source], ...]


class _In(Generic[V]):
    """A typed property of `TopicConfig` that reads the value in force."""

    def __init__(self, name: str, read: Callable[[Any], V]) -> None:
        self.name, self.read = name, read

    def __get__(self, config: TopicConfig, owner: type[TopicConfig]) -> V:
        return self.read(config.in_force[self.name])


def _or_never(value: int) -> int | None:
    """Convert -1, no limit, to None."""
    return None if value == -1 else value


_CODECS: Mapping[str, ParquetCodec] = {
    "producer": ParquetCodec("zstd", 1),
    "zstd": ParquetCodec("zstd", 1),
    "uncompressed": ParquetCodec("none", None),
    "lz4": ParquetCodec("lz4", None),
    "snappy": ParquetCodec("snappy", None),
    "gzip": ParquetCodec("gzip", None),
}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Settings of a topic, made by `of` from user input, by `from_properties` from a table; equal if its layers are.

    `retention_ms` and `retention_bytes` are None for Kafka's -1: for ever, without limit.
    """

    explicit: Values = ()
    server: Values = ()
    in_force: Mapping[str, Value] = field(init=False, repr=False, compare=False)

    cleanup_policy = _In("cleanup.policy", str)
    retention_ms = _In("retention.ms", _or_never)
    retention_bytes = _In("retention.bytes", _or_never)
    delete_retention_ms = _In("delete.retention.ms", int)
    min_compaction_lag_ms = _In("min.compaction.lag.ms", int)
    max_compaction_lag_ms = _In("max.compaction.lag.ms", int)
    min_cleanable_dirty_ratio = _In("min.cleanable.dirty.ratio", float)
    max_message_bytes = _In("max.message.bytes", int)
    message_timestamp_type = _In("message.timestamp.type", str)
    message_timestamp_before_max_ms = _In("message.timestamp.before.max.ms", int)
    message_timestamp_after_max_ms = _In("message.timestamp.after.max.ms", int)
    compression_type = _In("compression.type", str)
    min_insync_replicas = _In("min.insync.replicas", int)
    segment_bytes = _In("segment.bytes", int)
    segment_ms = _In("segment.ms", int)
    file_delete_delay_ms = _In("file.delete.delay.ms", int)
    partitioner = _In("lakelog.partitioner", str)
    partitioner_null = _In("lakelog.partitioner.null", str)
    commit_interval_ms = _In("lakelog.commit.interval.ms", int)
    commit_bytes = _In("lakelog.commit.bytes", int)
    history_ms = _In("lakelog.history.ms", int)
    history_commits = _In("lakelog.history.commits", int)
    fold_files = _In("lakelog.fold.files", int)

    def __post_init__(self) -> None:
        built_in = {setting.name: setting.default for setting in SETTINGS}
        object.__setattr__(self, "in_force", built_in | dict(self.server) | dict(self.explicit))

    @classmethod
    def of(cls, values: Mapping[str, object], *, server_defaults: Mapping[str, object] | None = None) -> TopicConfig:
        """Create from both layers, under Kafka's names; InvalidConfig for the first unusable setting."""
        config = cls(_parse(values.items()), _parse((server_defaults or {}).items()))
        config.check()
        return config

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, server_defaults: Mapping[str, object] | None = None
    ) -> TopicConfig:
        """Create from the properties of a table; properties that are no topic settings are ignored.

        Contradictions are not checked here: a new default of the server must not close a topic.
        """
        stored = [(s.name, properties[s.property_name]) for s in SETTINGS if s.property_name in properties]
        return cls(_parse(stored), _parse((server_defaults or {}).items()))

    def to_properties(self) -> dict[str, str]:
        """The topic's own settings, as table properties."""
        return {find_setting(name).property_name: _text(value) for name, value in self.explicit}

    def alter(self, changes: Mapping[str, str | int | float | None]) -> TopicConfig:
        """Returns a changed configuration; None resets a setting to its default."""
        values: dict[str, object] = dict(self.explicit)
        for name, given in changes.items():
            values[find_setting(name, given).name] = given
        kept = {name: given for name, given in values.items() if given is not None}
        return TopicConfig.of(kept, server_defaults=dict(self.server))

    def renewed(self, properties: Mapping[str, str]) -> TopicConfig:
        """Returns the configuration from a table's current properties, over the same server defaults."""
        return TopicConfig.from_properties(properties, server_defaults=dict(self.server))

    def describe(self) -> tuple[Described, ...]:
        """Every setting with the value in force and its source, in the order of `SETTINGS`."""
        return tuple(self._describe(setting) for setting in SETTINGS)

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                "min.compaction.lag.ms",
                self.min_compaction_lag_ms,
                f"it must not exceed max.compaction.lag.ms={self.max_compaction_lag_ms}",
            )

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def parquet_codec(self) -> ParquetCodec:
        return _CODECS[self.compression_type]

    def _describe(self, setting: Setting) -> Described:
        sources: tuple[tuple[Source, Mapping[str, Value]], ...] = (
            ("DYNAMIC_TOPIC_CONFIG", dict(self.explicit)),
            ("STATIC_BROKER_CONFIG", dict(self.server)),
            ("DEFAULT_CONFIG", {setting.name: setting.default}),
        )
        found: list[tuple[str, Source]] = [
            (_text(layer[setting.name]), source) for source, layer in sources if setting.name in layer
        ]
        value, source = found[0]
        return Described(setting.name, value, source, setting.doc, tuple(found))


def _parse(values: Iterable[tuple[str, object]]) -> Values:
    return tuple(sorted((name, find_setting(name, given).parse(given)) for name, given in values))


def _text(value: Value) -> str:
    """Canonical text, which `parse` reads back as the same value: a small share is not written as 1e-05."""
    return format(Decimal(repr(value)), "f") if isinstance(value, float) else str(value)
