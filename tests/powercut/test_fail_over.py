"""A newcomer takes the root while its owner is suspended at any step of a write: nothing is lost, nothing comes twice.

The owner is a process that stops itself at that step (SIGSTOP), and goes on when the newcomer has written (SIGCONT). On
a directory a lock keeps newcomers out as long as the owner lives, suspended or not.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable

from delta_log import Log, LogReader, ProducerStamp, Record, Settings
from delta_log.model.errors import NotOwner, RootInUse
from delta_log.model.store_location import options_of
from delta_log.root.root import ObjectRoot
from delta_log.stores import MemoryStore
from tests.architecture.project_files import ROOT
from tests.support import stopping_owner
from tests.support.logs import crash, eventually, everything, hold_tables
from tests.support.s3_server import S3Server
from tests.support.serving import environment
from tests.support.stopping_owner import Order, watched

DEADLINE_S = 40.0
#: What a write is made of, and what happens behind it. The number says which time it is.
STEPS = [
    ("put partition= before", 3),
    ("put partition= after", 3),
    ("create _delta_log before", 4),
    ("create _delta_log after", 4),
    ("put -fold- before", 1),
    ("put -fold- after", 2),
    ("put .checkpoint. before", 1),
    ("put .checkpoint. after", 1),
]
IN_A_BUCKET = [
    ("create .grp before", 9),
    ("create .grp after", 9),
    ("delete .grp before", 1),
    ("delete .grp after", 1),
    *STEPS,
]
IN_A_DIRECTORY = [*((f"journal.{step}", 9) for step in ("before_write", "written", "synced")), *STEPS]


@dataclass
class Owner:
    """The process that is going to be replaced, and what it says."""

    order: Order
    events: list[list[object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, stopping_owner.__file__, msgspec.json.encode(self.order).decode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        self._errors = b""
        self._readers = [threading.Thread(target=read) for read in (self._read_events, self._read_errors)]
        for reader in self._readers:
            reader.start()

    @property
    def acked(self) -> dict[str, int]:
        return {str(event[1]): int(str(event[2])) for event in self.events if event[0] == "acked"}

    @property
    def tried(self) -> set[str]:
        return {str(event[1]) for event in self.events if event[0] == "trying"}

    @property
    def stamped(self) -> list[tuple[str, int, int]]:
        """Value, offset and sequence of what its producer was told."""
        found = [event for event in self.events if event[0] == "acked" and event[3] != -1]
        return [(str(event[1]), int(str(event[2])), int(str(event[3]))) for event in found]

    def wait_until_stopped(self) -> None:
        def stopped() -> bool:
            assert self.process.poll() is None, f"it ended: {self._errors.decode()}"
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        eventually(stopped, f"the step {self.order.step}")

    def go_on(self) -> str:
        """Until it ends; why it did."""
        self.process.send_signal(signal.SIGCONT)
        self.process.wait(DEADLINE_S)
        self.close()
        ended = [str(event[1]) for event in self.events if event[0] == "ended"]
        assert ended, self._errors.decode()
        return ended[0]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE_S)
        for reader in self._readers:
            reader.join(DEADLINE_S)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _read_events(self) -> None:
        for line in self.process.stdout or ():
            self.events.append(json.loads(line))

    def _read_errors(self) -> None:
        self._errors = self.process.stderr.read() if self.process.stderr is not None else b""


@pytest.fixture
def owners() -> Iterator[list[Owner]]:
    started: list[Owner] = []
    yield started
    for owner in started:
        owner.close()


def replace(owners: list[Owner], order: Order, *, late: bool) -> None:
    """Suspend an owner at a step, have a newcomer take its place, let the former one go on, and compare all."""
    old = Owner(order)
    owners.append(old)
    old.wait_until_stopped()
    acked: dict[str, int] = {}

    def append(log: Log, count: int) -> None:
        for _ in range(count):
            value = f"new-{len(acked)}"
            (acked[value],) = log.append("t", [Record(value.encode())]).offsets()

    with Log.open(watched(order.place, order.options), settings=Settings(upkeep=not late)) as log:
        if late:
            hold_tables(log)
        else:
            append(log, 3)
        assert old.go_on() in ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_SERVER_ERROR", "OUTCOME_UNKNOWN"), old.events[-1]
        append(log, 3)
        for value, offset, sequence in old.stamped[-2:]:
            again = log.append("t", [Record(value.encode())], producer=ProducerStamp("p", 0, sequence))
            assert list(again.offsets()) == [offset]
        log.flush()
        assert log.refuses is None
        assert log.statistics().closed == {}
        append(log, 1)
        check(log, old, acked)
    with LogReader.open(order.place, store_options=order.options) as reader:
        check(reader, old, acked)
        rows = [(record.offset, record.value) for record in everything(reader, "t")]
    table = DeltaTable(f"{order.place}/topics/t", storage_options=order.options or None).to_pyarrow_table()
    assert sorted(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)) == rows


def check(log: Log | LogReader, old: Owner, acked: dict[str, int]) -> None:
    found = [(record.value or b"").decode() for record in everything(log, "t")]
    assert [record.offset for record in everything(log, "t")] == list(range(len(found)))
    assert len(found) == len(set(found))
    assert old.acked
    promised = old.acked | acked
    assert {value: found.index(value) if value in found else None for value in promised} == promised
    assert set(found) <= promised.keys() | old.tried


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize(("step", "hit"), IN_A_BUCKET)
def test_a_newcomer_takes_a_bucket_at_any_step(
    s3_server: S3Server, owners: list[Owner], step: str, hit: int, late: bool
):
    place = s3_server.root(f"fail-over/{uuid.uuid4().hex}")
    replace(owners, Order(place, options_of(place) | s3_server.options, step, hit), late=late)


@pytest.mark.parametrize(("step", "hit"), IN_A_DIRECTORY)
def test_a_suspended_owner_of_a_directory_keeps_newcomers_out_until_it_dies(
    tmp_path: Path, owners: list[Owner], step: str, hit: int
):
    order = Order(str(tmp_path / "root"), {}, step, hit)
    old = Owner(order)
    owners.append(old)
    old.wait_until_stopped()
    with pytest.raises(RootInUse):
        Log.open(order.place)
    before = len(old.acked)
    old.process.send_signal(signal.SIGCONT)
    eventually(lambda: len(old.acked) > before + 3, "more from the owner")
    with pytest.raises(RootInUse):
        Log.open(order.place)
    old.close()
    with Log.open(order.place) as log:
        (offset,) = log.append("t", [Record(b"new")]).offsets()
        check(log, old, {"new": offset})


def test_a_former_owner_takes_no_table_that_the_newcomer_took_before_him():
    """Its epoch would go back, and what the newcomer acknowledged since would belong to no table."""
    store = MemoryStore()

    def opened() -> Log:
        return Log.open(ObjectRoot(store, linger_ms=0), settings=Settings(upkeep=False))

    with opened() as log:
        log.create_topic("t")
        log.create_topic("u")
    old, new = opened(), opened()
    hold_tables(new)
    acked = [new.append("t", [Record(b"%d" % number)]).offsets()[0] for number in range(3)]
    for change in (
        lambda: old.append("t", [Record(b"old")]),
        lambda: old.alter_topic("t", {"retention.ms": 1}),
        lambda: old.append("u", [Record(b"old")]),
    ):
        with pytest.raises(NotOwner):
            change()
    assert old.statistics().ownership_lost
    crash(old)
    crash(new)
    with opened() as log:
        assert log.recovery.count("set aside") == 0
        assert [record.offset for record in everything(log, "t")] == acked


def test_what_the_former_owner_changes_before_a_table_is_taken_from_it_is_known_to_the_newcomer(s3_server: S3Server):
    place, quiet = s3_server.root(f"settings/{uuid.uuid4().hex}"), Settings(upkeep=False)
    with Log.open(place, settings=quiet, store_options=s3_server.options) as old:
        old.create_topic("t")
        with Log.open(place, settings=quiet, store_options=s3_server.options) as new:
            assert new.describe_topic("t").partitions == 1
            old.alter_topic("t", {"retention.ms": 77_000})
            old.add_partitions("t", 3)
            new.append("t", [Record(b"v", key=b"k")])
            assert new.append("t", [Record(b"v", partition=2)]).partitions == (2,)
            assert new.describe_topic("t").config.retention_ms == 77_000
            with pytest.raises(NotOwner):
                old.alter_topic("t", {"retention.ms": 78_000})
            with pytest.raises(NotOwner):
                old.add_partitions("t", 5)
            assert new.describe_topic("t").partitions == 3


def test_an_owner_who_does_nothing_learns_that_it_was_replaced_and_shows_no_more(s3_server: S3Server):
    place = s3_server.root(f"idle/{uuid.uuid4().hex}")
    with Log.open(place, store_options=s3_server.options) as old:
        old.create_topic("t")
        old.append("t", [Record(b"v")])
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(old.read, "t", 0, 1, wait_s=DEADLINE_S)
            with Log.open(place, store_options=s3_server.options):
                eventually(lambda: old.refuses is not None, "the end of an idle owner")
                with pytest.raises(NotOwner):
                    waiting.result(DEADLINE_S)
        with pytest.raises(NotOwner):
            old.read("t", 0, 0)
        assert old.statistics().ownership_lost
