"""JSON objects are found in a stream of bytes, however it is cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest_api.routes.v3.json_objects import JsonObjects

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\{}[]:, \n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(alphabet='a"\\{}', max_size=3), VALUES, max_size=3), max_size=4)


def find(text: bytes, cuts: list[int], most: int = 1 << 20) -> tuple[list[bytes], str | None]:
    objects = JsonObjects(most)
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    found = [one for start, end in pairwise(places) for one in objects.feed(text[start:end])]
    objects.end()
    return found, objects.fault


@given(OBJECTS, st.lists(st.integers(0, 1000), max_size=8), st.sampled_from(["", "\n", " \t\r\n"]))
def test_every_object_is_found_wherever_the_stream_is_cut(objects: list[dict[str, object]], cuts: list[int], gap: str):
    text = gap + gap.join(json.dumps(each, ensure_ascii=False) for each in objects) + gap
    found, fault = find(text.encode(), cuts)
    assert fault is None
    assert [json.loads(each) for each in found] == objects


@given(st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=6))
def test_what_is_found_does_not_depend_on_the_cuts(text: bytes, cuts: list[int]):
    assert find(text, cuts) == find(text, [])


@pytest.mark.parametrize(
    ("text", "count", "fault"),
    [
        (b"", 0, None),
        (b" \n ", 0, None),
        (b"{}", 1, None),
        (b"{}{}", 2, None),
        (b"{},{}", 1, "white space"),
        (b"[{}]", 0, "white space"),
        (b"{}x", 1, "white space"),
        (b'{"a": "}"', 0, "not complete"),
        (b'{"a', 0, "not complete"),
        (b"null", 0, "white space"),
        (b"{}}", 1, "white space"),
        (b"{]{}", 2, None),
    ],
)
def test_what_lies_between_objects_ends_the_stream(text: bytes, count: int, fault: str | None):
    found, said = find(text, [])
    assert len(found) == count
    assert (fault is None) == (said is None)
    assert fault is None or fault in (said or "")


def test_an_object_that_never_ends_is_not_kept():
    objects = JsonObjects(100)
    assert objects.feed(b"{" + b" " * 100) == []
    assert objects.fault is not None
    assert objects.feed(b"}") == []


def test_white_space_is_not_kept():
    objects = JsonObjects(100)
    for _ in range(100):
        assert objects.feed(b" " * 90) == []
    assert objects.fault is None
    assert objects.feed(b"{}") == [b"{}"]
