"""A group through everything that can happen to it, in any order: one owner, no gap, no fencing hole.

Any rule may meet any other, so they stand in one file, which is long.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from consumer_groups.decisions.admin import decide_delete, decide_put_offsets, state_of
from consumer_groups.decisions.commits import Commit, Commitment, Seek, decide_commit, decide_seek
from consumer_groups.decisions.dead_lettering import GiveUp, Spot, decide_giving_up, plan_giving_up
from consumer_groups.decisions.expiry import decide_expiry, next_deadline
from consumer_groups.decisions.idle_groups import decide_retention, decide_topics_changed
from consumer_groups.decisions.membership import Heartbeat, Join, Leave, decide_heartbeat, decide_join, decide_leave
from consumer_groups.decisions.polling import (
    Fetch,
    Poll,
    Taken,
    decide_delivery,
    decide_fetch,
    decide_idle,
    decide_poll,
)
from consumer_groups.decisions.positions import group_position
from consumer_groups.decisions.subscription import (
    Assign,
    Subscribe,
    Unsubscribe,
    decide_assign,
    decide_subscribe,
    decide_unsubscribe,
)
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.errors import Fenced, GroupError
from consumer_groups.model.options import Options
from consumer_groups.model.records import OffsetRecord
from consumer_groups.state.decision import Decision, record_liveness
from consumer_groups.state.state import Holding
from tests.conftest import examples
from tests.support.group_model import Client, World, WriteFailed

TOPICS = ("a", "b")
WHICH = st.integers(0, 7)
WHERE = st.integers(0, 9)
OFFSET = st.integers(0, 12)
OPTIONS = st.builds(
    Options,
    auto_offset_reset=st.sampled_from(["earliest"] * 5 + ["latest"] * 2 + ["by_duration:PT1S", "none"]),
    auto_commit_enable=st.booleans(),
    auto_commit_interval_ms=st.sampled_from([0, 500]),
    session_timeout_ms=st.just(10_000),
    max_poll_interval_ms=st.sampled_from([4000, 30_000]),
    rebalance_timeout_ms=st.sampled_from([2000, 20_000]),
    group_instance_id=st.sampled_from([None, None, "s1", "s2"]),
    max_delivery_attempts=st.sampled_from([None, -1, 1, 2, 2]),
    partition_assignment_strategy=st.sampled_from([("range",), ("roundrobin",), ("sticky",)]),
)
SUBSCRIPTIONS = st.sampled_from([("topics", TOPICS)] * 3 + [("topics", ("a",)), ("pattern", "a|b"), ("pattern", "b")])
#: What happens again and again stands here again and again.
READS = st.sampled_from(["poll"] * 5 + ["begin"] * 2 + ["end"] * 2)
COMMITS = st.sampled_from(["delivered"] * 2 + ["told"] * 3 + ["anything"])
LIFE = st.sampled_from(
    ["join"] * 3 + ["leave", "crash", "subscribe", "unsubscribe", "assign", "heartbeat", "heartbeat"]
)
WORLD = st.sampled_from(
    ["restart"] * 4 + ["fail"] * 4 + ["grow", "delete", "replace", "trim", "put", "delete group", "retention"]
)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clients: list[Client] = []
        self.names = 0

    @initialize(
        partitions=st.integers(1, 3), members=st.lists(st.tuples(OPTIONS, st.booleans()), min_size=2, max_size=3)
    )
    def begin(self, partitions: int, members: list[tuple[Options, bool]]) -> None:
        for topic in TOPICS:
            self.world.create(topic, partitions)
        for options, exact in members:
            self._join(options, ("topics", TOPICS), exact=exact, reuse=False)

    def client(self, which: int) -> Client:
        """Mostly one that lives."""
        chosen = [client for client in self.clients if client.alive] if which < 6 else self.clients
        return (chosen or self.clients)[-1 - which % len(chosen or self.clients)]

    def partition(self, where: int) -> TopicPartition:
        return sorted(self.world.ends)[where % len(self.world.ends)]

    # --- who is there

    @rule(
        what=LIFE,
        which=WHICH,
        options=OPTIONS,
        subscription=SUBSCRIPTIONS,
        partitions=st.lists(WHERE, max_size=2),
        yes=st.booleans(),
        also=st.booleans(),
    )
    def live(
        self,
        what: str,
        which: int,
        options: Options,
        subscription: tuple[str, Any],
        partitions: list[int],
        yes: bool,
        also: bool,
    ) -> None:
        client = self.client(which)
        with suppress(WriteFailed, GroupError):
            match what:
                case "join":
                    self._join(options, subscription, exact=yes, reuse=also)
                case "leave":
                    leave = Leave(client.name, for_good=yes, failed=also, **client.says)
                    self._ask(client, decide_leave, leave, done=not also)
                    client.alive = False
                case "crash":  # from now on whatever it does is done by a zombie
                    self._die(client)
                case "subscribe":
                    self._subscribe(client, subscription)
                case "unsubscribe":
                    self._ask(client, decide_unsubscribe, Unsubscribe(client.name, **client.says), done=True)
                case "assign" if self.world.ends:
                    chosen = tuple(self.partition(each) for each in partitions)
                    self._ask(client, decide_assign, Assign(client.name, chosen, **client.says), done=True)
                case _:
                    owned = frozenset(client.told if also else ()) if yes else None
                    self._ask(client, decide_heartbeat, Heartbeat(client.name, client.says.get("generation"), owned))

    live_on = live

    def _die(self, client: Client) -> None:
        """Somebody lives."""
        client.alive = sum(each.alive for each in self.clients) == 1

    def _ask(
        self, client: Client, decide: Callable[..., Decision[Any]], command: object, *, done: bool = False
    ) -> None:
        self.world.do(decide(self.world.group, command, self.world.cluster, self.world.now), client, done=done)

    def _join(self, options: Options, subscription: tuple[str, Any], *, exact: bool, reuse: bool) -> None:
        self.names += 1
        old = self.world.group.statics.get(options.group_instance_id or "")
        client = Client(old if reuse and old is not None else f"m{self.names}", options, exact)
        self._ask(client, decide_join, Join(client.name, options))
        # of two with one name, only a generation tells the old from the new
        known = [each for each in self.clients if each.exact or each.name != client.name]
        self.clients = self.world.clients = [*known[-4:], client]
        self._subscribe(client, subscription)

    def _subscribe(self, client: Client, subscription: tuple[str, Any]) -> None:
        self._ask(client, decide_subscribe, Subscribe(client.name, **dict([subscription]), **client.says), done=True)

    # --- reading

    @rule(
        what=READS,
        which=WHICH,
        written=st.integers(0, 3),
        most=st.integers(1, 4),
        lose=st.sampled_from([False, False, True]),
    )
    def read(self, what: str, which: int, written: int, most: int, lose: bool) -> None:
        """A poll, or one half of it: between the halves anything may happen."""
        for partition in self.world.ends:
            self.world.move(partition, append=written)
        polling = [client for client in self.clients if client.plan is not None]
        with suppress(WriteFailed, GroupError):
            if what != "end":
                self._begin_poll(self.client(which))
            if what == "poll":
                self._end_poll(self.client(which), most, lose=lose)
            elif what == "end" and polling:
                self._end_poll(polling[which % len(polling)], most, lose=lose)

    read_on = read_again = read_still = read

    def _begin_poll(self, client: Client) -> None:
        world = self.world
        client.plan = None
        world.come_back(client)
        record_liveness(world.groups, "g", client.name, world.now)
        self._ask(client, decide_poll, Poll(client.name, world.now + 3000, **client.says))
        plan = world.do(decide_fetch(world.group, Fetch(client.name), world.cluster, world.ends, world.now), client)
        if plan.lookups:
            fetch = Fetch(client.name, found={each.partition: None for each in plan.lookups})
            plan = world.do(decide_fetch(world.group, fetch, world.cluster, world.ends, world.now), client)
        for each in plan.spoiled:
            assert (*world.spot(each.partition), each.offset) in world.alone, "it was never given alone"
            self._give_up(client, each.partition, {each.offset})
        client.plan = plan

    def _end_poll(self, client: Client, most: int, *, lose: bool) -> None:
        world, plan = self.world, client.plan
        assert plan is not None
        client.plan = None
        taken = [
            Taken(read, min(read.offset + most, world.ends[read.partition].end_offset, read.limit or 2**63))
            for read in plan.reads[:3]
            if read.partition in world.ends and read.offset < world.ends[read.partition].end_offset
        ]
        reply = world.do(decide_delivery(world.group, client.name, tuple(taken), world.cluster, world.now))
        if reply.accepted:
            world.deliver(client, reply.accepted, reply.answer, lose=lose)
        else:
            world.do(decide_idle(world.group, client.name, world.now))

    @precondition(lambda self: self.world.ends)
    @rule(which=WHICH, where=WHERE, to=st.one_of(OFFSET, st.sampled_from(["beginning", "end"])))
    def seek(self, which: int, where: int, to: int | str) -> None:
        client, world, partition = self.client(which), self.world, self.partition(where)
        with suppress(WriteFailed, GroupError):
            command = Seek(client.name, {partition: to}, **client.says)
            decision = decide_seek(world.group, command, world.cluster, world.ends, world.now)
            self._pass_over(client, partition, to)
            world.do(decision, client)
            assert self._position(client, partition) == self._place(partition, to)

    def _pass_over(self, client: Client, partition: TopicPartition, to: int | str) -> None:
        """What it sought past is passed by it, and by nobody else."""
        client.sought.setdefault(self.world.spot(partition), set()).update(range(self._place(partition, to)))

    def _place(self, partition: TopicPartition, to: int | str) -> int:
        known = self.world.ends[partition]
        return to if isinstance(to, int) else known.log_start_offset if to == "beginning" else known.end_offset

    def _position(self, client: Client, partition: TopicPartition) -> int | None:
        place = self.world.group.presences[client.name].places.get(partition)
        return None if place is None else place.position

    # --- committing

    @rule(what=COMMITS, which=WHICH, where=WHERE, offset=OFFSET)
    def commit(self, what: str, which: int, where: int, offset: int) -> None:
        client = self.client(which)
        with suppress(WriteFailed, GroupError):
            if what == "delivered":
                self._commit_delivered(client)
            elif what == "told":
                self._commit_what_it_knows(client)
            elif self.world.ends:
                self._commit_anything(client, self.partition(where), offset)

    commit_again = commit

    def _commit_delivered(self, client: Client) -> None:
        """Never lowers, and covers what was delivered."""
        world = self.world
        before = {key: each for key, each in world.group.table.items() if isinstance(each, OffsetRecord)}
        command = Commit(client.name, **client.says)
        world.do(decide_commit(world.group, command, world.cluster, world.ends, world.now), client, done=True)
        for key, record in before.items():
            after = world.group.table[key]
            assert isinstance(after, OffsetRecord)
            assert after.next_offset >= record.next_offset

    def _commit_what_it_knows(self, client: Client) -> None:
        """Anyone may try, a zombie as well: it is stored if it owns the partition, and only then."""
        world, group = self.world, self.world.group
        told = {each: its for each, its in client.told.items() if each in world.ends}
        told = {each: its for each, its in told.items() if its[0] == world.spot(each)[0]}
        oldest = min((generation for _, _, generation in told.values()), default=client.generation)
        given = {each: Commitment(next_offset) for each, (_, next_offset, _) in told.items()}
        manual = group.members[client.name].manual or () if client.name in group.members else ()
        owns = all(group.owners.get(each, client.name if tuple(each) in manual else "") == client.name for each in told)
        command = Commit(client.name, given, oldest if client.exact else None)
        try:
            decision = decide_commit(group, command, world.cluster, world.ends, world.now)
        except Fenced:
            assert not told or not owns or client.exact, "an owner was refused"
            return
        assert owns, "who does not own it has committed"
        for each in told:
            reader, epoch = world.at(each).reader
            fenced = client.exact and reader != client.name and epoch > oldest and tuple(each) not in manual
            assert not fenced, f"{client.name} committed {each} as of {oldest}; {reader} read it in {epoch}"
        world.do(decision, client, done=True)

    @precondition(lambda self: self.world.ends)
    @rule(which=WHICH, where=WHERE, ahead=st.sets(st.integers(-1, 3), min_size=1, max_size=3))
    def give_up(self, which: int, where: int, ahead: set[int]) -> None:
        """Near what is next in line; an owner may, and only an owner."""
        client, partition = self.client(which), self.partition(where)
        line = group_position(self.world.group, *self.world.spot(partition)) or 0
        end = self.world.ends[partition].end_offset
        with suppress(WriteFailed, GroupError):
            self._give_up(client, partition, {line + each for each in ahead if line + each < end} or {end})

    give_up_again = give_up

    def _give_up(self, client: Client, partition: TopicPartition, offsets: set[int]) -> None:
        """What is next in line is passed, what is not is marked, and nothing else is passed by it."""
        world, group = self.world, self.world.group
        seen, spot = world.at(partition), world.spot(partition)
        known, before = set(group.skips.get(spot, ())), group_position(group, *spot)
        command = GiveUp(client.name, {Spot(partition, each): "" for each in offsets}, client.says.get("generation"))
        planned = plan_giving_up(group, command, world.cluster, world.ends)
        assert {at.offset for _, at in planned.attempts} == offsets - known, "a repeat copies nothing"
        decision = decide_giving_up(group, command, planned, world.cluster, world.ends, world.now)
        excused = seen.excused
        seen.excused = excused | offsets
        try:
            world.do(decision, client)
        except WriteFailed:
            seen.excused = excused
            raise
        after = group_position(world.group, *spot)
        passed = set(range(before or 0, after or 0))
        assert passed <= offsets | known, "others are passed"
        assert before not in offsets - known or before in passed, "what is next in line is passed"
        seen.dead |= offsets
        seen.buried |= offsets
        seen.dead -= set(range(after or 0)) - set(world.group.skips.get(spot, ()))
        assert set(world.group.skips.get(spot, ())) >= seen.dead, "what is not passed is marked"

    def _commit_anything(self, client: Client, partition: TopicPartition, offset: int) -> None:
        """The present owner may commit what it likes within the log."""
        world = self.world
        command = Commit(client.name, {partition: Commitment(offset)}, **client.says)
        decision = decide_commit(world.group, command, world.cluster, world.ends, world.now)
        world.at(partition).excused |= set(range(offset))
        world.do(decision, client)

    # --- the world

    @rule(what=WORLD, where=WHERE, offset=OFFSET)
    def change(self, what: str, where: int, offset: int) -> None:
        name, world = TOPICS[where % 2], self.world
        with suppress(WriteFailed, GroupError):
            if what == "restart":
                self._restart(compacted=where % 2 == 0)
            elif what == "fail":
                world.fail_next = True
            elif what in ("grow", "delete", "replace"):
                self._change_topic(what, name, 1 + where % 3)
            elif what == "trim" and world.ends:
                world.move(self.partition(where), trim=offset)
            elif what == "put" and world.ends:
                given = {self.partition(where): Commitment(offset)}
                decision = decide_put_offsets(world.group, given, world.cluster, world.ends, world.now)
                world.at(self.partition(where)).excused |= set(range(offset))
                world.do(decision)
                world.at(self.partition(where)).dead.clear()
                world.at(self.partition(where)).buried.clear()
            else:
                self._forget(delete=what == "delete group")

    def _change_topic(self, what: str, name: str, partitions: int) -> None:
        world = self.world
        if name not in world.topics:
            world.create(name, partitions)
        elif what == "grow":
            world.grow(name)
        else:
            world.delete(name)
            if what == "replace":
                world.create(name, partitions)
        self._catch_up()

    def _catch_up(self) -> None:
        self.world.fail_next = False
        self.world.do(decide_topics_changed(self.world.group, self.world.cluster, self.world.now))
        for key in self.world.group.table:
            assert key[0] not in ("offset", "position") or key[2] in self.world.cluster.ids, (
                "what is of a gone topic goes"
            )

    def _forget(self, *, delete: bool) -> None:
        """Nobody is there: the group's past goes, at once or with time."""
        world = self.world
        later = world.now + (0 if delete else 8 * 86_400_000)
        decision = decide_delete(world.group) if delete else decide_retention(world.group, world.cluster, later)
        if not world.group.members:
            world.do(decision)
            assert not world.group.table
            for seen in world.seen.values():
                seen.base, seen.reader = None, ("", -1)
                seen.dead.clear()
                seen.buried.clear()
                seen.committed = 0

    @rule(ms=st.sampled_from([1, 400, 1500, 1500, 5000, 12_000]), all_beat=st.booleans())
    def time_passes(self, ms: int, all_beat: bool) -> None:
        world = self.world
        deadline = next_deadline(world.group)
        world.now += ms
        for client in self.clients:
            if client.alive and all_beat:
                record_liveness(world.groups, "g", client.name, world.now)
        decision = decide_expiry(world.group, world.cluster, world.now)
        if deadline is None or deadline > world.now:
            assert not decision.records, "nothing is due before the next deadline"
        with suppress(WriteFailed):
            world.do(decision)
            for member_id, presence in world.group.presences.items():
                left = world.group.members[member_id].options.rebalance_timeout_ms
                revoking = world.group.holdings.get(member_id, Holding()).revoking
                assert presence.revoke_by_ms.keys() == revoking.keys(), "nobody is waited for without an end"
                assert all(world.now < by_ms <= world.now + left for by_ms in presence.revoke_by_ms.values())

    def _restart(self, *, compacted: bool) -> None:
        self.world.check_rebuilt()
        self.world.restart(compacted=compacted)
        self.world.check_rebuilt()

    # --- in the end

    def teardown(self) -> None:
        """Whoever still lives gets all there is: nothing hangs, nothing is lost."""
        world = self.world
        if not world.topics:
            return
        self._catch_up()
        last = Client("last", Options(auto_offset_reset="earliest"))
        self._ask(last, decide_join, Join("last", last.options))
        self._subscribe(last, ("topics", TOPICS))
        for _ in range(4):  # every other member is silent until its session ends
            world.now += 5000
            record_liveness(world.groups, "g", "last", world.now)
            self._begin_poll(last)
            world.do(decide_expiry(world.group, world.cluster, world.now))
        assert list(world.group.members) == ["last"]
        assert state_of(world.group) == "Stable"
        for _ in range(200):
            self._begin_poll(last)
            assert last.plan is not None
            if not last.plan.reads:
                break
            self._end_poll(last, 50, lose=False)
        for partition, known in world.ends.items():
            seen = world.at(partition)
            assert seen.base is not None
            seen.check_passed(known.end_offset, set(), f"the end of {partition}")


GroupMachine.TestCase.settings = settings(deadline=None, max_examples=examples(250), stateful_step_count=40)
TestGroupMachine = GroupMachine.TestCase
