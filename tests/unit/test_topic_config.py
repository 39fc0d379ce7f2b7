"""The layers of a topic's configuration: which value is in force, what is altered, what is stored."""

from __future__ import annotations

import pickle

import pytest

from delta_log.model.errors import InvalidConfig
from delta_log.model.topic_config import SETTINGS, ParquetCodec, TopicConfig
from delta_log.model.topic_settings import OneOf

NAMES = [setting.name for setting in SETTINGS]


def attribute(name: str) -> str:
    return name.removeprefix("lakelog.").replace(".", "_")


def test_the_built_in_values_are_kafkas_where_kafka_has_the_setting() -> None:
    assert {d.name: d.value for d in TopicConfig().describe()} == {
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "delete.retention.ms": "86400000",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "9223372036854775807",
        "min.cleanable.dirty.ratio": "0.5",
        "max.message.bytes": "1048588",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.after.max.ms": "3600000",
        "compression.type": "zstd",
        "min.insync.replicas": "1",
        "segment.bytes": "134217728",
        "segment.ms": "604800000",
        "file.delete.delay.ms": "60000",
        "lakelog.partitioner": "murmur2",
        "lakelog.partitioner.null": "round_robin",
        "lakelog.commit.interval.ms": "1000",
        "lakelog.commit.bytes": "16777216",
        "lakelog.history.ms": "172800000",
        "lakelog.history.commits": "10000",
        "lakelog.fold.files": "10",
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_typed_property(name: str) -> None:
    setting = next(s for s in SETTINGS if s.name == name)
    read = getattr(TopicConfig(), attribute(name))
    assert read == (None if setting.default == -1 else setting.default)


def test_a_topics_value_goes_before_the_servers_and_that_before_the_built_in_one() -> None:
    server = {"retention.ms": 2000, "segment.ms": 3000}
    config = TopicConfig.of({"retention.ms": "1000"}, server_defaults=server)
    assert (config.retention_ms, config.segment_ms, config.commit_interval_ms) == (1000, 3000, 1000)
    described = {d.name: d for d in config.describe()}
    assert described["retention.ms"].source == "DYNAMIC_TOPIC_CONFIG"
    assert described["segment.ms"].source == "STATIC_BROKER_CONFIG"
    assert described["cleanup.policy"].source == "DEFAULT_CONFIG"
    assert described["retention.ms"].synonyms == (
        ("1000", "DYNAMIC_TOPIC_CONFIG"),
        ("2000", "STATIC_BROKER_CONFIG"),
        ("604800000", "DEFAULT_CONFIG"),
    )


def test_a_topic_that_says_what_is_the_default_anyway_has_said_it() -> None:
    config = TopicConfig.of({"segment.ms": 604800000})
    assert {d.name: d.source for d in config.describe()}["segment.ms"] == "DYNAMIC_TOPIC_CONFIG"


def test_minus_one_reads_as_no_limit() -> None:
    config = TopicConfig.of({"retention.ms": -1, "retention.bytes": "-1"})
    assert (config.retention_ms, config.retention_bytes) == (None, None)
    config = TopicConfig.of({"retention.ms": 0, "retention.bytes": "0"})
    assert (config.retention_ms, config.retention_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("given", "codec"),
    [
        ("producer", ("zstd", 1)),
        ("zstd", ("zstd", 1)),
        ("uncompressed", ("none", None)),
        ("lz4", ("lz4", None)),
        ("snappy", ("snappy", None)),
        ("gzip", ("gzip", None)),
    ],
)
def test_a_compression_type_names_a_parquet_codec(given: str, codec: tuple[str, int | None]) -> None:
    assert TopicConfig.of({"compression.type": given}).parquet_codec == ParquetCodec(*codec)
    assert TopicConfig().parquet_codec == ("zstd", 1)


def test_every_compression_type_has_a_codec() -> None:
    check = next(s.check for s in SETTINGS if s.name == "compression.type")
    assert isinstance(check, OneOf)
    for word in check.words:
        assert TopicConfig.of({"compression.type": word}).parquet_codec.name


def test_a_bad_default_of_the_server_is_refused_too() -> None:
    with pytest.raises(InvalidConfig, match=r"segment\.ms"):
        TopicConfig.of({}, server_defaults={"segment.ms": 0})


@pytest.mark.parametrize(
    ("values", "server"),
    [
        ({"min.compaction.lag.ms": 2, "max.compaction.lag.ms": 1}, {}),
        ({"min.compaction.lag.ms": 2}, {"max.compaction.lag.ms": 1}),
        ({}, {"min.compaction.lag.ms": 2, "max.compaction.lag.ms": 1}),
    ],
)
def test_the_least_compaction_lag_does_not_exceed_the_greatest(values: dict[str, int], server: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig, match=r"must not exceed max\.compaction\.lag\.ms=1"):
        TopicConfig.of(values, server_defaults=server)


def test_equal_compaction_lags_agree() -> None:
    assert TopicConfig.of({"min.compaction.lag.ms": 2, "max.compaction.lag.ms": 2}).max_compaction_lag_ms == 2


def test_altering_changes_what_is_named_and_leaves_the_old_value_as_it_was() -> None:
    before = TopicConfig.of({"retention.ms": 1, "segment.ms": 2}, server_defaults={"segment.ms": 9})
    after = before.alter({"retention.ms": "5", "segment.ms": None, "cleanup.policy": "compact"})
    assert after == TopicConfig.of({"retention.ms": 5, "cleanup.policy": "compact"}, server_defaults={"segment.ms": 9})
    assert (after.retention_ms, after.segment_ms) == (5, 9)
    assert (before.retention_ms, before.segment_ms) == (1, 2)


def test_altering_back_what_was_never_set_changes_nothing() -> None:
    assert TopicConfig().alter({"retention.ms": None}) == TopicConfig()


@pytest.mark.parametrize("changes", [{"retention.md": None}, {"retention.ms": "x"}, {"min.compaction.lag.ms": 2}])
def test_an_alteration_is_checked_like_a_new_configuration(changes: dict[str, str | int | None]) -> None:
    with pytest.raises(InvalidConfig):
        TopicConfig.of({"max.compaction.lag.ms": 1}).alter(changes)


def test_only_what_is_set_on_the_topic_is_stored_under_kafkas_names_with_our_prefix() -> None:
    config = TopicConfig.of(
        {"retention.ms": 5, "lakelog.partitioner": "md5", "cleanup.policy": "delete,compact"},
        server_defaults={"segment.ms": 9},
    )
    assert config.to_properties() == {
        "lakelog.retention.ms": "5",
        "lakelog.partitioner": "md5",
        "lakelog.cleanup.policy": "compact,delete",
    }


def test_foreign_properties_are_left_alone() -> None:
    properties = {
        "delta.appendOnly": "true",
        "lakelog.topic.id": "x",
        "retention.ms": "1",
        "lakelog.new.one": "y",
    }
    assert TopicConfig.from_properties(properties) == TopicConfig()


@pytest.mark.parametrize("stored", ["", "soon", "5 ", "-2"])
def test_an_unreadable_stored_value_is_refused(stored: str) -> None:
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        TopicConfig.from_properties({"lakelog.retention.ms": stored})


def test_a_new_default_of_the_server_does_not_close_a_stored_topic() -> None:
    """Such a topic can be read; the next alteration must resolve the contradiction."""
    server = {"max.compaction.lag.ms": 1}
    config = TopicConfig.from_properties({"lakelog.min.compaction.lag.ms": "2"}, server_defaults=server)
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (2, 1)
    with pytest.raises(InvalidConfig):
        config.alter({"retention.ms": 1})
    assert config.alter({"min.compaction.lag.ms": None}).min_compaction_lag_ms == 0


def test_a_configuration_is_a_value() -> None:
    config = TopicConfig.of({"retention.ms": 5}, server_defaults={"segment.ms": 9})
    same = TopicConfig.of({"retention.ms": "5"}, server_defaults={"segment.ms": "9"})
    assert config == same
    assert hash(config) == hash(same)
    assert config != TopicConfig.of({"retention.ms": 5})
    assert pickle.loads(pickle.dumps(config)) == config
    assert pickle.loads(pickle.dumps(config)).retention_ms == 5
    with pytest.raises(AttributeError):
        config.explicit = ()  # pyright: ignore[reportAttributeAccessIssue]
