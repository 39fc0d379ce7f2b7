"""What commits say of how far a table is, and where dead letters are looked for: by values alone."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from jobs.groups.dead_letters import Letter, Origin, as_rows, origin_of, without_value
from jobs.materialize.commit_marks import Mark, find_mark, sink_of
from jobs.materialize.dead_letter_bookmark import Seen, bookmark

SINK = sink_of("c", "orders")
POSITIONS = st.dictionaries(st.integers(0, 20), st.integers(0, 2**63 - 1))


@given(POSITIONS, POSITIONS, POSITIONS)
def test_a_mark_is_what_was_written_down(first: dict[int, int], ends: dict[int, int], letters: dict[int, int]):
    mark = Mark(SINK, 1, "run", first, topic_id="i").following("other", ends, letters, rows=3, bad=1)
    assert find_mark([mark.to_json()], SINK) == mark


def test_a_batch_follows_its_mark_and_keeps_the_positions_of_partitions_that_it_has_not():
    mark = Mark(SINK, 6, "a", {0: 5, 1: 7}).following("b", {0: 9, 1: 7, 2: 4}, {0: 1}, rows=6, bad=2)
    assert (mark.batch, mark.run) == (7, "b")
    assert (mark.next, mark.began) == ({0: 9, 1: 7, 2: 4}, {0: 5})
    assert (mark.letters, mark.rows, mark.bad) == ({0: 1}, 6, 2)


def test_the_newest_mark_of_the_sink_counts_and_what_others_say_does_not():
    of_another = Mark(sink_of("c", "clicks"), 9, "r").to_json()
    older, newer = Mark(SINK, 1, "r").to_json(), Mark(SINK, 2, "r").to_json()
    texts = [None, "", "OPTIMIZE", "[]", "3", '{"lakelog": 1}', '{"lakelog": {"sink": "x"}}', of_another, newer, older]
    found = find_mark(texts, SINK)
    assert found is not None
    assert found.batch == 2
    assert find_mark(texts[:-2], SINK) is None


def letter(partition: int = 3, offset: int = 8) -> Letter:
    headers = [("own", b"1"), ("lakelog.dlq.offset", b"77"), ("null", None)]
    return Letter(Origin(partition, offset), 123, b"k", b"v", headers, "why" * 1000)


def test_a_letter_is_the_record_with_the_origin_behind_its_own_headers():
    (row,) = as_rows([letter()], "orders", "g", 2).to_pylist()
    assert (row["key"], row["value"], row["partition"]) == (b"k", b"v", 1)
    headers = [(each["key"], each["value"]) for each in row["headers"]]
    assert headers[:3] == [("own", b"1"), ("lakelog.dlq.offset", b"77"), ("null", None)]
    assert dict(headers[3:-1]) == {
        "lakelog.dlq.topic": b"orders",
        "lakelog.dlq.partition": b"3",
        "lakelog.dlq.offset": b"8",
        "lakelog.dlq.timestamp": b"123",
        "lakelog.dlq.group": b"g",
        "lakelog.dlq.attempts": b"1",
    }
    assert headers[-1] == ("lakelog.dlq.reason", b"why" * 333 + b"w")


def test_a_letter_is_known_again_by_the_last_of_its_headers_and_no_other_is():
    (row,) = as_rows([letter()], "orders", "g", 2).to_pylist()
    assert origin_of(row["headers"], "orders", "g") == Origin(3, 8)
    assert origin_of(row["headers"], "orders", "other") is None
    assert origin_of(row["headers"], "clicks", "g") is None
    assert origin_of(None, "orders", "g") is None
    odd = [each for each in row["headers"] if each["key"] != "lakelog.dlq.partition"]
    assert origin_of(odd, "orders", "g") is None
    assert origin_of([*row["headers"], {"key": "lakelog.dlq.offset", "value": b"x"}], "orders", "g") is None


def test_a_letter_that_is_too_large_still_says_where_the_record_is():
    (row,) = as_rows([without_value(letter())], "orders", "g", 1).to_pylist()
    assert row["key"] is row["value"] is None
    assert origin_of(row["headers"], "orders", "g") == Origin(3, 8)
    assert row["headers"][-1] == {"key": "lakelog.dlq.left_out", "value": b"key, value and headers"}


def test_the_next_look_begins_before_every_letter_of_a_record_that_was_not_reached():
    seen = [Seen(0, 10, Origin(0, 5)), Seen(0, 12, Origin(0, 9)), Seen(0, 13, Origin(1, 1)), Seen(2, 4, Origin(7, 0))]
    assert bookmark({0: 20, 1: 3}, seen, {0: 9, 1: 2}) == {0: 12, 1: 3, 2: 4}
    assert bookmark({0: 20, 1: 3}, seen, {0: 10, 1: 2, 7: 1}) == {0: 20, 1: 3}


def test_a_mark_is_one_line_under_a_name_of_its_own():
    text = Mark(SINK, 1, "r", {1: 2}).to_json()
    assert "\n" not in text
    assert list(json.loads(text)) == ["lakelog"]
