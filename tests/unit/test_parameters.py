"""Parameters mean exactly what they are declared to mean, or are refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from ingest_api.web.errors import Refusal
from ingest_api.web.parameters import (
    INT64_MAX,
    Clamped,
    Flag,
    Kind,
    OneOfKinds,
    Parameter,
    Text,
    Whole,
    Words,
    decode_percent,
    parse_query,
)

OFFSET = OneOfKinds((Whole(), Words(("earliest", "latest"))))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Whole(), "0", 0),
        (Whole(), "7", 7),
        (Whole(), str(INT64_MAX), INT64_MAX),
        (Whole(-1), "-1", -1),
        (Clamped(1, 9), "0", 1),
        (Clamped(1, 9), "5", 5),
        (Clamped(1, 9), "10", 9),
        (Clamped(1, 9), "9" * 19, 9),
        (Clamped(1, 9), "9" * 20, 9),
        (Clamped(1, 9), "9" * 5000, 9),
        (Flag(), "true", True),
        (Flag(), "false", False),
        (Words(("a", "b")), "b", "b"),
        (Text(3), "abc", "abc"),
        (Text(3, "[a-c]+"), "cab", "cab"),
        (OFFSET, "latest", "latest"),
        (OFFSET, "12", 12),
    ],
)
def test_a_value_that_fits_is_taken(kind: Kind, text: str, value: Any):
    assert kind.parse(text) == value


@pytest.mark.parametrize("kind", [Whole(), Clamped(0, 9), Flag(), Words(("a",)), OFFSET, Text(2, "[a-c]+")])
@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "+1", "01", "1e3", "1.0", "0x1", "\N{ARABIC-INDIC DIGIT ONE}", "-0", "--1", "TRUE", "A", "1\n"],
)
def test_nothing_is_coerced_or_repaired(kind: Kind, text: str):
    assert kind.parse(text) is None


@pytest.mark.parametrize("text", ["-1", str(INT64_MAX + 1), "9" * 5000, "-" + "9" * 5000])
def test_a_number_outside_of_its_bounds_is_refused(text: str):
    assert Whole().parse(text) is None
    assert OFFSET.parse(text) is None


@pytest.mark.parametrize("text", ["-1", "-9223372036854775808"])
def test_what_is_clamped_is_not_negative(text: str):
    assert Clamped(0, 9).parse(text) is None


def test_text_has_a_most():
    assert Text(3).parse("abcd") is None


def test_each_kind_says_what_it_is_and_has_a_schema():
    for kind in (Whole(), Clamped(1, 2), Words(("a",)), Flag(), Text(), Text(3, "a"), OFFSET):
        assert str(kind)
        assert kind.schema()


DECLARED = (Parameter("offset", OFFSET, "Where."), Parameter("most", Clamped(1, 9), "How many.", default=4))


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b"", {"offset": None, "most": 4}),
        (b"offset=7", {"offset": 7, "most": 4}),
        (b"offset=earliest&most=2", {"offset": "earliest", "most": 2}),
        (b"&&offset=7&", {"offset": 7, "most": 4}),
        (b"%6fffset=%37", {"offset": 7, "most": 4}),
    ],
)
def test_a_query_gives_what_is_said_and_the_defaults(raw: bytes, values: dict[str, Any]):
    assert parse_query(raw, DECLARED) == values


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"ofset=1", "'ofset'"),
        (b"=1", "there is no query parameter ''"),
        (b"offset=1&offset=1", "given twice"),
        (b"offset=1&%6fffset=2", "given twice"),
        (b"offset", "a whole number"),
        (b"offset=-1", "'-1'"),
        (b"offset=1%0a", "cannot be used"),
        (b"offset=%ff", "UTF-8"),
        (b"%ff=1", "UTF-8"),
        (b"offset=" + b"9" * 5000, "…"),
        (b"most=x", "it is clamped to 1 to 9"),
    ],
)
def test_a_query_that_is_not_what_is_declared_is_refused_by_name(raw: bytes, said: str):
    with pytest.raises(Refusal) as refused:
        parse_query(raw, DECLARED)
    assert refused.value.status == 422
    assert said in refused.value.message
    assert len(refused.value.message) < 400


def test_a_parameter_that_is_needed_is_asked_for():
    needed = (Parameter("id", Text(), "Which.", required=True),)
    with pytest.raises(Refusal, match="the query parameter id is needed"):
        parse_query(b"", needed)
    assert parse_query(b"id=a", needed) == {"id": "a"}


def test_a_plus_is_a_space_in_a_query_and_itself_in_a_path():
    assert parse_query(b"t=a+b%2B", (Parameter("t", Text(), "Some."),)) == {"t": "a b+"}
    assert decode_percent(b"a+b%2F%c3%a9") == "a+b/é"
    with pytest.raises(Refusal):
        decode_percent(b"%c3")
