"""What a message shows of what it was given."""

from dataclasses import dataclass
from enum import Enum

from hypothesis import given
from hypothesis import strategies as st

from delta_log.model.quoting import quoted, tell, tidy


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


SHOWN = [
    ("a b", "'a b'"),
    (b"text/html", "'text/html'"),
    (b"\xff\x00", r"'ÿ\x00'"),
    ("a\nb\x1b[31m\u202e", r"'a\nb\x1b[31m\u202e'"),
    ("x" * 101, "'" + "x" * 100 + "…'"),
    (None, "null"),
    (True, "true"),
    (7, "7"),
    (1.5, "1.5"),
    ({"a": [None, False]}, '{"a": [null, false]}'),
    ((1, "b"), '[1, "b"]'),
    ({"a": "\x00"}, r'{"a": "\u0000"}'),
    ([b"b"], '["b"]'),
    (Colour.RED, "'red'"),
    (Point(1), "of type Point"),
    ([Point(1)], '["of type Point"]'),
    (10**5000, "a number without end"),
    ([10**5000], "of type list"),
]


def test_a_value_is_shown_as_json_or_text_has_it():
    for value, shown in SHOWN:
        assert quoted(value) == shown


def test_a_reason_is_told_as_it_is():
    assert tell("the disk is full") == "the disk is full"
    assert tell(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"
    assert tell(ValueError()) == "ValueError"
    assert tell(None) == "null"


@given(st.text(max_size=5000))
def test_a_message_is_one_bounded_line(message: str):
    tidied = tidy(message)
    assert tidied.isprintable()
    assert len(tidied) <= 2001
    if message.isprintable() and len(message) <= 2000:
        assert tidied == message


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.binary(), st.lists))
def test_whatever_is_quoted_is_one_bounded_line(value: object):
    assert quoted(value).isprintable()
    assert len(quoted(value)) <= 500
