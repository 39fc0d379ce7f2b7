"""What a member had in hand when it went was tried in vain; a row of the group keeps count.

    it was not heard of, did not poll in time, or its static successor came     counted
    it left, and said that it failed                                            counted
    it left, sought, gave partitions up, or an answer was lost                  not counted

Nothing is counted where records are given, so it costs a healthy group nothing. What is committed is done with, and
so is what its member came back from. Only what was alone in the hands of who died of it is tried as often as it may be:
members may go at the same time, and one may have lost a partition to the other before. It knows a draft; it must not
know what becomes of what was tried too often.
"""

from __future__ import annotations

from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.delivery_attempts import Attempts
from consumer_groups.model.records import AttemptsRecord, MemberRecord
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import Settled, Tried


def count_attempts(draft: Draft, member: MemberRecord, *, done: int | None = None, received: int | None = None) -> None:
    """It goes: to be asked behind what it commits by going.

    `done` and `received` are the numbers of the last answers that it is done with, and that reached it, if it says so.
    """
    tried, most = draft.presence(member.member_id).tried, member.options.most_attempts
    draft.notes.append(Settled(member.member_id))
    if most is None:
        return
    in_hand: dict[tuple[TopicPartition, str, bool], Attempts] = {}
    for each in tried:
        if (done is None or each.answer > done) and (received is None or each.answer <= received):
            key = each.partition, each.topic_id, each.last_try
            in_hand[key] = in_hand.get(key, Attempts()).add(_first_open(draft, each), each.next_offset)
    for (partition, topic_id, last_try), once in in_hand.items():
        if once.stretches and topic_id in draft.cluster.ids:
            attempts, alone = draft.attempts(topic_id, partition.partition), last_try and len(in_hand) == 1
            for each in once.stretches:
                attempts = attempts.add(each.first, each.next_offset, most if alone else most - 1, alone=alone)
            put_attempts(draft, partition, topic_id, attempts)


def put_attempts(draft: Draft, partition: TopicPartition, topic_id: str, attempts: Attempts) -> None:
    record = AttemptsRecord(
        group=draft.group.name,
        topic=partition.topic,
        topic_id=topic_id,
        partition=partition.partition,
        stretches=attempts.stretches,
    )
    if attempts.stretches:
        draft.put(record)
    else:
        draft.drop(record.key)


def forget_attempts(draft: Draft, partition: TopicPartition, topic_id: str, *, below: int | None = None) -> None:
    """What is passed, or all of it."""
    known = draft.attempts(topic_id, partition.partition)
    if known.stretches and (below is None or known.stretches[0].first < below):
        left = Attempts() if below is None else known.forget_below(below)
        put_attempts(draft, partition, topic_id, left)


def _first_open(draft: Draft, tried: Tried) -> int:
    """What lies before is done with, or was sought in spite of that."""
    number = tried.partition.partition
    position = draft.position(tried.topic_id, number)
    resolved = None if position is None else position.resolved
    open_from = draft.committed(tried.topic_id, number) if resolved is None else resolved
    return max(tried.first, open_from or 0)
