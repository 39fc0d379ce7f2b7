"""What each setting admits, and that a refusal says which setting, which value and which rule."""

from __future__ import annotations

import re

import pytest

from delta_log.model.errors import InvalidConfig
from delta_log.model.topic_config import TopicConfig
from delta_log.model.topic_settings import INT64_MAX, SETTINGS, Setting, Whole

NAMES = [setting.name for setting in SETTINGS]


def shown(given: object) -> str:
    """5 and "5" are two cases."""
    return ascii(given)[:30]


@pytest.mark.parametrize("setting", SETTINGS, ids=NAMES)
def test_every_default_obeys_its_own_rule(setting: Setting) -> None:
    value = setting.parse(setting.default)
    assert value == setting.default
    assert type(value) is type(setting.default)


@pytest.mark.parametrize("setting", SETTINGS, ids=NAMES)
def test_every_setting_is_documented_by_one_sentence(setting: Setting) -> None:
    assert re.fullmatch(r"[A-Z`][^.]*(\.[a-z][^.]*)*\.", setting.doc), setting.doc


def test_no_two_settings_share_a_name_or_a_table_property() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len({s.property_name for s in SETTINGS}) == len(NAMES)


@pytest.mark.parametrize(
    "given",
    [
        True, False, None, 1.0, 5.5, "", " 5", "5 ", "5\n", "+5", "05", "-0", "1e3", "5.0", "0x5", "1_000",
        "٣", "five", -2, "-2", 2**63, str(2**63), "9" * 5000, b"5", [5],
    ],
    ids=shown,
)  # fmt: skip
def test_only_an_int_or_its_canonical_text_within_bounds_is_a_whole_number(given: object) -> None:
    with pytest.raises(InvalidConfig, match=r"retention\.ms=.*whole number, -1 or more"):
        TopicConfig.of({"retention.ms": given})


@pytest.mark.parametrize("given", [INT64_MAX, str(INT64_MAX), 0, "0", -1, "-1", "604800000"], ids=shown)
def test_a_whole_number_may_be_given_either_way(given: int | str) -> None:
    expected = None if int(given) == -1 else int(given)
    assert TopicConfig.of({"retention.ms": given}).retention_ms == expected


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [(s.name, s.check.least, s.check.most) for s in SETTINGS if isinstance(s.check, Whole)],
)
def test_bounds_belong_to_the_range_and_their_neighbours_do_not(name: str, least: int, most: int) -> None:
    setting = next(s for s in SETTINGS if s.name == name)
    assert (setting.parse(least), setting.parse(str(most))) == (least, most)
    for outside in (least - 1, most + 1):
        with pytest.raises(InvalidConfig):
            setting.parse(outside)


@pytest.mark.parametrize(
    ("given", "share"), [(0, 0.0), (1, 1.0), ("0", 0.0), ("1.00", 1.0), ("0.25", 0.25), (0.1, 0.1)], ids=shown
)
def test_a_share_is_a_decimal_number_from_nought_to_one(given: float | str, share: float) -> None:
    config = TopicConfig.of({"min.cleanable.dirty.ratio": given})
    assert config.min_cleanable_dirty_ratio == share
    assert type(config.min_cleanable_dirty_ratio) is float


@pytest.mark.parametrize(
    "given",
    [True, None, "1e-1", ".5", "0.", " 0.5", "1.1", -0.1, 1.1, float("nan"), "nan", "inf", "01"],
    ids=shown,
)
def test_nothing_else_is_a_share(given: object) -> None:
    with pytest.raises(InvalidConfig, match="0 to 1"):
        TopicConfig.of({"min.cleanable.dirty.ratio": given})


@pytest.mark.parametrize(
    ("given", "canonical", "compacts", "deletes"),
    [
        ("delete", "delete", False, True),
        ("compact", "compact", True, False),
        ("compact,delete", "compact,delete", True, True),
        ("delete, compact", "compact,delete", True, True),
    ],
)
def test_a_cleanup_policy_is_kept_in_one_order(given: str, canonical: str, compacts: bool, deletes: bool) -> None:
    config = TopicConfig.of({"cleanup.policy": given})
    assert (config.cleanup_policy, config.compacts, config.deletes) == (canonical, compacts, deletes)


@pytest.mark.parametrize(
    "given", ["", ",", "compact,", "compact,compact", "compact;delete", "Compact", "purge", 1, ["compact"]]
)
def test_another_cleanup_policy_is_refused(given: object) -> None:
    with pytest.raises(InvalidConfig, match="one or more of compact, delete"):
        TopicConfig.of({"cleanup.policy": given})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("compression.type", "ZSTD"),
        ("compression.type", "none"),
        ("message.timestamp.type", "createtime"),
        ("lakelog.partitioner", "crc32"),
        ("lakelog.partitioner.null", "random"),
        ("min.insync.replicas", 2),
    ],
)
def test_a_refusal_knows_the_setting_and_the_value(name: str, given: object) -> None:
    with pytest.raises(InvalidConfig, match="it must be") as refused:
        TopicConfig.of({name: given})
    assert (refused.value.setting, refused.value.value) == (name, given)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("retention.md", "retention.ms"),
        ("Retention.ms", "retention.ms"),
        ("lakelog.retention.ms", "retention.ms"),
        ("lakelog.partitoner", "lakelog.partitioner"),
        ("cleanup_policy", "cleanup.policy"),
    ],
)
def test_an_unknown_setting_is_told_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(InvalidConfig, match=f"no such setting; the nearest is {re.escape(nearest)}$") as refused:
        TopicConfig.of({name: 5})
    assert (refused.value.setting, refused.value.value) == (name, 5)


def test_an_unknown_setting_without_a_neighbour_is_still_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"no such setting$"):
        TopicConfig.of({"zzz": 5})


@pytest.mark.parametrize(
    ("name", "given"),
    [("x" * 1_000_000, 1), ("retention.ms", "x" * 1_000_000), ("zzz", "x" * 1_000_000)],
    ids=["name", "value", "value of an unknown setting"],
)
def test_an_error_does_not_repeat_a_megabyte(name: str, given: object) -> None:
    with pytest.raises(InvalidConfig) as refused:
        TopicConfig.of({name: given})
    assert len(str(refused.value)) < 1000


def test_a_number_too_long_to_print_is_refused_like_any_other() -> None:
    with pytest.raises(InvalidConfig, match="16610 bits"):
        TopicConfig.of({"retention.ms": 10**5000})
