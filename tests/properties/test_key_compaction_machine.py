"""Key compaction of real tables against a plain dictionary, through everything that can happen to a topic meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from delta_log import Log, Record
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.audit.audit_files import audit_files
from delta_log.maintenance.compaction.merge_files import carry_out
from delta_log.maintenance.history import clean_history
from delta_log.maintenance.jobs_api import Maintenance
from tests.conftest import examples
from tests.support.key_passes import begin, finish
from tests.support.logs import FROM_FILES, Place, everything, hold_tables

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"x" * 63, b"y" * 64, b"z" * 300])
ROWS = st.lists(st.tuples(KEYS, st.none() | st.sampled_from([b"", b"1", b"2"])), min_size=1, max_size=12)
MINUTE = 60_000
#: A tombstone stays so long.
STAYS = 10 * MINUTE
SETTINGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": STAYS,
    "lakelog.fold.files": 2,
    "lakelog.history.ms": MINUTE,
}
MEANWHILE = st.sampled_from(["nothing", "append", "fold", "files", "delete", "pass"])
Row = tuple[bytes | None, bytes | None]


class Once:
    """What happens the first time, and not again."""

    def __init__(self, act: Callable[[], None] | None) -> None:
        self._act = act

    def __call__(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


class KeyCompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.place = Place(None)
        self.log: Log | None = None

    @initialize(ratio=st.sampled_from([0.0, 0.5]), lag=st.sampled_from([0, 5 * MINUTE]))
    def open(self, ratio: float, lag: int) -> None:
        self.settings = SETTINGS | {"min.cleanable.dirty.ratio": ratio, "min.compaction.lag.ms": lag}
        self.log = self.reopen()
        self.create()

    def create(self) -> None:
        self.the_log.create_topic("t", 1, self.settings)
        self.whole: dict[int, Row] = {}
        self.written_ms: dict[int, int] = {}
        self.start = 0
        self.clean = 0
        #: When the first pass that saw a record was committed.
        self.seen_ms: dict[int, int] = {}

    @property
    def the_log(self) -> Log:
        assert self.log is not None
        return self.log

    def reopen(self) -> Log:
        opened = self.place.open(FROM_FILES)
        hold_tables(opened)
        return opened

    @rule(rows=ROWS, files=st.integers(1, 3))
    def append(self, rows: list[Row], files: int) -> None:
        """One commit each, so that there is something to fold."""
        for number in range(files):
            part = rows[number::files]
            if part:
                base = self.the_log.append("t", [Record(value, key) for key, value in part]).ranges[0].base_offset
                self.whole |= dict(enumerate(part, base))
                self.written_ms |= dict.fromkeys(range(base, base + len(part)), self.place.clock.now_ms)
                self.the_log.flush("t")

    @rule(rows=ROWS, minutes=st.sampled_from([0, 1, 11]), fold=st.booleans(), meanwhile=MEANWHILE)
    def append_and_compact(self, rows: list[Row], minutes: int, fold: bool, meanwhile: str) -> None:
        self.append(rows, 2)
        self.place.clock.turn(minutes * MINUTE)
        if fold:
            self.fold()
        self.pass_over_it(meanwhile)

    @rule(what=st.sampled_from(["fold", "compact_files", "delete_records", "restart", "keep_house", "create_anew"]))
    def something_else_happens(self, what: str) -> None:
        getattr(self, what)()

    def fold(self) -> None:
        self.the_log.fold("t")

    def compact_files(self) -> None:
        """The other compaction, which takes no record away."""
        topic = Maintenance.open(self.place.root(), clock_ms=self.place.clock).topic("t")
        orders = [topic.order(each) for each in topic.plan_compaction(self.place.clock.now_ms, 0)]
        for answer in carry_out(orders, store=self.place.root().store):
            topic.settle(answer)

    def delete_records(self) -> None:
        end = self.the_log.offsets("t", 0).end_offset
        self.start += (end - self.start) // 3
        self.the_log.delete_records("t", 0, self.start)

    def restart(self) -> None:
        self.the_log.close()
        self.log = self.reopen()

    def keep_house(self) -> None:
        live = self.the_log._running.catalog.live("t")
        write_checkpoint(live.table)
        clean_history(live, self.place.clock.now_ms)

    def create_anew(self) -> None:
        self.the_log.delete_topic("t")
        self.create()

    @rule(policy=st.sampled_from(["delete", "compact,delete"]), without_a_key=st.booleans())
    def have_another_policy_for_a_while(self, policy: str, without_a_key: bool) -> None:
        self.the_log.alter_topic("t", {"cleanup.policy": policy})
        if policy == "delete":
            assert not begin(self.place)
            if without_a_key:
                base = self.the_log.append("t", [Record(b"n")]).ranges[0].base_offset
                self.whole[base], self.written_ms[base] = (None, b"n"), self.place.clock.now_ms
                self.the_log.flush("t")
            self.the_end_stays_and_the_files_are_as_their_table_says()
            self.the_log.alter_topic("t", {"cleanup.policy": "compact"})

    @rule(meanwhile=MEANWHILE)
    def pass_over_it(self, meanwhile: str) -> None:
        for one in begin(self.place):
            others = {"append": lambda: self.append([(b"a", b"new")], 1), "fold": self.fold}
            others |= {"delete": self.delete_records, "files": self.compact_files}
            others |= {"pass": lambda: self.pass_over_it("nothing")}
            horizon = one.plan.horizon
            passed = finish(self.place, one, Once(others.get(meanwhile)))
            assert (passed is None) == (meanwhile == "pass")
            if passed is not None:
                self.clean = horizon
                now_ms = self.place.clock.now_ms
                self.seen_ms |= {at: now_ms for at in self.whole if at < horizon and at not in self.seen_ms}
                self.check_nothing_is_left_to_do(one.plan.tombstones_below)

    def check_nothing_is_left_to_do(self, tombstones_below: int) -> None:
        """Below the horizon a key is there once, and no tombstone that had to go."""
        rows = [row for row in self.rows() if row[0] < self.clean]
        keys = [key for _, key, _ in rows if key is not None]
        assert len(keys) == len(set(keys))
        assert not [at for at, key, value in rows if key is not None and value is None and at < tombstones_below]

    def rows(self) -> list[tuple[int, bytes | None, bytes | None]]:
        live = self.the_log._running.catalog.live("t")
        self.the_log._running.catalog.follow(live)
        return [(each.offset, each.key, each.value) for each in everything(self.the_log, "t")]

    @invariant()
    def what_is_there_was_written_and_what_is_not_had_to_go(self) -> None:
        if self.log is None:
            return
        rows, now_ms = self.rows(), self.place.clock.now_ms
        assert [at for at, _, _ in rows] == sorted({at for at, _, _ in rows})
        assert all(self.whole[at] == (key, value) for at, key, value in rows)
        there = {at for at, _, _ in rows}
        for at in self.whole.keys() - there:
            key, value = self.whole[at]
            later = [other for other in self.whole if other > at and self.whole[other][0] == key]
            replaced = key is not None and min(later, default=self.clean) < self.clean
            faded = key is not None and value is None and now_ms - self.seen_ms.get(at, now_ms) > STAYS
            assert at < self.start or replaced or faded, (at, key, value)
            lag = self.settings["min.compaction.lag.ms"]
            assert at < self.start or now_ms - self.written_ms[at] >= lag

    @invariant()
    def whoever_reads_from_the_start_ends_with_the_last_value_of_each_key(self) -> None:
        if self.log is None:
            return
        ends: list[dict[bytes | None, bytes]] = []
        for rows in (self.rows(), [(at, *row) for at, row in sorted(self.whole.items()) if at >= self.start]):
            state = {key: value for _, key, value in rows if key is not None}
            ends.append({key: value for key, value in state.items() if value is not None})
        assert ends[0] == ends[1]

    @invariant()
    def the_end_stays_and_the_files_are_as_their_table_says(self) -> None:
        if self.log is None:
            return
        assert self.the_log.offsets("t", 0).end_offset == len(self.whole)
        topic = Maintenance.open(self.place.root(), clock_ms=self.place.clock).topic("t")
        assert topic.check_chains() == []
        for order in topic.plan_audit(1 << 30, 1000):
            assert audit_files(order, store=self.place.root().store).findings == ()

    def teardown(self) -> None:
        self.place.close()


TestKeyCompactionMachine = KeyCompactionMachine.TestCase
TestKeyCompactionMachine.settings = settings(
    max_examples=examples(25), stateful_step_count=20, suppress_health_check=[HealthCheck.too_slow]
)
