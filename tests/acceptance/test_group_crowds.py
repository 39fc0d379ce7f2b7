"""Groups of real processes that are killed, paused, cut off and joined by others, on servers that are killed as well.

Every record is delivered at least once, whatever happens; where everybody ends cleanly, once; and no commit of a member
that was taken for dead ever succeeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import httpx
import pytest
from deltalake import DeltaTable

from tests.support.cutting_proxy import CuttingProxy
from tests.support.group_crowd import (
    GROUP,
    PARTITIONS,
    TOPIC,
    Crowd,
    Feed,
    Member,
    Pace,
    ends,
    make_topic,
    wait_until_all_is_committed,
)
from tests.support.serving import DEADLINE_S, Server, serving, wait_for

#: LAKELOG_KILL_ROUNDS=30 for a long run; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
KINDS = ("rest", "client")
#: For who is not to be taken for dead where the machine stands still.
PATIENT = Pace(60_000, 60_000)


@contextmanager
def awaited(members: Sequence[Member], what: str, more: int) -> Generator[None]:
    """When this ends, each of them has said it so many times since it began."""
    before = {member.name: member.count(what) for member in members}

    def lacking() -> list[Member]:
        return [member for member in members if member.count(what) < before[member.name] + more]

    yield
    try:
        wait_for(lambda: not lacking(), f"{more} more {what}")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *(member.story() for member in lacking())])) from None


def wait_for_more(members: Sequence[Member], what: str, more: int) -> None:
    with awaited(members, what, more):
        pass


def check(crowd: Crowd, feed: Feed, url: str) -> None:
    """Each record that there is was delivered, each as the same, and all that was acknowledged is among them."""
    seen = crowd.values()
    assert seen.keys() == {(partition, offset) for partition, end in ends(url).items() for offset in range(end)}
    assert all(len(values) == 1 for values in seen.values())
    assert feed.sent <= {value for values in seen.values() for value in values}


def check_commits_never_went_back(root: Path) -> None:
    """Every commit that was ever stored, in the order in which they were: a zombie's would undo its successor's."""
    rows = DeltaTable(root / "topics" / "__consumer_offsets").to_pyarrow_table().sort_by("commit_seq").to_pylist()
    last: dict[int, int] = {}
    for row in rows:
        if row["group"] == GROUP and row["topic"] == TOPIC and row["offset"] is not None:
            assert row["offset"] >= last.get(row["partition"], 0), row
            last[row["partition"]] = row["offset"]
    assert len(last) == PARTITIONS


@pytest.mark.timeout(300 + 30 * ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_dies_every_record_is_delivered_and_no_zombie_commits(tmp_path: Path, kind: str):
    root, chance = tmp_path / "root", random.Random(f"{SEED} {kind}")
    with CuttingProxy(chance) as proxy, CuttingProxy(chance) as thread, Crowd(proxy.url, kind, tmp_path) as crowd:

        def lead_to(server: Server | None) -> None:
            proxy.target = thread.target = server and server.address

        with serving(root) as server:
            lead_to(server)
            make_topic(server.url)
            feed = Feed(proxy.url)
            for _ in range(3):
                crowd.join()
            crowd.join(url=thread.url)
            with feed:
                wait_for_more(crowd.living, "committed", 1)
                server.kill()
                lead_to(None)
        for _ in range(ROUNDS):
            with serving(root) as server:
                lead_to(server)
                with Feed(proxy.url) as more:
                    wait_for_more(crowd.living, "committed", 1)
                    victim, paused = chance.sample(crowd.living, 2)
                    paused.pause()
                    thread.cut_off()
                    victim.kill()
                    crowd.join()
                    others = [each for each in crowd.living if each not in (victim, paused, crowd.members[3])]
                    wait_for(lambda others=others: owned_by(server, others) == PARTITIONS, "their partitions to move")
                    paused.resume()
                    lead_to(server)
                    wait_for_more(crowd.living, "committed", 1)
                    server.kill()
                    lead_to(None)
                feed.sent |= more.sent
        with serving(root) as server:
            lead_to(server)
            wait_until_all_is_committed(server.url)
            crowd.stop_all()
            check(crowd, feed, server.url)
    check_commits_never_went_back(root)


@pytest.mark.parametrize("kind", KINDS)
def test_members_that_come_and_go_cleanly_are_given_each_record_once(tmp_path: Path, kind: str):
    root = tmp_path / "root"
    with serving(root) as server, Crowd(server.url, kind, tmp_path) as crowd:
        make_topic(server.url)
        with Feed(server.url) as feed:
            wait_for_more([crowd.join(pace=PATIENT)], "committed", 1)
            for _ in range(3):
                wait_for_more([crowd.join(pace=PATIENT)], "committed", 1)
            for _ in range(3):
                crowd.living[0].stop()
                wait_for_more(crowd.living, "committed", 2)
        wait_until_all_is_committed(server.url)
        crowd.stop_all()
        check(crowd, feed, server.url)
        assert set(crowd.given().values()) == {1}
        assert all(member.count("refused") == 0 for member in crowd.members)
    check_commits_never_went_back(root)


@pytest.mark.parametrize("pace", [Pace(1_500, 1_500, 300), Pace(60_000, 500, 300)], ids=["session", "partition"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_slept_while_it_lost_what_it_had_is_refused_its_commit(tmp_path: Path, kind: str, pace: Pace):
    with serving(tmp_path / "root") as server, Crowd(server.url, kind, tmp_path) as crowd:
        make_topic(server.url)
        with Feed(server.url) as feed:
            zombie = crowd.join(pace=pace)
            wait_for_more([zombie], "committed", 1)
            between_a_delivery_and_its_commit(zombie, pace)
            successor = crowd.join()
            share = PARTITIONS if pace.session_ms < DEADLINE_S * 1000 else PARTITIONS // 2
            wait_for(lambda: owned_by(server, [successor]) == share, "the partitions to move")
            wait_for_more([successor], "committed", 3)
            with awaited([zombie], "refused", 1):
                zombie.resume()
            wait_for_more([zombie], "committed", 1)
            zombie.stop()
        wait_until_all_is_committed(server.url)
        crowd.stop_all()
        check(crowd, feed, server.url)
    check_commits_never_went_back(tmp_path / "root")


def between_a_delivery_and_its_commit(member: Member, pace: Pace) -> None:
    """It stands still there, with something of every partition, and has not begun to commit."""

    def caught() -> bool:
        member.pause()
        is_at_work = member.quiet_s() < pace.slow_ms / 1000 * 0.7
        in_hand = takewhile(lambda line: line.what == "given", reversed(member.lines()))
        if is_at_work and {line.words[0] for line in in_hand} == set(map(str, range(PARTITIONS))):
            return True
        member.resume()
        return False

    wait_for(caught, "a pause in the middle")


def owned_by(server: Server, members: Sequence[Member]) -> int:
    """How many partitions these have, by what the group says of its members."""
    answer = httpx.get(f"{server.url}/groups/{GROUP}")
    if answer.status_code != httpx.codes.OK:
        return 0
    names = {member.name for member in members}
    found = answer.json()["members"]
    return sum(len(each["assigned"]) for each in found if names & {each["instance_id"], each["client_id"]})
