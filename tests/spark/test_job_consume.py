"""The consume job beside a server that goes on writing: every record, in a group, whoever joins, leaves or dies.

It is long, as all of it shares one server and one session, which take seconds to start.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from consumer_groups.model.dead_letter import dead_letter_topic
from jobs.consume import job as consume
from jobs.groups import group_member as membership
from lakelog import Consumer
from tests.support import consume_functions as functions
from tests.support.serving import serving, wait_for
from tests.support.source_stage import Stage, writing_on

FUNCTIONS = "tests.support.consume_functions"
KEEP = ["--module", f"{FUNCTIONS}.keep"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("consume") / "root"
    with serving(root) as server:
        stage = Stage(server, root)
        yield stage
        stage.close()


@pytest.fixture(autouse=True)
def kept() -> Iterator[list[list[tuple[str, int, int]]]]:
    """What the function `keep` was given, batch by batch."""
    yield functions.BATCHES
    functions.BATCHES.clear()
    functions.THEN.clear()


def rows() -> list[tuple[str, int, int]]:
    with functions.LOCK:
        return sorted(row for batch in functions.BATCHES for row in batch)


def all_rows(stage: Stage, topic: str, partitions: int) -> list[tuple[str, int, int]]:
    return [(topic, each, row["offset"]) for each in range(partitions) for row in stage.read(topic, each)]


def group(stage: Stage, name: str) -> dict[str, Any]:
    answer = stage.client.get(f"/groups/{name}")
    return answer.json() if answer.is_success else {"members": [], "partitions": [], "lag": None}


def forget_members(stage: Stage, name: str) -> None:
    """As when their sessions are over."""
    for member in group(stage, name)["members"]:
        stage.client.delete(f"/consumers/{name}/instances/{member['instance_id']}").raise_for_status()


def next_offsets(stage: Stage, name: str) -> list[int]:
    return [each["next_offset"] for each in group(stage, name)["partitions"]]


def run(stage: Stage, capsys: pytest.CaptureFixture[str], *options: object) -> tuple[int, dict[str, Any], list[str]]:
    """All there is now: exit code, summary, and what was printed before it."""
    capsys.readouterr()
    code = consume.main(["--server", stage.url, "--available-now", *map(str, options)])
    *lines, last = capsys.readouterr().out.splitlines()
    return code, json.loads(last), lines


class Job:
    """One that goes on until it is told to stop, in a thread."""

    def __init__(self, stage: Stage, *options: object) -> None:
        self._stop = threading.Event()
        words = ["--server", stage.url, *map(str, options)]
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(words,))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert self.code == 0

    def _run(self, words: list[str]) -> None:
        self.code = consume.main(words, stopping=self._stop)


@contextmanager
def consuming(stage: Stage, *options: object) -> Generator[Job]:
    job = Job(stage, *options)
    try:
        yield job
    finally:
        if job.code is None:
            job.stop()


def test_a_group_goes_on_where_it_was_and_its_lag_is_seen_by_everybody(stage: Stage, spark: SparkSession, capsys):
    stage.create("orders", 2)
    stage.create("loud", 1)
    stage.fill("orders", 10, partitions=2)
    billing = ["--group", "billing", "--topic", "orders"]
    code, summary, lines = run(stage, capsys, *billing, "--max-offsets", 6)
    assert (code, summary["topics"]) == (
        0,
        {"orders": {"batches": 2, "offsets": 10, "uncommitted": 0, "dead_letters": 0}},
    )
    found = [json.loads(line) for line in lines]
    assert sorted((row["partition"], row["offset"], row["value"]) for row in found) == [
        (n % 2, n // 2, str(n)) for n in sorted(range(10), key=lambda n: (n % 2, n))
    ]
    assert (group(stage, "billing")["lag"], next_offsets(stage, "billing")) == (0, [5, 5])
    stage.fill("orders", 2, partitions=2, first=10)
    assert group(stage, "billing")["lag"] == 2
    to_topic = ["--to", "loud", "--module", f"{FUNCTIONS}.by_batch"]
    with writing_on(lambda n: stage.write("orders", [{"value": b"more", "partition": n % 2}], wait=False)):
        code, summary, lines = run(stage, capsys, *billing, *to_topic, "--data", stage.path)
    assert (code, lines) == (0, [])
    after = next_offsets(stage, "billing")
    assert summary["topics"]["orders"]["offsets"] == sum(after) - 10 >= 2
    sent = [row["value"] for row in stage.read("loud", 0)]
    there = [b"0:%b" % row["value"] for each in range(2) for row in stage.read("orders", each)[5 : after[each]]]
    assert sorted(sent) == sorted(there)
    assert group(stage, "billing")["members"] == []


def test_who_begins_at_the_end_owes_what_comes_then(stage: Stage, capsys):
    stage.create("late", 1)
    stage.fill("late", 5)
    late = ["--group", "late", "--pattern", "lat.", "--auto-offset-reset", "latest", *KEEP]
    assert run(stage, capsys, *late)[1]["topics"] == {}
    assert next_offsets(stage, "late") == [5]
    stage.fill("late", 3, first=5)
    assert run(stage, capsys, *late, "--delivery", "at-most-once")[0] == 0
    assert rows() == [("late", 0, 5), ("late", 0, 6), ("late", 0, 7)]
    stage.delete_records("late", 0, 8)
    stage.fill("late", 2, first=8)
    stage.client.put("/groups/late/offsets", json={"offsets": [{"topic": "late", "partition": 0, "next_offset": 2}]})
    code, summary, _ = run(stage, capsys, *late[:4], "--auto-offset-reset", "none", *KEEP)
    assert (code, summary["outcome"]) == (3, "refused")
    assert "late-0: 2 is committed, and not in the log any more" in summary["error"]


def test_members_by_http_and_by_spark_share_a_topic_and_each_record_is_read_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    """The job hears of the other soon, in a session that is not over before both are done."""
    monkeypatch.setattr(membership, "_BEATS", 225)
    stage.create("shared", 2)
    settings = {
        "bootstrap.servers": stage.url,
        "group.id": "shared",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 100,
    }
    others: list[tuple[str, int, int]] = []
    write = writing_on(lambda n: stage.write("shared", [{"value": b"x", "partition": n % 2}], wait=False))
    with write, consuming(stage, "--group", "shared", "--topic", "shared", *KEEP):
        wait_for(lambda: len(rows()) > 10, "that the job reads")
        with Consumer(settings) as consumer:
            consumer.subscribe(["shared"])

            def read_some() -> bool:
                others.extend((each.topic, each.partition, each.offset) for each in consumer.poll(1))
                consumer.commit()
                return len(others) > 20

            wait_for(read_some, "that the other reads")
            (own,) = {row[1] for row in others}
            seen = {each["partition"]: each["owner"] for each in group(stage, "shared")["partitions"]}
            assert seen[own] != seen[1 - own]
            before = len(rows())
            wait_for(lambda: read_some() and len(rows()) > before, "that the job goes on")
            assert {row[1] for row in rows()[before:]} <= {0, 1}
        taken = max(row[2] for row in others)
        wait_for(lambda: any(row[1] == own and row[2] > taken for row in rows()), "that the job takes it back")
    wait_for(lambda: group(stage, "shared")["members"] == [], "that the job left")
    done = next_offsets(stage, "shared")
    read = Counter([*rows(), *others])
    assert read == Counter(("shared", each, offset) for each in range(2) for offset in range(done[each]))


def test_of_two_jobs_and_one_partition_one_idles_until_the_other_ends(stage: Stage):
    stage.create("narrow", 1)
    stage.fill("narrow", 3)
    words = ["--group", "narrow", "--topic", "narrow", "--interval", "200ms", *KEEP]
    with consuming(stage, *words) as first:
        wait_for(lambda: len(rows()) == 3, "that the first reads")
        with consuming(stage, *words):
            wait_for(lambda: len(group(stage, "narrow")["members"]) == 2, "that both are there")
            stage.fill("narrow", 3, first=3)
            wait_for(lambda: len(rows()) == 6, "that one of them reads on")
            first.stop()
            stage.fill("narrow", 3, first=6)
            wait_for(lambda: len(rows()) == 9, "that the second goes on")
    assert rows() == all_rows(stage, "narrow", 1)


@pytest.mark.parametrize(("function", "given_up"), [("keep", []), ("keeps_and_gives_up", [1, 4])])
def test_what_a_stale_member_read_is_not_committed_and_comes_again(stage: Stage, capsys, function, given_up):
    """Nor are its dead letters, which are there once then."""
    name = f"stale-{function}"
    stage.create(name, 1)
    stage.write(name, [{"key": b"k", "value": b"%d" % n} for n in range(6)])

    def forget() -> None:
        functions.THEN.clear()
        assert len(group(stage, name)["members"]) == 1
        forget_members(stage, name)

    functions.THEN.append(forget)
    words = ["--group", name, "--topic", name, "--module", f"{FUNCTIONS}.{function}"]
    code, summary, _ = run(stage, capsys, *words)
    counts = {"batches": 2, "offsets": 6, "uncommitted": 1, "dead_letters": len(given_up)}
    assert (code, summary["topics"]) == (0, {name: counts})
    assert rows() == sorted(each for each in all_rows(stage, name, 1) * 2 if each[2] not in given_up)
    assert [int(row["value"]) for row in (stage.read(f"{name}.dlq", 0) if given_up else [])] == given_up
    assert next_offsets(stage, name) == [6]


def test_a_function_that_remembers_goes_on_from_its_checkpoint(
    stage: Stage, spark: SparkSession, tmp_path: Path, capsys
):
    stage.create("words", 2)
    stage.create("counts", 1)
    write = [{"key": key, "value": b"", "partition": n % 2} for n, key in enumerate([b"tea", b"rum", b"tea"])]
    words = ["--group", "words", "--topic", "words", "--module", f"{FUNCTIONS}.count", "--to", "counts"]
    kept = ["--checkpoint", tmp_path / "checkpoint"]
    for expected in ({b"tea": b"2", b"rum": b"1"}, {b"tea": b"4", b"rum": b"2"}):
        stage.write("words", write)
        assert run(stage, capsys, *words, *kept)[0] == 0
        assert {row["key"]: row["value"] for row in stage.read("counts", 0)} == expected
    assert group(stage, "words")["lag"] == 0
    code, summary, _ = run(stage, capsys, *words)
    assert code == 2
    assert "what a function is to remember needs --checkpoint" in summary["error"]
    with Consumer({"bootstrap.servers": stage.url, "group.id": "words"}) as other:
        other.subscribe(["words"])
        other.poll(1)
        wait_for(lambda: group(stage, "words")["members"], "that the other is there")
        code, summary, _ = run(stage, capsys, *words, *kept, "--session-timeout", "300ms")
    assert (code, summary["outcome"]) == (3, "refused")
    assert "with --checkpoint the job reads all partitions" in summary["error"]


def test_what_a_function_gives_up_is_a_dead_letter_once_and_the_rest_goes_on(stage: Stage, capsys):
    for topic, partitions in (("poison", 2), ("clean", 1)):
        stage.create(topic, partitions)
    records = [
        {"key": b"k%d" % n, "value": b"%d" % (n % 4), "partition": n % 2, "timestamp": 1000 + n} for n in range(8)
    ]
    stage.write("poison", [each | {"headers": [("own", b"\xff")]} for each in records])
    words = ["--topic", "poison", "--to", "clean", "--module", f"{FUNCTIONS}.gives_up_twos"]
    code, summary, _ = run(stage, capsys, "--group", "strict", *words)
    assert (code, summary["topics"]["poison"]) == (0, {"batches": 1, "offsets": 8, "uncommitted": 0, "dead_letters": 2})
    assert Counter(row["value"] for row in stage.read("clean", 0)) == {b"0": 2, b"1": 2, b"3": 2}
    first, second = stage.read("strict.dlq", 0)
    assert (first["key"], first["value"], second["key"], stage.read("strict.dlq", 1)) == (b"k2", b"2", b"k6", [])
    names = ("topic", "partition", "offset", "timestamp", "group", "attempts", "reason")
    said = (b"poison", b"0", b"1", b"1002", b"strict", b"1", b"it is two")
    assert first["headers"] == [
        ("own", b"\xff"),
        *((f"lakelog.dlq.{each}", what) for each, what in zip(names, said, strict=True)),
    ]
    assert group(stage, "strict")["lag"] == 0

    stage.create("small", 1, max_message_bytes=500)
    once = ["--group", "b", "--module", f"{FUNCTIONS}.keeps_and_gives_up", "--dead-letters", "small"]
    stage.write("poison", [{"key": b"large", "value": b"x" * 600, "partition": 1}], wait=False)
    code, summary, _ = run(stage, capsys, *once, "--topic", "poison", "--delivery", "at-most-once")
    assert (code, summary["topics"]["poison"]["dead_letters"], len(rows())) == (0, 3, 6)
    assert {row["key"]: row["headers"][-1][1] for row in stage.read("small", 0)} == {
        b"k2": b"of k2",
        b"k3": b"of k3",
        None: b"key, value and headers",
    }
    told = {each["group"]: each["dead_letter_topics"] for each in stage.client.get("/groups").json()["groups"]}
    assert told["b"] == ["small"]


@pytest.mark.parametrize(
    ("function", "code", "why"),
    [
        ("raises", 2, "failed: RuntimeError: not today"),
        ("answers_text", 2, "must answer a DataFrame and answered 'no frame'"),
        ("answers_a_batch", 2, "must make its DataFrame of the one that it is given"),
        ("fails_in_a_worker", 1, "the query failed: ValueError: not this row"),
        ("fails_and_remembers", 1, "ValueError: it is two; what depends on several records cannot be made of a part"),
        ("gives_up_what_is_not_there", 1, "gives up failing-0 at 1000, which is not in it"),
        ("has_a_column_of_that_name", 2, "is made by pyspark_lakelog.dead_letter, and is not string"),
    ],
)
def test_a_function_that_fails_is_told_in_a_sentence_and_commits_nothing(stage: Stage, capsys, function, code, why):
    stage.create("failing", 1)
    stage.fill("failing", 3)
    words = ["--group", function, "--topic", "failing", "--module", f"{FUNCTIONS}.{function}"]
    found, summary, _ = run(stage, capsys, *words, "--max-delivery-attempts", 1 if "remembers" in function else -1)
    assert (found, summary["topics"]) == (code, {})
    assert why in summary["error"]
    assert next_offsets(stage, function) in ([], [None])


def test_what_is_committed_is_where_the_jobs_own_stream_is_whatever_else_a_function_reads(stage: Stage, capsys):
    stage.create("beside", 1)
    stage.fill("beside", 3)
    words = ["--group", "beside", "--topic", "beside", "--module", f"{FUNCTIONS}.with_a_stream_of_its_own"]
    code, summary, lines = run(stage, capsys, *words)
    assert (code, summary["error"], next_offsets(stage, "beside")) == (0, None, [3])
    assert {json.loads(line)["value"] for line in lines} >= {"0", "1", "2"}


def test_a_job_that_is_to_stop_before_it_is_a_member_takes_nothing_from_others(stage: Stage, tmp_path: Path, capsys):
    stage.create("waiting", 1)
    words = ["--server", stage.url, "--group", "waiting", "--topic", "waiting", "--checkpoint", tmp_path]
    with Consumer({"bootstrap.servers": stage.url, "group.id": "waiting"}) as other:
        other.subscribe(["waiting"])
        other.poll(1)
        wait_for(lambda: group(stage, "waiting")["members"], "that the other is there")
        before = group(stage, "waiting")["generation"]
        stopping = threading.Event()
        stopping.set()
        assert consume.main([*map(str, words)], stopping=stopping) == 0
        assert group(stage, "waiting")["generation"] == before


class Heeded(threading.Event):
    """`heard` is set where somebody found it set."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()

    def is_set(self) -> bool:
        found = super().is_set()
        if found:
            self.heard.set()
        return found


def test_what_the_batch_in_hand_fails_of_is_told_by_a_job_that_was_stopped_meanwhile(stage: Stage, capsys):
    """At most once it is not read again, so nobody else would."""
    stage.create("stopped", 1)
    stage.fill("stopped", 3)
    stopping = Heeded()

    def fail() -> None:
        stopping.set()
        wait_for(stopping.heard.is_set, "that the query is to end")
        raise RuntimeError("not any more")

    functions.THEN.append(fail)
    words = ["--server", stage.url, "--group", "stopped", "--topic", "stopped", "--delivery", "at-most-once", *KEEP]
    code = consume.main(words, stopping=stopping)
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, next_offsets(stage, "stopped")) == (1, [3])
    assert summary["error"] == "RuntimeError: not any more"


def test_a_record_on_which_a_function_fails_is_a_dead_letter_once_and_the_rest_goes_on(stage: Stage, capsys):
    stage.create("bad", 2)
    stage.create("good", 1)
    stage.write("bad", [{"key": b"k%d" % n, "value": b"%d" % n, "partition": n % 2} for n in range(5)])
    words = ["--group", "bad", "--topic", "bad", "--to", "good", "--delivery", "exactly-once", "--data", stage.path]
    often = ["--max-delivery-attempts", 2, "--module", f"{FUNCTIONS}.fails_on_twos"]
    code, summary, _ = run(stage, capsys, *words, *often)
    assert (code, summary["topics"]["bad"]["offsets"], summary["topics"]["bad"]["dead_letters"]) == (0, 5, 1)
    assert Counter(row["key"] for row in stage.read("good", 0)) == Counter([b"k0", b"k1", b"k3", b"k4"])
    (letter,) = stage.read("bad.dlq", 0)
    said = {name.removeprefix("lakelog.dlq."): what for name, what in letter["headers"]}
    assert (letter["key"], letter["value"], said["partition"], said["offset"]) == (b"k2", b"2", b"0", b"1")
    assert (said["reason"], said["attempts"]) == (b"ValueError: it is two", b"2")
    assert group(stage, "bad")["lag"] == 0


def test_a_function_that_fails_on_everything_gives_nothing_up_and_ends_the_job(stage: Stage, capsys):
    stage.create("all-bad", 1)
    stage.fill("all-bad", 3)
    once = ["--group", "all-bad", "--topic", "all-bad", "--max-delivery-attempts", 1]
    code, summary, _ = run(stage, capsys, *once, "--module", f"{FUNCTIONS}.fails_in_any_case")
    assert (code, summary["topics"]) == (1, {})
    why = "all-bad-0 at 0 failed once, and so did all of 2 others that were tried"
    assert why in summary["error"]
    assert "ValueError: it is two" in summary["error"]
    assert next_offsets(stage, "all-bad") in ([], [None])
    assert "all-bad.dlq" not in stage.client.get("/topics").json()


def test_a_bad_record_that_is_alone_waits_for_another_and_holds_up_nobody_then(stage: Stage, capsys):
    stage.create("alone", 1)
    stage.write("alone", [{"key": b"k", "value": b"2"}])
    name = "allein/für sich"
    words = ["--group", name, "--topic", "alone", "--max-delivery-attempts", 1]
    words += ["--module", f"{FUNCTIONS}.keeps_none_but_twos"]
    code, summary, _ = run(stage, capsys, *words)
    assert code == 1
    assert "alone-0 at 0 failed once, and nothing else came to see whether others pass" in summary["error"]
    with consuming(stage, *words):
        wait_for(lambda: group(stage, quote(name, safe=""))["members"], "that the job is there")
        stage.fill("alone", 1, first=3)
        wait_for(lambda: group(stage, quote(name, safe=""))["lag"] == 0, "that the job goes on")
    assert {row[2] for row in rows()} == {1}
    (letter,) = stage.read(dead_letter_topic(name), 0)
    assert letter["value"] == b"2"
    assert dict(letter["headers"])["lakelog.dlq.reason"].startswith(b"ValueError: two, in batch ")
