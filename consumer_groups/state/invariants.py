"""Invariants of a group, true after every step. For tests and debugging."""

from __future__ import annotations

from consumer_groups.model.assignment import TopicPartition
from consumer_groups.state.state import Group, Groups, Holding


def check_invariants(group: Group) -> None:
    """Raise AssertionError with the first law that is broken."""
    _check_owners(group)
    _check_targets(group)
    _check_members(group)
    _check_memory(group)
    _check_rebuilt(group)


def _law(holds: object, law: str, *facts: object) -> None:
    if not holds:
        raise AssertionError(f"{law}: {', '.join(map(repr, facts))}")


def _check_owners(group: Group) -> None:
    owners: dict[TopicPartition, str] = {}
    for member_id, held in group.holdings.items():
        _law(not held.assigned.keys() & held.revoking.keys(), "a partition is assigned or revoked", member_id)
        _law(held.assigned.keys() <= held.target, "what is read on is in the target", member_id, held)
        for partition, epoch in (held.assigned | held.revoking).items():
            _law(partition not in owners, "one owner", partition, member_id, owners.get(partition))
            _law(epoch <= group.generation, "nothing is given in a later generation", partition, epoch)
            owners[partition] = member_id
    _law(owners == group.owners, "the owners are those of the holdings", owners, group.owners)


def _check_targets(group: Group) -> None:
    wanted: dict[TopicPartition, str] = {}
    for member_id, held in group.holdings.items():
        for partition in held.target:
            _law(partition not in wanted, "one target", partition, member_id)
            wanted[partition] = member_id
    _law(wanted == group.wanted, "the wanted are those of the targets", wanted, group.wanted)
    for partition in wanted:
        _law(partition in group.owners, "what is wanted is not free", partition)
    known = {TopicPartition(topic.topic, each) for topic in group.topics.values() for each in range(topic.partitions)}
    _law(not group.holdings or known == wanted.keys(), "every partition has a target", known ^ wanted.keys())


def _check_members(group: Group) -> None:
    subscribed = {name for name, each in group.members.items() if each.subscribed and each.standing != "lapsed"}
    _law(subscribed == group.holdings.keys(), "who subscribes has a holding", subscribed, list(group.holdings))
    statics = {each.options.group_instance_id: name for name, each in group.members.items()}
    statics.pop(None, None)
    _law(statics == group.statics, "one member for each static name", statics, group.statics)
    for member in group.members.values():
        modes = [each for each in (member.topics, member.pattern, member.manual) if each is not None]
        _law(len(modes) <= 1, "topics, pattern and assignment exclude each other", member)
        _law(member.since <= group.generation, "nobody comes from the future", member)


def _check_memory(group: Group) -> None:
    _law(group.presences.keys() == group.members.keys(), "who is a member is remembered")
    for member_id, presence in group.presences.items():
        held, member = group.holdings.get(member_id, Holding()), group.members[member_id]
        owned = held.assigned.keys() | held.revoking.keys()
        manual = {TopicPartition(*each) for each in member.manual or ()}
        _law(owned <= presence.places.keys() <= owned | manual, "places are of what is owned", member_id)
        _law(presence.revoke_by_ms.keys() <= held.revoking.keys(), "only what is revoked has a deadline", member_id)
        for partition, place in presence.places.items():
            _law((place.acked or 0) <= (place.delivered or 0), "settled is delivered", partition, place)
            _law((place.position or 0) >= (place.delivered or 0), "what is delivered is passed", partition, place)


def _check_rebuilt(group: Group) -> None:
    """Check that replaying the latest records, in any order, gives the same state."""
    for records in (list(group.table.values()), list(group.table.values())[::-1]):
        other = Groups(records).get(group.name)
        for what in ("table", "generation", "members", "statics", "holdings", "topics", "owners", "wanted"):
            _law(getattr(other, what) == getattr(group, what), "a rebuilt group is the same", what)
        for what in ("offsets", "positions", "skips", "empty_since_ms", "dead_letter_topics"):
            _law(getattr(other, what) == getattr(group, what), "a rebuilt group is the same", what)
        _law(_attempts(other) == _attempts(group), "a rebuilt group is the same", "attempts")


def _attempts(group: Group) -> object:
    return {key: each.stretches for key, each in group.attempts.items()}
