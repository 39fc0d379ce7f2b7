"""A log in a bucket behind a bad network: nothing acknowledged is lost, doubled or moved, and unknown is said."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile

import pytest

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.model.errors import LakelogError, OutcomeUnknown, StorageRefused
from delta_log.root.root import ObjectRoot
from delta_log.stores.objects import ObjectStore
from tests.support.logs import crash, everything, hold_tables, no_thread_left, values_of
from tests.support.s3_server import S3Server, options_for
from tests.support.store_proxy import StoreFault, StoreProxy

QUIET = Settings(upkeep=False, max_block_s=0.0)
TROUBLE = {
    "lose the answer": 0.06,
    "cut the request": 0.04,
    "cut the answer": 0.06,
    "503": 0.08,
    "503 afterwards": 0.06,
}


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[StoreProxy]:
    with no_thread_left(), StoreProxy(s3_server.address, random.Random(7)) as made:
        yield made


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return s3_server.root(uuid.uuid4().hex)


def open_through(proxy: StoreProxy, url: str, *, patience_s: float = 30.0, linger_ms: int = 0) -> Log:
    store = ObjectStore(url, options_for(proxy.url) | {"timeout": "60s"}, patience_s=patience_s)
    return Log.open(ObjectRoot(store, linger_ms=linger_ms), settings=QUIET)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost_doubled_or_moved(s3_server: S3Server, proxy: StoreProxy, url: str, seed: int):
    """Stored at these offsets, surely not stored, or unknown: each answer was true, as the last life shows."""
    chance = random.Random(seed)
    where: dict[bytes, int] = {}
    refused: set[bytes] = set()
    unknown: set[bytes] = set()

    def troubles() -> int:
        return sum(proxy.happened[what] for what in TROUBLE)

    for life in range(3):
        proxy.trouble = {}
        log = open_through(proxy, url, patience_s=0.3)
        if not life:
            log.create_topic("t")
        proxy.trouble = {what: 2 * share for what, share in TROUBLE.items()} if life == 1 else TROUBLE
        for number in takewhile(lambda number, life=life: number < 25 or (life == 2 and troubles() <= 20), range(500)):
            value = b"%d-%d" % (life, number)
            try:
                (where[value],) = log.append("t", [Record(value)]).offsets()
            except StorageRefused:
                refused.add(value)
            except OutcomeUnknown:
                unknown.add(value)
        proxy.trouble = {}
        if chance.random() < 0.5:
            crash(log)
        else:
            log.close()
    with Log.open(url, settings=QUIET, store_options=s3_server.options) as log:
        found = [record.value for record in everything(log, "t")]
        assert [record.offset for record in everything(log, "t")] == list(range(len(found)))
        assert log.recovery.count("LOST") == 0
    assert {value: found.index(value) for value in where} == where
    assert len(found) == len(set(found))
    assert not refused & set(found)
    assert set(found) <= where.keys() | unknown
    assert troubles() > 20


def commit_both(log: Log, value: bytes) -> tuple[int, int]:
    """One record for each of two topics, in one transaction."""
    transaction = log.transactions.begin("x").id
    for topic in ("t", "u"):
        log.transactions.append(transaction, topic, [Record(value)])
    ranges = {each.topic: each.ranges[0].base_offset for each in log.transactions.commit(transaction).ranges}
    return ranges["t"], ranges["u"]


def until_enough(whole: dict[bytes, tuple[int, int]], wanted: int) -> Iterator[int]:
    """Eight attempts, and more where too few of them went well: that is a matter of chance, and of the machine."""
    return takewhile(lambda number: number < 8 or len(whole) < wanted, range(200))


def test_a_unit_is_there_whole_or_not_at_all_and_a_numbered_one_once(s3_server: S3Server, proxy: StoreProxy, url: str):
    """Transactions of which some are unknown, between requests that are sent again until they are stored."""
    whole: dict[bytes, tuple[int, int]] = {}
    refused: set[bytes] = set()
    numbered: list[bytes] = []
    for life in range(2):
        proxy.trouble = {}
        log = open_through(proxy, url, patience_s=0.3)
        if not life:
            log.create_topic("t")
            log.create_topic("u")
        for number in until_enough(whole, 3 * life + 3):
            proxy.trouble = {what: 2 * share for what, share in TROUBLE.items()}
            value, sent = b"%d-%d" % (life, number), b"n%d-%d" % (life, number)
            try:
                whole[value] = commit_both(log, value)
            except LakelogError as error:
                refused |= {value} if error.outcome == "not_attempted" else set()
            due = len(numbered) + 1
            while len(numbered) < due:
                with suppress(LakelogError):
                    log.append("t", [Record(sent)], producer=ProducerStamp("p", 0, len(numbered)))
                    numbered.append(sent)
        proxy.trouble = {}
        crash(log)
    with Log.open(url, settings=QUIET, store_options=s3_server.options) as log:
        t, u = values_of(log, "t"), values_of(log, "u")
    assert {value: (t.index(value), u.index(value)) for value in whole} == whole
    assert [value for value in t if value and value.startswith(b"n")] == numbered
    assert set(t) - set(numbered) == set(u), "all of a transaction is there, or nothing"
    assert (len(set(t)), len(set(u))) == (len(t), len(u))
    assert not refused & set(u)
    assert len(whole) >= 6


def test_who_is_cut_off_says_unknown_once_refuses_then_and_goes_on_afterwards(proxy: StoreProxy, url: str):
    log = open_through(proxy, url, patience_s=0.3)
    log.create_topic("t")
    log.append("t", [Record(b"before")])
    proxy.faults = [StoreFault("lose the answer")]
    with pytest.raises(OutcomeUnknown):
        log.append("t", [Record(b"in doubt")])
    for _ in range(2):
        with pytest.raises(StorageRefused):
            log.append("t", [Record(b"refused")])
    assert values_of(log, "t") == [b"before"]
    proxy.faults = []
    assert log.append("t", [Record(b"after")]).offsets() == [1]
    log.flush()
    crash(log)
    with open_through(proxy, url) as log:
        assert values_of(log, "t") == [b"before", b"after"]


def test_an_acknowledgement_takes_one_write_of_the_store_and_no_more_than_the_linger(proxy: StoreProxy, url: str):
    log = open_through(proxy, url, linger_ms=50)
    log.create_topic("t")
    log.append("t", [Record(b"first")])
    hold_tables(log)
    proxy.delay_s = 0.06
    took: list[float] = []
    most_s = 0.06 + 0.05 + 0.01
    puts = len(proxy.requests)
    # Three at least that the machine took nothing of: more would take longer each time.
    while len(took) < 12 or (sum(each <= most_s for each in took) < 3 and len(took) < 200):
        began = time.monotonic()
        log.append("t", [Record(b"v")])
        took.append(time.monotonic() - began)
    assert sum("/journal/" in line for line in proxy.requests[puts:] if line.startswith("PUT")) == len(took)
    assert min(took) >= 0.06
    assert sorted(took)[2] <= most_s

    puts, began = len(proxy.requests), time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        offsets = list(pool.map(lambda number: log.append("t", [Record(b"%d" % number)]).offsets()[0], range(160)))
    groups = sum(line.startswith("PUT") for line in proxy.requests[puts:])
    assert sorted(offsets) == list(range(1 + len(took), 161 + len(took)))
    assert groups <= 2 + (time.monotonic() - began) / 0.05
    proxy.delay_s = 0.0
    log.close()


def test_files_of_one_commit_go_up_side_by_side_and_no_more_than_eight_at_a_time(proxy: StoreProxy, url: str):
    log = open_through(proxy, url)
    log.create_topic("t", partitions=24)
    hold_tables(log)

    def most_at_once() -> int:
        for partition in range(24):
            log.append("t", [Record(b"v", partition=partition)])
        proxy.delay_s, proxy.most_at_once = 0.2, 0
        log.flush("t")
        proxy.delay_s = 0.0
        return proxy.most_at_once

    found = [most_at_once()]
    while found[-1] < 4 and len(found) < 5:
        found.append(most_at_once())
    assert found[-1] >= 4, "all eight, where the machine has the time"
    assert max(found) <= 8
    log.close()
