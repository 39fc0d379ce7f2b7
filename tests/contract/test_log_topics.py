"""Topics: how they come to be, are described, and change."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.model.errors import (
    InvalidConfig,
    InvalidName,
    InvalidPartitions,
    LakelogError,
    TooManyPartitions,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from delta_log.model.topic_config import SETTINGS
from tests.support.logs import Place, everything, hold_tables, replace_settings, values_of

#: One allowed value for every setting, none of them the default.
OTHER = {
    "cleanup.policy": "compact,delete",
    "retention.ms": -1,
    "retention.bytes": 10_000_000,
    "delete.retention.ms": 1,
    "min.compaction.lag.ms": 2,
    "max.compaction.lag.ms": 3,
    "min.cleanable.dirty.ratio": 0.25,
    "max.message.bytes": 1000,
    "message.timestamp.type": "LogAppendTime",
    "message.timestamp.before.max.ms": 4,
    "message.timestamp.after.max.ms": 5,
    "compression.type": "gzip",
    "min.insync.replicas": 1,
    "segment.bytes": 2_000_000,
    "segment.ms": 6,
    "file.delete.delay.ms": 7,
    "lakelog.partitioner": "md5",
    "lakelog.partitioner.null": "sticky",
    "lakelog.commit.interval.ms": 200,
    "lakelog.commit.bytes": 2048,
    "lakelog.history.ms": 70_000,
    "lakelog.history.commits": 200,
    "lakelog.fold.files": 3,
}


def test_a_topic_without_a_word_about_it_has_the_defaults(log: Log):
    made = log.create_topic("orders")
    assert (made.name, made.partitions) == ("orders", 1)
    assert log.describe_topic("orders") == made
    assert {described.source for described in made.config.describe()} == {"DEFAULT_CONFIG"}
    assert log.topics() == ["orders"]
    assert (log.offsets("orders", 0).log_start_offset, log.offsets("orders", 0).end_offset) == (0, 0)
    assert everything(log, "orders") == []


def test_every_setting_can_be_given_and_outlives_a_restart(place: Place):
    assert OTHER.keys() == {setting.name for setting in SETTINGS}
    made = place.open().create_topic("orders", 3, OTHER)
    place.close()
    found = place.open().describe_topic("orders")
    assert found == made
    assert {d.name: d.source for d in found.config.describe()} == dict.fromkeys(OTHER, "DYNAMIC_TOPIC_CONFIG")


def test_an_altered_setting_goes_back_to_the_servers_default_and_that_to_the_built_in(place: Place):
    def source(log: Log) -> tuple[str, str]:
        return next((d.value, d.source) for d in log.describe_topic("t").config.describe() if d.name == "retention.ms")

    log = place.open(replace_settings(topic_defaults={"retention.ms": 77}))
    log.create_topic("t", config={"retention.ms": 5, "retention.bytes": None})
    assert source(log) == ("5", "DYNAMIC_TOPIC_CONFIG")
    assert log.alter_topic("t", {"retention.ms": 6}).retention_ms == 6
    assert source(log) == ("6", "DYNAMIC_TOPIC_CONFIG")
    log.alter_topic("t", {"retention.ms": None, "segment.ms": 9})
    assert source(log) == ("77", "STATIC_BROKER_CONFIG")
    place.close()
    assert source(place.open()) == ("604800000", "DEFAULT_CONFIG")


def test_a_setting_takes_effect_with_the_next_request(log: Log):
    log.create_topic("t", config={"max.message.bytes": 200})
    with pytest.raises(LakelogError):
        log.append("t", [Record(b"x" * 300)])
    log.alter_topic("t", {"max.message.bytes": None})
    log.append("t", [Record(b"x" * 300)])


@pytest.mark.parametrize("config", [{"retention": 1}, {"retention.ms": "x"}, {"min.insync.replicas": 2}], ids=str)
def test_a_setting_that_cannot_be_leaves_nothing_behind(log: Log, config: dict[str, str]):
    with pytest.raises(InvalidConfig):
        log.create_topic("t", config=config)
    assert log.topics() == []
    log.create_topic("t")
    with pytest.raises(InvalidConfig):
        log.alter_topic("t", {"segment.ms": 5, **config})
    assert log.describe_topic("t").config.segment_ms != 5


@pytest.mark.parametrize("partitions", [0, -1, 10_001, True, 1.0, "1"], ids=repr)
def test_a_count_of_partitions_that_cannot_be_is_refused(log: Log, partitions: int):
    with pytest.raises(InvalidPartitions):
        log.create_topic("t", partitions)
    log.create_topic("t", 2)
    with pytest.raises(InvalidPartitions):
        log.add_partitions("t", partitions)
    assert log.describe_topic("t").partitions == 2


@pytest.mark.parametrize("name", ["", ".", "..", "_delta_log", "a/b", "é", "-x", ".x", "x.", "__producers", "x" * 250])
def test_a_name_that_cannot_be_is_refused_everywhere(log: Log, name: str):
    log.create_topic("t")
    log.append("t", [Record(b"v")], producer=None)
    for use in (log.create_topic, log.delete_topic, log.describe_topic, log.flush, log.fold):
        with pytest.raises(InvalidName):
            use(name)
    with pytest.raises(UnknownTopic if name.startswith("__") else InvalidName):
        log.table_location(name)
    with pytest.raises(InvalidName):
        log.append(name, [Record(b"v")])
    with pytest.raises(InvalidName):
        log.read(name, 0, 0)


def test_the_table_of_producers_is_nobodys_topic(log: Log):
    log.create_topic("t")
    log.append("t", [Record(b"v")], producer=ProducerStamp("p", 0, 0))
    for use in (log.delete_topic, log.describe_topic, lambda name: log.append(name, [Record(b"v")])):
        with pytest.raises(InvalidName):
            use("__producers")
    assert log.topics() == ["t"]
    log.flush()


@pytest.mark.parametrize(("first", "second"), [("orders", "orders"), ("orders", "Orders"), ("a.b", "a_b")])
def test_names_that_are_too_much_alike_cannot_stand_side_by_side(log: Log, first: str, second: str):
    log.create_topic(first)
    with pytest.raises(TopicExists) as refused:
        log.create_topic(second)
    assert (refused.value.topic, refused.value.existing) == (second, first)
    log.delete_topic(first)
    log.create_topic(second)
    assert log.topics() == [second]
    with pytest.raises(LakelogError):
        log.create_topic(first)


def test_what_is_not_there_is_unknown(log: Log):
    for use in (log.delete_topic, log.describe_topic, log.flush, log.run_retention):
        with pytest.raises(UnknownTopic):
            use("t")
    log.create_topic("t", 2)
    for partition in (2, -1, True, "0", 0.0):
        with pytest.raises(UnknownPartition):
            log.read("t", partition, 0)  # type: ignore[arg-type]
        with pytest.raises(UnknownPartition):
            log.offsets("t", partition)  # type: ignore[arg-type]


def test_partitions_are_added_and_never_removed(place: Place):
    log = place.open()
    log.create_topic("t", 2)
    log.append("t", [Record(b"%d" % i) for i in range(4)])
    log.add_partitions("t", 3)
    for fewer in (3, 2, 1):
        with pytest.raises(InvalidPartitions):
            log.add_partitions("t", fewer)
    log.append("t", [Record(b"new", partition=2)])
    assert values_of(log, "t", 2) == [b"new"]
    place.close()
    log = place.open()
    assert log.describe_topic("t").partitions == 3
    assert [log.offsets("t", p).end_offset for p in range(3)] == [2, 2, 1]


def test_records_in_an_added_partition_survive_a_crash(place: Place):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    log.add_partitions("t", 2)
    log.append("t", [Record(b"v", partition=1)])
    place.crash()
    assert values_of(place.open(), "t", 1) == [b"v"]


def test_settings_and_partitions_that_change_at_once_both_count(log: Log):
    log.create_topic("t")
    with ThreadPoolExecutor(2) as pool:
        for count in range(2, 30):
            running = [
                pool.submit(log.add_partitions, "t", count),
                pool.submit(log.alter_topic, "t", {"segment.ms": count}),
            ]
            for done in running:
                done.result(20)
            info = log.describe_topic("t")
            assert (info.partitions, info.config.segment_ms) == (count, count)


def test_a_topic_and_all_of_them_have_no_more_partitions_than_they_may(place: Place):
    log = place.open(replace_settings(max_partitions_per_topic=4, max_partitions=6))
    log.create_topic("t", 4)
    for refused in (lambda: log.create_topic("u", 5), lambda: log.add_partitions("t", 5)):
        with pytest.raises(TooManyPartitions, match="max_partitions_per_topic is 4") as one:
            refused()
        assert (one.value.setting, one.value.limit, one.value.present) == ("max_partitions_per_topic", 4, None)
    log.create_topic("u", 1)
    for refused in (lambda: log.create_topic("v", 2), lambda: log.add_partitions("u", 3)):
        with pytest.raises(TooManyPartitions, match="max_partitions is 6, and there are 5") as every:
            refused()
        assert (every.value.setting, every.value.limit, every.value.present) == ("max_partitions", 6, 5)
    assert log.topics() == ["t", "u"]
    assert [log.describe_topic(name).partitions for name in ("t", "u")] == [4, 1]
    log.add_partitions("u", 2)
    log.delete_topic("t")
    log.create_topic("w", 4)


def test_a_log_that_has_more_partitions_than_it_may_opens_and_goes_on(place: Place):
    log = place.open()
    log.create_topic("t", 4)
    place.close()
    log = place.open(replace_settings(max_partitions_per_topic=2, max_partitions=3))
    assert log.append("t", [Record(b"a", partition=3)]).ranges[0].partition == 3
    with pytest.raises(TooManyPartitions):
        log.add_partitions("t", 5)
    with pytest.raises(TooManyPartitions):
        log.create_topic("u", 1)
    with pytest.raises(InvalidPartitions, match="never removed"):
        log.add_partitions("t", 2)
    log.alter_topic("t", {"retention.ms": 5})
    assert log.describe_topic("t").partitions == 4


def test_of_many_that_add_partitions_at_once_none_passes_the_limit(place: Place):
    log = place.open(replace_settings(max_partitions=20))
    for topic in ("a", "b"):
        log.create_topic(topic, 1)

    def add(number: int) -> bool:
        try:
            if number % 2:
                log.create_topic(f"t{number}", 3)
            else:
                log.add_partitions("ab"[number // 2 % 2], number)
        except InvalidPartitions:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert any(pool.map(add, range(2, 26)))
    assert sum(log.describe_topic(name).partitions for name in log.topics()) <= 20
