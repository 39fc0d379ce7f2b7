"""Timeouts of a group: sessions, polls, revocations, auto-commits.

    session.timeout.ms     without any request: the member is removed
    max.poll.interval.ms   it lives, but does not poll: it owns nothing until it does
    rebalance.timeout.ms   a revoked partition waits no longer: its owner is fenced for it
    auto.commit.interval.ms

A member does not expire during its own poll. After loading, nothing expires until `begin`.
"""

from __future__ import annotations

import msgspec

from consumer_groups.decisions.count_attempts import count_attempts
from consumer_groups.decisions.membership import remove
from consumer_groups.decisions.positions import commit_all_owed
from consumer_groups.decisions.rebalance import release_all, release_revoked, retarget
from consumer_groups.model.cluster import Cluster
from consumer_groups.model.records import MemberRecord
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import AutoCommitted, Presence
from consumer_groups.state.state import Group


def next_deadline(group: Group) -> int | None:
    """Time at which to call `decide_expiry` again; earlier does no harm."""
    deadlines: list[int] = []
    for member_id, presence in group.presences.items():
        member = group.members[member_id]
        deadlines += [
            each
            for each in (
                _session_end(member, presence),
                _poll_end(group, member, presence),
                _auto_commit(member, presence),
                min(presence.revoke_by_ms.values(), default=None),
            )
            if each is not None
        ]
    return min(deadlines, default=None)


def decide_expiry(group: Group, cluster: Cluster, now_ms: int) -> Decision[tuple[str, ...]]:
    """Expire everything that is due; answers the members removed."""
    draft = Draft(group, cluster, now_ms)
    expired: list[str] = []
    lapsed: list[MemberRecord] = []
    for member_id, presence in group.presences.items():
        member = group.members[member_id]
        if _is_due(_session_end(member, presence), now_ms):
            remove(draft, member, came_back=False)
            count_attempts(draft, member)
            expired.append(member_id)
        elif _is_due(_poll_end(group, member, presence), now_ms):
            release_all(draft, member, came_back=False)
            count_attempts(draft, member)
            draft.put_member(msgspec.structs.replace(member, standing="lapsed"))
            lapsed.append(member)
    if expired or lapsed:
        retarget(draft)
    for member in lapsed:  # its generation ended with the old target
        draft.put_member(msgspec.structs.replace(member, standing="lapsed", since=draft.generation))
    for member_id, presence in group.presences.items():
        if member_id in draft.members:
            _expire_within(draft, draft.members[member_id], presence)
    return draft.decide(tuple(expired))


def _expire_within(draft: Draft, member: MemberRecord, presence: Presence) -> None:
    if _is_due(_auto_commit(member, presence), draft.now_ms):
        commit_all_owed(draft, member, came_back=False)
        draft.notes.append(AutoCommitted(member.member_id, draft.now_ms))
    held = draft.holding(member.member_id)
    revoking = () if held is None else held.revoking
    overdue = [each for each in revoking if presence.revoke_by_ms.get(each, draft.now_ms + 1) <= draft.now_ms]
    if overdue:
        release_revoked(draft, member, overdue, came_back=False)


def _session_end(member: MemberRecord, presence: Presence) -> int | None:
    if presence.heard_at_ms is None:
        return None
    return max(presence.heard_at_ms + member.options.session_timeout_ms, presence.polling_until_ms or 0)


def _poll_end(group: Group, member: MemberRecord, presence: Presence) -> int | None:
    if presence.polled_at_ms is None or member.standing != "active" or member.member_id not in group.holdings:
        return None
    if not member.options.polls:
        return None
    polled_at_ms = max(presence.polled_at_ms, presence.polling_until_ms or 0)
    return polled_at_ms + member.options.max_poll_interval_ms


def _auto_commit(member: MemberRecord, presence: Presence) -> int | None:
    if not presence.unsettled or presence.committed_at_ms is None or not member.options.auto_commit_enable:
        return None
    return presence.committed_at_ms + member.options.auto_commit_interval_ms


def _is_due(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms
