"""What a consumer may be told when it is created."""

from __future__ import annotations

import msgspec
import pytest

from consumer_groups.model.errors import InvalidOption
from consumer_groups.model.options import OPTIONS, Options, parse_options
from consumer_groups.model.reset_policy import At, duration_ms, parse_policy, resolve_policy
from delta_log.model.types import PartitionOffsets


def test_nothing_given_is_kafkas_defaults_and_no_name():
    assert parse_options({}) == (None, Options())


def test_numbers_and_booleans_may_be_strings():
    name, options = parse_options(
        {"name": "c1", "auto.commit.enable": "False", "fetch.min.bytes": "-1", "session.timeout.ms": 1000}
    )
    assert name == "c1"
    assert (options.auto_commit_enable, options.fetch_min_bytes, options.session_timeout_ms) == (False, -1, 1000)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("auto.commit.enable", 1),
        ("auto.commit.enable", "yes"),
        ("auto.commit.enable", None),
        ("session.timeout.ms", True),
        ("session.timeout.ms", 1e3),
        ("session.timeout.ms", "1e3"),
        ("session.timeout.ms", " 1000"),
        ("session.timeout.ms", 99),
        ("session.timeout.ms", 1_800_001),
        ("auto.offset.reset", "newest"),
        ("auto.offset.reset", "by_duration:"),
        ("auto.offset.reset", "by_duration:P1M"),
        ("format", "avro"),
        ("name", ""),
        ("name", "a\nb"),
        ("name", 7),
        ("group.instance.id", "x" * 256),
        ("partition.assignment.strategy", "rnage"),
        ("partition.assignment.strategy", "range,"),
        ("partition.assignment.strategy", "os:system"),
        ("dead.letter.topic", "__x"),
        ("max.delivery.attempts", 0),
    ],
)
def test_an_unusable_value_is_refused_with_its_rule(option: str, value: object):
    with pytest.raises(InvalidOption) as refused:
        parse_options({option: value})
    assert refused.value.setting == option
    assert refused.value.rule


def test_an_unknown_option_is_refused_with_a_guess():
    with pytest.raises(InvalidOption, match=r"did you mean auto\.offset\.reset"):
        parse_options({"auto.offset.rest": "earliest"})


def test_what_is_null_and_has_no_default_is_not_given():
    assert parse_options({"name": None, "group.instance.id": None, "dead.letter.topic": None}) == (None, Options())


def test_kafkas_names_of_assignors_are_understood():
    kafka = "org.apache.kafka.clients.consumer."
    _, options = parse_options({"partition.assignment.strategy": f"{kafka}CooperativeStickyAssignor, range"})
    assert options.partition_assignment_strategy == ("cooperative-sticky", "range")


def test_every_field_that_is_kept_is_a_documented_option_and_the_other_way_round():
    kept = {field.encode_name for field in msgspec.structs.fields(Options)}
    assert kept | {"name", "isolation.level"} == set(OPTIONS)
    assert all(option.doc and option.rule for option in OPTIONS.values())
    for option in OPTIONS.values():
        default = option.default
        text = ",".join(default) if isinstance(default, tuple) else default
        assert default is None or option.check(text) == default


@pytest.mark.parametrize(
    ("text", "ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P1DT0.5S", 86_400_500), ("P2W", 1_209_600_000), ("pt0s", 0)],
)
def test_a_duration_is_read_as_iso_8601_has_it(text: str, ms: int):
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1", "P1Y", "1D", "P-1D", "P1DT", "PT1.S", "P1D\n", "P1D "])
def test_what_is_no_duration_is_refused(text: str):
    assert duration_ms(text) is None


def test_a_policy_says_where_to_begin():
    offsets = PartitionOffsets(3, 9)
    assert resolve_policy("earliest", offsets, 0) == 3
    assert resolve_policy("latest", offsets, 0) == 9
    assert resolve_policy("none", offsets, 0) is None
    policy = parse_policy("BY_DURATION:pt1s")
    assert policy == "by_duration:PT1S"
    assert resolve_policy(policy, offsets, 5000) == At(4000)


@pytest.mark.parametrize("spelling", ["auto.commit.enable", "enable.auto.commit"])
@pytest.mark.parametrize("value", [False, "false", "False"], ids=["a flag", "text", "capitals"])
def test_auto_commit_is_spelled_as_either_proxy_does(spelling: str, value: object):
    _, options = parse_options({spelling: value})
    assert options == Options(auto_commit_enable=False)


def test_all_that_another_proxy_takes_is_taken_as_json_has_it_and_as_text():
    given = {
        "name": "one",
        "format": "json",
        "auto.offset.reset": "latest",
        "enable.auto.commit": True,
        "fetch.min.bytes": 100,
        "consumer.request.timeout.ms": 30_000,
        "isolation.level": "read_committed",
    }
    as_text = {name: str(value).lower() for name, value in given.items()}
    wanted = Options(format="json", auto_offset_reset="latest", fetch_min_bytes=100, consumer_request_timeout_ms=30_000)
    assert parse_options(given) == parse_options(as_text) == ("one", wanted)


def test_two_spellings_may_say_the_same_and_nothing_else():
    for pair in ((False, "false"), ("true", True)):
        given = dict(zip(("auto.commit.enable", "enable.auto.commit"), pair, strict=True))
        parse_options(given)
    for first, second in (("auto.commit.enable", "enable.auto.commit"), ("enable.auto.commit", "auto.commit.enable")):
        with pytest.raises(InvalidOption, match=first) as refused:
            parse_options({first: True, second: "false"})
        assert refused.value.setting == second


def test_a_level_of_isolation_changes_nothing():
    for level in ("read_committed", "read_uncommitted"):
        assert parse_options({"isolation.level": level}) == (None, Options())
    for level in ("serializable", 1, None):
        with pytest.raises(InvalidOption, match="read_committed, read_uncommitted"):
            parse_options({"isolation.level": level})


def test_a_wrong_value_is_told_under_the_spelling_that_was_used():
    with pytest.raises(InvalidOption, match="true or false") as refused:
        parse_options({"enable.auto.commit": "yes"})
    assert refused.value.setting == "enable.auto.commit"
    with pytest.raises(InvalidOption, match=r"did you mean enable\.auto\.commit"):
        parse_options({"enable.auto.comit": True})
