"""Names and ids: what is admitted, and that a refusal says which rule was broken."""

from __future__ import annotations

import pytest

from delta_log.model.errors import InvalidName
from delta_log.model.names import check_id, check_topic_name, collision_key


@pytest.mark.parametrize(
    "name",
    ["a", "orders", "Orders.v2", "a..b", "_x", "_delta_log2", "0-9_A", "x" * 249, "a.-"],
)
def test_a_name_within_the_rules_is_a_topic_name(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "1 to 249 characters, not 0"),
        ("x" * 250, "1 to 249 characters, not 250"),
        (".", "reserved"),
        ("..", "reserved"),
        ("_delta_log", "reserved"),
        ("-x", "does not begin"),
        (".x", "does not begin"),
        ("...", "does not begin"),
        ("x.", "does not end"),
        ("a/b", "only ASCII"),
        ("a\\b", "only ASCII"),
        ("a b", "only ASCII"),
        ("a%2fb", "only ASCII"),
        ("orders\n", "only ASCII"),
        ("\norders", "only ASCII"),
        ("a\0", "only ASCII"),
        ("bücher", "only ASCII"),
        ("orders٣", "only ASCII"),
        ("\u017f", "only ASCII"),
        ("\ud800", "only ASCII"),
        ("__consumer_offsets", "internal"),
        ("__", "internal"),
    ],
)
def test_a_refused_topic_name_says_which_rule_it_breaks(name: str, rule: str) -> None:
    with pytest.raises(InvalidName, match=rule) as refused:
        check_topic_name(name)
    assert refused.value.name == name


def test_internal_names_are_admitted_only_on_request() -> None:
    check_topic_name("__consumer_offsets", internal=True)


@pytest.mark.parametrize("name", ["", "..", "_delta_log", "__a/b", "__a.", "-x"])
def test_an_internal_name_obeys_all_other_rules(name: str) -> None:
    with pytest.raises(InvalidName):
        check_topic_name(name, internal=True)


@pytest.mark.parametrize(("one", "other"), [("Orders", "orders"), ("a.b", "a_b"), ("A.B_c", "a_b.C")])
def test_names_that_differ_only_in_case_or_dots_collide(one: str, other: str) -> None:
    assert collision_key(one) == collision_key(other)


@pytest.mark.parametrize(("one", "other"), [("a-b", "a_b"), ("ab", "a_b"), ("a", "b")])
def test_other_names_do_not_collide(one: str, other: str) -> None:
    assert collision_key(one) != collision_key(other)


@pytest.mark.parametrize("text", ["a", "group 1", "../x", "Grüße", "漢字", "🙂", "x" * 255, "ü" * 127 + "x", "🙂" * 63])
def test_an_id_is_almost_any_text(text: str) -> None:
    check_id("group id", text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "1 to 255 bytes of UTF-8, not 0"),
        ("x" * 256, "1 to 255 bytes of UTF-8, not 256"),
        ("ü" * 128, "1 to 255 bytes of UTF-8, not 256"),
        ("a\ud800", "lone surrogate"),
        ("a\n", "control"),
        ("\0", "control"),
        ("a\x1f", "control"),
        ("a\x7f", "control"),
        ("a\x80", "control"),
        ("a\x9f", "control"),
        ("a\u2028", "control"),
        ("a\u2029b", "control"),
        ("u\u0308", "normal form C"),
        ("\u212b", "normal form C"),
    ],
)
def test_a_refused_id_says_whose_it_is_and_which_rule_it_breaks(text: str, rule: str) -> None:
    with pytest.raises(InvalidName, match=f"a member id .*{rule}"):
        check_id("member id", text)


def test_the_neighbours_of_the_control_characters_are_admitted() -> None:
    check_id("group id", " ~\xa0\u2027\u202a")


@pytest.mark.parametrize("text", ["x" * 1_000_000, "a" + "\ud800" * 1_000_000], ids=["too long", "not UTF-8"])
def test_an_error_does_not_repeat_a_megabyte(text: str) -> None:
    with pytest.raises(InvalidName) as refused:
        check_id("group id", text)
    assert len(str(refused.value)) < 3000
    assert refused.value.name.startswith(text[:100])
