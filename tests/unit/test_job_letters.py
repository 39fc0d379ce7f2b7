"""In which stretches given up records are read again, and in which requests their letters go: by values alone."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from jobs.groups.dead_letters import GivenUp, Letter, Origin, cut, stretches
from jobs.source.positions import TopicPartition

PLACES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 3000)))


@given(PLACES)
def test_each_place_is_in_one_stretch_once_with_the_first_of_its_reasons(places: list[tuple[str, int, int]]):
    ordered = sorted(places)
    found = list(stretches(GivenUp(TopicPartition(*of), at, str(n)) for n, (*of, at) in enumerate(ordered)))
    flat = [each for stretch in found for each in stretch]
    assert [(*each.of, each.offset) for each in flat] == sorted(set(places))
    assert [int(each.reason) for each in flat] == [ordered.index((*each.of, each.offset)) for each in flat]
    for stretch in found:
        assert len({each.of for each in stretch}) == 1
        assert all(after.offset - before.offset <= 200 for before, after in pairwise(stretch))


def test_a_stretch_is_bounded_also_where_every_record_is_given_up():
    of = TopicPartition("a", 0)
    assert [len(each) for each in stretches(GivenUp(of, n, "") for n in range(2500))] == [1000, 1000, 500]


def test_letters_go_in_requests_of_so_many_and_of_so_many_bytes():
    def letters(count: int, size: int) -> list[Letter]:
        return [Letter(Origin(0, n), 0, None, bytes(size), [], "") for n in range(count)]

    assert [len(each) for each in cut(letters(2001, 1))] == [1000, 1000, 1]
    assert [len(each) for each in cut(letters(5, 3 << 20))] == [2, 2, 1]
    assert list(cut([])) == []
