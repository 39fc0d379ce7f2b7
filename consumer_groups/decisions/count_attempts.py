"""Counting failed attempts: records in flight when a member went count as one each, in a row of the group.

    session expired, poll overdue, or its static successor joined               counted
    it left, and reported that it failed                                        counted
    it left, sought, gave partitions up, or an answer was lost                  not counted

Nothing is counted at delivery, so a healthy group pays nothing. Records that are committed are done with, and so are
those after which the member polled again. Only a record that was alone in flight can reach the maximum: members may
die at the same time, and one may have lost a partition to the other before. It knows a draft; it must not know what
becomes of records tried too often.
"""

from __future__ import annotations

from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.delivery_attempts import Attempts
from consumer_groups.model.records import AttemptsRecord, MemberRecord
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import Settled, Tried


def count_attempts(draft: Draft, member: MemberRecord, *, done: int | None = None, received: int | None = None) -> None:
    """Count what a member that goes has in flight; called after what it commits by going.

    `done` and `received`: the last answer it is done with, and the last that reached it, if it reports them.
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
    """Drop the counts of a partition below an offset, or all of them."""
    known = draft.attempts(topic_id, partition.partition)
    if known.stretches and (below is None or known.stretches[0].first < below):
        left = Attempts() if below is None else known.forget_below(below)
        put_attempts(draft, partition, topic_id, left)


def _first_open(draft: Draft, tried: Tried) -> int:
    """First offset of an answer that is open; below, records are done with, or were delivered again after a seek."""
    number = tried.partition.partition
    position = draft.position(tried.topic_id, number)
    resolved = None if position is None else position.resolved
    open_from = draft.committed(tried.topic_id, number) if resolved is None else resolved
    return max(tried.first, open_from or 0)
