"""Laws of the assignors, against references that try everything or share no code with them."""

from __future__ import annotations

from collections import Counter
from itertools import cycle, pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from consumer_groups.model.assignment import ASSIGNORS, Assignment, Subscriber, TopicPartition, check_assignment
from tests.support.assigning import count_kept, every_partition, find_better, sum_of_squares, taken_away, with_owned

TOPICS = ("a", "b", "c", "d")
sticky = ASSIGNORS["sticky"]

names = st.sampled_from(sorted(ASSIGNORS))
topic_sets = st.frozensets(st.sampled_from((*TOPICS, "gone")), max_size=5)
partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9), max_size=4)
claims = st.frozensets(st.builds(TopicPartition, st.sampled_from((*TOPICS, "gone")), st.integers(0, 10)), max_size=12)
member_ids = st.text(st.sampled_from("aZ09-\ue000\U0001f600"), min_size=1, max_size=3)


def groups(most: int = 7, owned: st.SearchStrategy[frozenset[TopicPartition]] = claims):
    """Groups whose members differ in everything, and claim whatever they like."""
    one = st.tuples(topic_sets, st.booleans(), owned)
    return st.dictionaries(member_ids, one, min_size=1, max_size=most).map(
        lambda members: [
            Subscriber(name, topics, f"instance of {name}" if static else None, its)
            for name, (topics, static, its) in members.items()
        ]
    )


def alike(most: int = 8):
    """Groups whose members all have the same subscription."""
    return st.integers(1, most).map(lambda count: [Subscriber(f"m{at}", frozenset(TOPICS)) for at in range(count)])


def in_order(subscribers: list[Subscriber]) -> list[Subscriber]:
    """Static members first; within both, by UTF-16 code units."""

    def units(text: str) -> list[int]:
        raw = text.encode("utf-16-be")
        return [raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2)]

    static = sorted((one for one in subscribers if one.instance_id), key=lambda one: units(one.instance_id or ""))
    return static + sorted((one for one in subscribers if not one.instance_id), key=lambda one: units(one.member_id))


def loads(assignment: Assignment) -> list[int]:
    return sorted(map(len, assignment.values()))


@given(names, groups(), partition_counts)
def test_every_partition_of_a_subscribed_topic_has_exactly_one_owner_who_subscribed_to_it(name, group, partitions):
    assignment = ASSIGNORS[name](group, partitions)
    topics = {one.member_id: one.topics for one in group}
    assert assignment.keys() == topics.keys()
    assert Counter(tp for its in assignment.values() for tp in its) == Counter(every_partition(group, partitions))
    assert all(tp.topic in topics[member_id] for member_id, its in assignment.items() for tp in its)
    check_assignment(group, partitions, assignment)


@given(names, groups(), partition_counts, st.randoms(use_true_random=False))
def test_the_order_in_which_members_and_topics_are_given_does_not_matter(name, group, partitions, random):
    first = ASSIGNORS[name](group, partitions)
    random.shuffle(group)
    topics = list(partitions.items())
    random.shuffle(topics)
    assert ASSIGNORS[name](group, dict(topics)) == first


@given(names, alike(), st.integers(0, 6))
def test_surplus_members_own_nothing(name, group, count):
    assignment = ASSIGNORS[name](group, {"a": count})
    assert sum(not its for its in assignment.values()) == max(0, len(group) - count)


@given(groups(), partition_counts)
def test_range_cuts_each_topic_into_runs_of_which_the_first_are_one_longer(group, partitions):
    assignment = ASSIGNORS["range"](group, partitions)
    for topic, count in partitions.items():
        members = [one.member_id for one in in_order(group) if topic in one.topics]
        runs = [sorted(tp.partition for tp in assignment[member_id] if tp.topic == topic) for member_id in members]
        if members:
            assert [number for run in runs for number in run] == list(range(count))
            assert all(0 <= len(left) - len(right) <= 1 for left, right in pairwise(runs))
            assert len(runs[0]) - len(runs[-1]) <= 1


@given(groups(), partition_counts)
def test_round_robin_deals_the_row_of_all_partitions_to_the_circle_of_all_members(group, partitions):
    expected: dict[str, set[TopicPartition]] = {one.member_id: set() for one in group}
    circle = cycle(in_order(group))
    for tp in sorted(every_partition(group, partitions)):
        taker = next(one for one in circle if tp.topic in one.topics)
        expected[taker.member_id].add(tp)
    assert ASSIGNORS["roundrobin"](group, partitions) == expected


@given(alike(), partition_counts, st.data())
def test_sticky_and_round_robin_divide_equal_subscriptions_to_within_one(group, partitions, data):
    group = [Subscriber(one.member_id, one.topics, None, data.draw(claims)) for one in group]
    for name in ("sticky", "roundrobin"):
        least, *_, most = loads(ASSIGNORS[name](group, partitions)) * 2
        assert most - least <= 1


@given(groups(), partition_counts)
def test_no_single_move_makes_sticky_more_even(group, partitions):
    assignment = sticky(group, partitions)
    for its in assignment.values():
        topics = {tp.topic for tp in its}
        takers = [one.member_id for one in group if one.topics & topics]
        assert all(len(its) - len(assignment[taker]) <= 1 for taker in takers)


tiny_counts = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3).filter(
    lambda partitions: sum(partitions.values()) <= 6
)


@given(groups(most=3), tiny_counts)
def test_no_assignment_at_all_is_more_even_than_sticky_and_none_as_even_keeps_more(group, partitions):
    wanted = sorted(every_partition(group, partitions))
    best = max(
        (-sum_of_squares(assignment), count_kept(group, assignment))
        for owners in product(*([one.member_id for one in group if tp.topic in one.topics] for tp in wanted))
        for assignment in [
            {one.member_id: frozenset(tp for tp, owner in zip(wanted, owners, strict=True) if owner == one.member_id)
             for one in group}
        ]
    )  # fmt: skip
    chosen = sticky(group, partitions)
    assert (-sum_of_squares(chosen), count_kept(group, chosen)) == best


@st.composite
def hoarding_groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[str, int]]:
    """Groups of few topics each, in which some own long runs of partitions."""
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 30), min_size=1))
    topics = draw(st.lists(st.frozensets(st.sampled_from(TOPICS), min_size=1, max_size=3), min_size=2, max_size=6))
    owned: list[set[TopicPartition]] = [set() for _ in topics]
    runs = st.lists(st.tuples(st.integers(0, len(topics) - 1), st.integers(1, 15)), max_size=6)
    for topic, count in partitions.items():
        owners = [owner for owner, length in draw(runs) for _ in range(length)]
        for number, owner in zip(range(count), owners, strict=False):
            owned[owner].add(TopicPartition(topic, number))
    group = [
        Subscriber(f"m{at}", its, None, frozenset(its_own))
        for at, (its, its_own) in enumerate(zip(topics, owned, strict=True))
    ]
    return group, partitions


@given(hoarding_groups())
def test_no_row_of_members_could_pass_partitions_on_for_the_better(hoarding):
    group, partitions = hoarding
    assert find_better(group, sticky(group, partitions)) is None


@given(groups(), partition_counts)
def test_sticky_moves_nothing_of_its_own_outcome(group, partitions):
    first = sticky(group, partitions)
    assert sticky(with_owned(group, first), partitions) == first


@given(groups(owned=st.just(frozenset())), partition_counts, st.data())
def test_sticky_moves_no_more_than_it_must_when_anything_changes(group, partitions, data):
    """Who is left, and what is still there and wanted: giving a lost partition back never does without a price."""
    before = sticky(group, partitions)
    later = data.draw(partition_counts)
    rest = with_owned(data.draw(st.lists(st.sampled_from(group), unique_by=lambda one: one.member_id)), before)
    newcomers = [
        Subscriber(f"new {at}", topics) for at, topics in enumerate(data.draw(st.lists(topic_sets, max_size=2)))
    ]
    after_group = [*rest, *newcomers]
    after = sticky(after_group, later)
    check_assignment(after_group, later, after)
    owner_now = {tp: member_id for member_id, its in after.items() for tp in its}
    for one in rest:
        for tp in one.owned - after[one.member_id]:
            if tp in owner_now:  # given back, it would leave less even loads
                assert len(after[owner_now[tp]]) <= len(after[one.member_id])


@given(alike(), partition_counts, st.data())
def test_who_leaves_moves_its_own_partitions_and_no_others(group, partitions, data):
    group = with_owned(group, sticky(group, partitions))
    rest = data.draw(st.lists(st.sampled_from(group), unique_by=lambda one: one.member_id))
    assert taken_away(rest, sticky(rest, partitions)) == frozenset()


@given(alike(), partition_counts, st.integers(1, 4))
def test_who_joins_takes_what_its_share_needs_and_nothing_else_moves(group, partitions, count):
    newcomers = [Subscriber(f"new {at}", frozenset(TOPICS)) for at in range(count)]
    joined = [*with_owned(group, sticky(group, partitions)), *newcomers]
    after = sticky(joined, partitions)
    assert taken_away(joined, after) == frozenset().union(*(after[one.member_id] for one in newcomers))
    share, longer = divmod(sum(partitions.values()), len(joined))
    may_stay = sum(min(len(one.owned), share) for one in joined)
    may_stay += min(longer, sum(len(one.owned) > share for one in joined))
    assert count_kept(joined, after) == may_stay


@given(alike(), partition_counts)
def test_who_claims_what_another_claims_has_it_alone_or_not_at_all(group, partitions):
    everything = frozenset(every_partition(group, partitions))
    liars = [Subscriber(one.member_id, one.topics, None, everything) for one in group]
    assert sticky(liars, partitions) == sticky(group if len(group) > 1 else liars, partitions)
