"""Options of the data source: declared once, read as Spark's Kafka source reads them, refused where they cannot be."""

import re

import pytest

from jobs.source.declared import OPTIONS
from jobs.source.errors import InvalidOption
from jobs.source.options import BATCH, STREAM, parse_options, wants_headers
from jobs.source.positions import EARLIEST, LATEST, AtOffsets, AtTime, Everywhere, TopicPartition

ROOT = {"path": "/data", "subscribe": "orders"}
ORDERS = TopicPartition("orders", 0)


def parse(query: str = BATCH, **given: str):
    return parse_options(ROOT | {name.replace("__", "."): text for name, text in given.items()}, query)


def refused(given: dict[str, str], query: str = BATCH) -> InvalidOption:
    with pytest.raises(InvalidOption) as caught:
        parse_options(given, query)
    return caught.value


def test_names_are_the_same_in_any_case_and_texts_may_have_blanks_around():
    read = parse_options({"PATH": " /data ", "SubScribe": " a , b,,a ", "failondataloss": "FALSE"}, BATCH)
    assert (read.path, read.chosen, read.fail_on_data_loss) == ("/data", ("a", "b"), False)


def test_a_batch_is_from_earliest_to_latest_and_a_stream_from_latest_where_nothing_else_is_said():
    assert (parse(BATCH).start, parse(BATCH).end) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert parse(STREAM).start == Everywhere(LATEST)


def test_what_is_not_said_is_as_with_kafka():
    read = parse(STREAM)
    assert read.fail_on_data_loss
    assert not read.include_headers
    assert (read.min_tasks, read.most_of_a_batch, read.least_of_a_batch, read.group) == (None, None, None, None)
    assert (read.late_start, read.longest_delay_ms, read.patience_ms) == ("error", 900_000, 120_000)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("earliest", Everywhere(EARLIEST)),
        (" Latest ", Everywhere(LATEST)),
        ('{"orders":{"0":23,"1":-2}}', AtOffsets({ORDERS: 23, TopicPartition("orders", 1): EARLIEST})),
    ],
)
def test_a_stream_begins_at_a_word_or_at_offsets(text: str, limit: object):
    assert parse(STREAM, startingOffsets=text).start == limit


def test_times_go_before_offsets_and_one_time_for_all_before_times_for_each():
    each = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders":{"0":5}}'}
    assert parse(STREAM, **each).start == AtTime({ORDERS: 5})
    assert parse(STREAM, **each, startingTimestamp="7").start == AtTime(7)
    ends = {"endingOffsets": "latest", "endingOffsetsByTimestamp": '{"orders":{"0":5}}'}
    assert parse(BATCH, **ends).end == AtTime({ORDERS: 5})
    assert parse(BATCH, **ends, endingTimestamp="7").end == AtTime(7)


def test_what_is_read_are_topics_a_pattern_or_partitions():
    assert parse_options({"path": "/d", "subscribe": "a,b"}, BATCH).chosen == ("a", "b")
    assert parse_options({"path": "/d", "subscribePattern": "a.*"}, BATCH).chosen == re.compile("a.*")
    assigned = parse_options({"path": "/d", "assign": '{"a":[0,2]}'}, BATCH).chosen
    assert assigned == {TopicPartition("a", 0), TopicPartition("a", 2)}


@pytest.mark.parametrize("name", ["server", "kafka.bootstrap.servers"])
def test_a_server_is_a_url_under_either_name(name: str):
    assert parse_options({name: "http://h:8082/", "subscribe": "a"}, BATCH).server == "http://h:8082"


@pytest.mark.parametrize("brokers", ["h:9092", "a:9092,b:9092", "http://a:1,http://b:1", "ftp://h", "http://"])
def test_addresses_of_kafkas_brokers_are_refused_with_what_is_wanted(brokers: str):
    error = refused({"kafka.bootstrap.servers": brokers, "subscribe": "a"})
    assert error.option == "kafka.bootstrap.servers"
    assert "http://127.0.0.1:8082" in str(error)


def test_two_names_of_the_same_may_agree_and_must():
    both = {"server": "http://a:1", "kafka.bootstrap.servers": "http://a:1/", "subscribe": "t"}
    assert parse_options(both, BATCH).server == "http://a:1"
    assert refused(both | {"server": "http://b:1"}).option == "server"
    assert parse(group__id="g", kafka__group__id="g").group == "g"
    assert refused(ROOT | {"group.id": "g", "kafka.group.id": "h"}).option == "group.id"


def test_one_must_say_where_the_topics_are_and_what_to_read():
    assert refused({"subscribe": "a"}).option == "path"
    assert "subscribe, subscribePattern, assign" in str(refused({"path": "/d"}))
    assert "only one" in str(refused(ROOT | {"assign": '{"a":[0]}'}))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("subscrib", "did you mean subscribe?"),
        ("startingOffset", "did you mean startingOffsets?"),
        ("kafka.bootstrap.server", "did you mean kafka.bootstrap.servers?"),
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.enable.auto.commit", "commits nothing"),
        ("kafka.security.protocol", "leave it out"),
        ("xyz", "there is no such option"),
    ],
)
def test_an_unknown_option_is_refused_with_a_hint(name: str, hint: str):
    assert hint in str(refused(ROOT | {name: "x"}))


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"orders":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"orders":{"0":-2}}'},
        {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
        {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":6}}'},
        {"startingOffsetsByTimestamp": '{"orders":{"0":5}}', "endingOffsetsByTimestamp": '{"orders":{"0":4}}'},
        {"startingTimestamp": "5", "endingTimestamp": "4"},
    ],
    ids=str,
)
def test_a_batch_that_could_hold_nothing_is_refused(given: dict[str, str]):
    refused(ROOT | given)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str):
    text = {"endingOffsets": "latest", "endingTimestamp": "1"}.get(name, '{"orders":{"0":1}}')
    assert refused(ROOT | {name: text}, STREAM).option == name


def test_what_is_for_streams_does_nothing_in_a_batch():
    assert parse(BATCH, maxOffsetsPerTrigger="5", maxTriggerDelay="1s")


def test_a_batch_of_a_stream_cannot_need_more_than_it_may_have():
    refused(ROOT | {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, STREAM)
    assert parse(STREAM, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5").least_of_a_batch == 5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("minPartitions", "0"),
        ("minPartitions", "-1"),
        ("minPartitions", "1.5"),
        ("minPartitions", "٣"),
        ("maxOffsetsPerTrigger", "many"),
        ("maxOffsetsPerTrigger", str(1 << 63)),
        ("failOnDataLoss", "yes"),
        ("includeHeaders", "1"),
        ("maxTriggerDelay", "5 fortnights"),
        ("startingTimestamp", "yesterday"),
        ("startingOffsets", "begin"),
        ("startingOffsets", "{"),
        ("startingOffsets", "{}"),
        ("startingOffsets", '{"orders":[0]}'),
        ("startingOffsets", '{"orders":{"0":"1"}}'),
        ("startingOffsets", '{"orders":{"0":true}}'),
        ("startingOffsets", '{"orders":{"0":-3}}'),
        ("startingOffsets", '{"orders":{"x":1}}'),
        ("startingOffsets", '{"orders":{"0":1,"0":2}}'),
        ("startingOffsetsByTimestamp", '{"orders":{"0":-1}}'),
        ("startingOffsetsByTimestampStrategy", "ignore"),
        ("group.id", " "),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(name: str, text: str):
    error = refused(ROOT | {name: text}, STREAM)
    assert error.option == name
    assert name in str(error)


@pytest.mark.parametrize(
    "given",
    [{"assign": "orders"}, {"assign": '{"a":0}'}, {"assign": '{"a":[]}'}, {"assign": '{"a":[-1]}'}, {"assign": "{}"},
     {"subscribe": " , "}, {"subscribePattern": "("}, {"subscribePattern": " "}],
    ids=str,
)  # fmt: skip
def test_a_choice_that_chooses_nothing_is_refused(given: dict[str, str]):
    assert refused({"path": "/d"} | given).option == next(iter(given))


@pytest.mark.parametrize(("text", "ms"), [("15m", 900_000), ("30s", 30_000), ("500ms", 500), ("2 h", 7_200_000)])
def test_a_delay_is_a_number_with_a_unit(text: str, ms: int):
    assert parse(STREAM, maxTriggerDelay=text).longest_delay_ms == ms


def test_columns_depend_on_one_option_and_whatever_is_wrong_is_told_with_them():
    assert wants_headers(ROOT | {"includeHeaders": "true"})
    assert not wants_headers(ROOT)
    with pytest.raises(InvalidOption):
        wants_headers({"subscribe": "a"})


def test_no_two_options_differ_by_case_alone():
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
