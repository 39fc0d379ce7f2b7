"""A job as a member of a group beside members by HTTP: who reads what, whose commits count, what a death leaves."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from jobs.consume.batch_transactions import Transactions
from jobs.groups.group_client import Fenced, Groups
from jobs.groups.group_member import Member, Share
from jobs.source.positions import TopicPartition
from tests.support.serving import Server, serving, wait_for

TOPIC = "orders"
ZERO, ONE = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
MEDIA = {"Content-Type": "application/vnd.kafka.v2+json"}
#: Longer than any machine stands still, for all who live.
SESSION_MS = 60_000
#: Yet they say so as often as in a session of three seconds.
BEAT_S = 0.2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("groups") / "root") as running:
        httpx.put(f"{running.url}/topics/{TOPIC}", json={"partitions": 2}).raise_for_status()
        lines = "".join(f'{{"partition": {n % 2}, "value": {n}}}\n' for n in range(20))
        headers = {"Content-Type": "application/x-ndjson"}
        httpx.post(f"{running.url}/topics/{TOPIC}?records=full", content=lines, headers=headers)
        body = {"records": [{"value": n, "partition": n % 2} for n in range(40)]}
        headers = {"Content-Type": "application/vnd.kafka.json.v2+json"}
        httpx.post(f"{running.url}/topics/{TOPIC}", json=body, headers=headers).raise_for_status()
        yield running


@pytest.fixture
def groups(server: Server) -> Iterator[Groups]:
    asking = Groups(server.url, patience_s=60)
    yield asking
    asking.close()


@contextmanager
def a_member(groups: Groups, group: str, **given: Any) -> Generator[Member]:
    topic = given.pop("topic", TOPIC)
    options = {"session_ms": SESSION_MS, "reset": "earliest"} | given
    member = Member(groups, group, {"topics": [topic]}, **options)
    member._beat_s = BEAT_S
    with member:
        yield member


def take(member: Member) -> Share:
    share = member.take(lambda: False)
    assert share is not None
    return share


class ByHttp:
    """A member that says itself when it gives something up."""

    def __init__(self, url: str, group: str, name: str = "by-http", **options: Any) -> None:
        self.client = httpx.Client(base_url=url, headers=MEDIA)
        self.path = f"/consumers/{group}/instances/{name}"
        body = {"name": name, "format": "json", "auto.commit.enable": False, **options}
        self.client.post(f"/consumers/{group}", json=body).raise_for_status()
        self.client.post(f"{self.path}/subscription", json={"topics": [TOPIC]}).raise_for_status()

    @classmethod
    def or_none(cls, *given: Any, **options: Any) -> Self | None:
        """None if it was forgotten before it had all partitions."""
        try:
            made = cls(*given, **options)
            return made if made.beat() == {ZERO, ONE} else None
        except httpx.HTTPStatusError:
            return None

    def beat(self, *owned: TopicPartition) -> set[TopicPartition]:
        told = self.client.post(f"{self.path}/heartbeat", json={"owned": [each._asdict() for each in owned]})
        return {TopicPartition(each["topic"], each["partition"]) for each in told.raise_for_status().json()["assigned"]}

    def leave(self) -> None:
        self.client.delete(self.path).raise_for_status()
        self.client.close()


def test_a_member_alone_reads_all_and_what_it_commits_is_seen_by_everybody(server: Server, groups: Groups):
    with a_member(groups, "alone") as member:
        share = take(member)
        assert share.partitions == {ZERO, ONE}
        member.commit(share, {ZERO: 4})
        seen = httpx.get(f"{server.url}/groups/alone").json()
        assert [(each["owner"], each["next_offset"]) for each in seen["partitions"]] == [
            (share.name, 4),
            (share.name, None),
        ]
        assert [other.name for other in groups.readers("alone")] == [share.name]
        assert not member.has_moved(share)
        with pytest.raises(Fenced):
            groups.commit("alone", {ONE: 3})
    assert groups.readers("alone") == []
    groups.commit("alone", {ONE: 3})
    assert groups.committed("alone") == {ZERO: 4, ONE: 3}
    assert groups.committed("nobody-ever") == {}


def test_a_partition_moves_when_its_reader_let_go_of_it_and_not_before(server: Server, groups: Groups):
    with a_member(groups, "moves") as member:
        share = take(member)
        other = ByHttp(server.url, "moves")
        wait_for(lambda: member.has_moved(share), "that the share moved")
        assert other.beat() == set()
        member.commit(share, {ZERO: 5, ONE: 6})
        assert other.beat() == set()
        member.let_go()
        (given,) = wait_for(other.beat, "that the other has a partition")
        assert take(member).partitions == {ZERO, ONE} - {given}
        other.leave()
        wait_for(lambda: member.has_moved(share), "that it is back")
        member.let_go()
        back = take(member)
        assert back.partitions == {ZERO, ONE}
        with pytest.raises(Fenced):
            member.commit(share, {given: 7})
        member.commit(share, {next(iter({ZERO, ONE} - {given})): 7})
        member.commit(back, {given: 8})


def test_of_a_share_that_was_taken_away_in_part_the_rest_is_still_held(server: Server, groups: Groups):
    """The reader is so slow that the group does not wait for it any longer."""
    with a_member(groups, "slow") as member:
        member._options["rebalance.timeout.ms"] = 300
        member._instance.leave()
        wait_for(lambda: groups.readers("slow") and take(member), "that it is there again")
        share = take(member)
        other = ByHttp(server.url, "slow")
        (given,) = wait_for(other.beat, "that the other has a partition")
        with pytest.raises(Fenced):
            member.commit(share, {ZERO: 5, ONE: 6})
        assert groups.committed("slow") == {}
        kept = member.still_held(share)
        assert kept == {ZERO, ONE} - {given}
        member.commit(share, dict.fromkeys(kept, 5))
        assert groups.committed("slow") == dict.fromkeys(kept, 5)
        other.leave()


def test_a_member_that_the_group_forgot_joins_anew_and_its_past_is_fenced(server: Server, groups: Groups):
    with a_member(groups, "forgotten") as member:
        share = take(member)
        httpx.delete(f"{server.url}/consumers/forgotten/instances/{share.name}", headers=MEDIA).raise_for_status()
        wait_for(lambda: member.has_moved(share), "that it knows")
        with pytest.raises(Fenced):
            member.commit(share, {ZERO: 1})
        assert member.still_held(share) == frozenset()
        member.let_go()
        again = take(member)
        assert again.name != share.name
        assert again.partitions == {ZERO, ONE}


def test_who_died_leaves_its_partitions_when_its_session_is_over(server: Server, groups: Groups):
    for session_ms in (700, 20_000):  # on a machine that stands still the first may be over before anything was heard
        dead = ByHttp.or_none(server.url, "dead", f"by-http-{session_ms}", **{"session.timeout.ms": session_ms})
        if dead is not None:
            break
    assert dead is not None
    with a_member(groups, "dead") as member:
        wait_for(lambda: (share := member.take(lambda: False)) and share.partitions == {ZERO, ONE}, "all partitions")
    dead.client.close()


def test_a_topic_that_is_deleted_while_it_is_read_is_taken_away_and_the_rest_is_still_held(
    server: Server, groups: Groups
):
    gone = TopicPartition("gone", 0)

    def make() -> None:
        httpx.put(f"{server.url}/topics/gone", json={"partitions": 1}).raise_for_status()

    def delete() -> None:
        httpx.delete(f"{server.url}/topics/gone").raise_for_status()

    make()
    once = Transactions(groups, "deleted")
    offsets = {gone: 0, ZERO: 1}
    options: dict[str, Any] = {"session_ms": SESSION_MS, "reset": "earliest"}
    with Member(groups, "deleted", {"topics": [TOPIC, "gone"]}, **options) as member:
        share = take(member)
        moved = once.begin_for(share)
        once.move(moved, share, offsets)
        delete()
        with pytest.raises(Fenced, match="there is no topic 'gone'"):
            member.commit(share, offsets)
        with pytest.raises(Exception, match="there is no topic 'gone'"):
            once.end(moved)
        with pytest.raises(Fenced, match="there is no topic 'gone'"):
            once.is_committed(moved)
        late = once.begin_for(share)
        with pytest.raises(Fenced, match="there is no topic 'gone'"):
            once.move(late, share, offsets)
        assert httpx.get(f"{server.url}/transactions/{late}").json()["state"] == "aborted"
        assert groups.committed("deleted") == {}
        assert member.still_held(share) == {ZERO, ONE}
        member.commit(share, {ZERO: 1})
        make()
        assert member.still_held(share) == {ZERO, ONE}, "it is another of that name"
        with pytest.raises(Fenced):
            member.commit(share, offsets)
        wait_for(lambda: member.let_go() or gone in take(member).partitions, "that the other is read")
        delete()


def test_one_of_two_members_has_nothing_to_read_of_one_partition(server: Server, groups: Groups):
    httpx.put(f"{server.url}/topics/single", json={"partitions": 1}).raise_for_status()
    with a_member(groups, "single", topic="single") as first:
        share = take(first)
        with a_member(groups, "single", topic="single") as second:
            wait_for(lambda: second.is_idle() or first.has_moved(share), "that the second knows")
            if first.has_moved(share):
                first.let_go()
                wait_for(lambda: first.is_idle() and not second.is_idle(), "that the second has it")
            shares = [found for each in (first, second) if (found := each.take(lambda: True)) is not None]
            assert len({each.name for each in shares}) == 1


def test_a_server_that_goes_away_is_told_to_who_uses_the_member(tmp_path: Path):
    with serving(tmp_path / "root") as server:
        httpx.put(f"{server.url}/topics/{TOPIC}", json={"partitions": 2}).raise_for_status()
        groups = Groups(server.url, patience_s=60)
        with a_member(groups, "left") as member:
            share = take(member)
            groups._patience_s = 0.5
            server.kill()
            with pytest.raises(Exception, match="heartbeat of http://"):
                wait_for(lambda: member.has_moved(share), "that it is told")
        groups.close()
