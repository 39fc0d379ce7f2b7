"""A batch that has a number is stored once, whoever stages it how often, and however it is cut. Without a JVM."""

import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pyarrow as pa
import pytest

from jobs.source import server as source_server
from jobs.source.errors import InvalidOption, NotDecided, NotReadable
from jobs.source.options import WriteOptions
from jobs.source.staging import Staged, Version, decide, give_up, stage
from tests.integration.test_source_staging import values
from tests.support.cutting_proxy import CuttingProxy
from tests.support.serving import Server, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(None, transaction_max_bytes=1_000_000) as server:
        yield server


@pytest.fixture
def options(server: Server, request: pytest.FixtureRequest) -> WriteOptions:
    """A topic for each test."""
    topic = re.sub("[^a-z_]", "-", request.node.name).rstrip("-")
    httpx.put(f"{server.url}/topics/{topic}").raise_for_status()
    return WriteOptions(server.url, topic, 60_000, once=True)


def of(options: WriteOptions, number: int = 1) -> Version:
    return Version(f"ü {options.topic}", number)


def run(options: WriteOptions, *bounds: int, number: int = 1) -> list[Staged]:
    """The tasks of a batch, each of which has the rows from one bound to the next."""
    pairs = itertools.pairwise(bounds)
    return [stage([values(first, end)], options, of(options, number)) for first, end in pairs]


def found(options: WriteOptions) -> list[int]:
    """All that is visible. One answer may end where the table does, and the rest is in the journal alone."""
    numbers, path = list[int](), f"{options.server}/topics/{options.topic}/partitions/0"
    end = httpx.get(f"{path}/offsets").raise_for_status().json()["end_offset"]
    while len(numbers) < end:
        answer = httpx.get(f"{path}/records", params={"offset": len(numbers)}).raise_for_status()
        numbers += [json.loads(line)["value"] for line in answer.text.splitlines()]
    return numbers


def dies(first: int, end: int) -> Iterator[pa.RecordBatch]:
    """What a task had sent when its worker was killed."""
    yield values(first, end)
    raise InterruptedError


def test_only_the_runs_that_spark_counts_are_stored_in_the_order_of_their_tasks(options: WriteOptions):
    late = run(options, 10, 20)
    for _ in range(3):
        with pytest.raises(InterruptedError):
            stage(dies(0, 5), options, of(options))
    tasks = [*run(options, 0, 10), *run(options, 10, 20), stage([], options, of(options))]
    assert late[0].rows == tasks[1].rows
    assert found(options) == []
    decide(tasks, options, 1)
    assert found(options) == list(range(20))


def test_a_batch_that_comes_again_is_left_out_however_it_is_cut(options: WriteOptions):
    decide(run(options, 0, 10, 20), options, 1)
    read: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, 20, 5):
            read.append(first)
            yield values(first, first + 5)

    again = [stage(rows(), options, of(options)), *run(options, 7, 20, 33)]
    assert [each.decided for each in again] == [True] * 3
    assert read == [0, 5, 10, 15], "what Spark hands out is taken, so that its worker can be used again"
    decide(again, options, 1)
    decide(run(options, 0, 20, number=0), options, 0)
    decide(run(options, 20, 25, 30, number=2), options, 2)
    assert found(options) == list(range(30))


def test_of_two_drivers_with_one_batch_the_first_decides(options: WriteOptions):
    zombie, driver = run(options, 0, 10, 20), run(options, 0, 7, 14, 20)
    decide(driver, options, 1)
    decide(zombie, options, 1)
    assert found(options) == list(range(20))
    # A driver that dies after its commit leaves a next one that goes on.
    mixed = [*run(options, 20, 25, number=2)]
    decide(run(options, 20, 30, number=2), options, 2)
    mixed += run(options, 25, 30, number=2)
    assert [each.decided for each in mixed] == [False, True]
    decide(mixed, options, 2)
    assert found(options) == list(range(30))


def test_a_batch_that_failed_leaves_nothing_and_may_come_again(options: WriteOptions):
    failed = [*run(options, 0, 10), None]
    give_up(failed, options)
    with pytest.raises(NotReadable, match="aborted"):
        decide(failed, options, 1)
    decide(run(options, 0, 20), options, 1)
    give_up(run(options, 0, 20), options)
    assert found(options) == list(range(20))


def test_lost_answers_of_every_step_change_nothing(server: Server, options: WriteOptions):
    with CuttingProxy(random.Random(5)) as proxy:
        proxy.target = server.address
        through = WriteOptions(proxy.url, options.topic, 60_000, once=True)
        proxy.trouble = {"cut the request": 0.2, "lose the answer": 0.3, "spoil the answer": 0.1}
        for number in range(4):
            tasks = [
                stage([values(at, at + 5), values(at + 5, at + 10)], through, of(options, number))
                for at in (number * 20, number * 20 + 10)
            ]
            decide(tasks, through, number)
        assert proxy.happened["lose the answer"] >= 2
    assert found(options) == list(range(80))


def test_a_batch_that_is_too_large_is_refused_as_a_whole_and_says_what_helps(options: WriteOptions):
    with pytest.raises(NotDecided, match="maxOffsetsPerTrigger"):
        stage((values(at, at + 100, 1000) for at in range(0, 2000, 100)), options, of(options))
    assert found(options) == []
    decide(run(options, 0, 3, number=2), options, 2)
    assert found(options) == [0, 1, 2]


def test_a_server_that_begins_anew_in_the_middle_of_a_batch_has_it_done_again(tmp_path):
    root = tmp_path / "root"
    with serving(root) as server:
        httpx.put(f"{server.url}/topics/t").raise_for_status()
        options = WriteOptions(server.url, "t", 60_000, once=True)
        decide(run(options, 0, 1, number=0), options, 0)
        before = run(options, 0, 10)
        server.kill()
    with serving(root) as server:
        options = WriteOptions(server.url, "t", 60_000, once=True)
        with pytest.raises(NotDecided, match="as it was restarted"):
            decide([*before, *run(options, 10, 20)], options, 1)
        with pytest.raises(NotReadable, match="aborted"):
            decide(before, options, 1)
        decide(run(options, 0, 20), options, 1)
        decide(run(options, 0, 1, number=0), options, 0)
        assert found(options) == [0, *range(20)]


def test_tasks_that_are_of_another_batch_than_the_driver_says_are_not_stored(options: WriteOptions):
    with pytest.raises(NotDecided, match="batch 1"):
        decide(run(options, 0, 10), options, 2)
    assert found(options) == []


def test_what_is_staged_into_a_transaction_of_somebody_elses_is_committed_with_it_or_left_to_them(
    server: Server, options: WriteOptions
):
    begin = {"transactional_id": options.topic}
    for fails in (True, False):
        begun = httpx.post(f"{server.url}/transactions", json=begin).raise_for_status().json()
        one = f"{server.url}/transactions/{begun['id']}"
        moved = {"group": options.topic, "offsets": [{"topic": options.topic, "partition": 0, "next_offset": 0}]}
        httpx.post(f"{one}/offsets", json=moved).raise_for_status()
        within = replace(options, transaction=begun["id"])
        with pytest.raises(InterruptedError):
            stage(dies(0, 5), within)
        tasks = [stage([values(first, first + 10)], within) for first in (0, 10)]
        if fails:
            give_up([*tasks, None], within)
            assert httpx.get(one).json()["state"] == "open"
        else:
            decide([*tasks, stage([], within)], within)
            assert [each["next_offset"] for each in httpx.get(one).json()["offsets"]] == [0]
    assert found(options) == list(range(20))
    begun = httpx.post(f"{server.url}/transactions", json=begin).raise_for_status().json()
    large = (values(at, at + 100, 1000) for at in range(0, 2000, 100))
    with pytest.raises(NotDecided, match=r"transaction\.max\.bytes"):
        stage(large, replace(options, transaction=begun["id"]))
    with pytest.raises(InvalidOption, match="is not the id of one"):
        stage([], replace(options, transaction="an id"))


def story(options: WriteOptions) -> list[int]:
    """A worker that is killed, a twin of a task, and a batch that comes again in other tasks."""
    with pytest.raises(InterruptedError):
        stage(dies(0, 5), options, of(options))
    run(options, 0, 10)
    decide(run(options, 0, 10, 20), options, 1)
    decide(run(options, 0, 7, 20), options, 1)
    return found(options)


def all_count(self: source_server.Server, transaction: str, _: object) -> None:
    self._post("a broken commit", f"/transactions/{transaction}/commit", None)


def never_the_same(self: source_server.Server, name: str, _: int, stage: str) -> source_server.Part | None:
    # Tasks of one batch find each other, and a batch that comes again is another.
    return begin(self, name, len(found(WriteOptions(self.url, name.removeprefix("ü "), 20_000))), stage)


begin = source_server.Server.begin


@pytest.mark.parametrize(
    "broken", [None, ("commit", all_count), ("begin", never_the_same)], ids=["whole", "all stages count", "no version"]
)
def test_a_story_of_kills_ends_well_and_broken_sinks_are_found_out(
    options: WriteOptions, monkeypatch: pytest.MonkeyPatch, broken: tuple[str, object] | None
):
    if broken is not None:
        monkeypatch.setattr(source_server.Server, *broken)
    assert (story(options) == list(range(20))) is (broken is None)
