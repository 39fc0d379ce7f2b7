"""Every command once for people and once for programs, against a real server: what its two forms look like."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import ANY

import pytest

from lakelog import Admin, Producer
from lakelog.cli.commands import COMMANDS
from lakelog.cli.kit.parser import commands_of
from tests.architecture.project_files import ROOT
from tests.support.damaged_roots import flip, make_dead_root, topic_files
from tests.support.server_commands import Ran, call_command
from tests.support.serving import Server, serving, wait_for

AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
FIGURES = dict.fromkeys(
    ("seconds", "records_per_second", "mb_per_second", "avg_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "p99_9_ms"),
    ANY,
)
A_COPY = {"root": ANY, "target": ANY, "dry_run": False, "complete": True, "left_out": [], "missing": [], "damage": []}


class Shown(NamedTuple):
    """`text` is a regular expression of lines that follow each other, `row` an object with nothing else in it.

    `FORM` stands for the form, so that what the one has changed is not there for the other.
    """

    words: str
    text: str
    row: dict[str, Any]


SHOWN = (
    Shown("topics list", r"orders", {"topic": "orders"}),
    Shown(
        "topics create made-FORM --partitions 2",
        r"made-text: created, 2 partitions",
        {"topic": "made-json", "created": True, "partitions": 2},
    ),
    Shown(
        "topics describe orders",
        r"topic            orders\npartition_count  1\n(.*\n)+0 +0 +1",
        {
            "topic": "orders",
            "partition_count": 1,
            "partitions": [{"partition": 0, "beginning_offset": 0, "end_offset": 1}],
            "configs": [],
        },
    ),
    Shown(
        "topics batches orders",
        r"partition  base_offset .*\n-.*\n0 +0 +0 +1 +\d+ +0 +" + AT + r" +partition=0/\S+\.parquet",
        {
            "partition": 0,
            "base_offset": 0,
            "last_offset": 0,
            "count": 1,
            "size": ANY,
            "position": 0,
            "created": ANY,
            "file": ANY,
        },
    ),
    Shown(
        "topics alter altered-FORM --config retention.ms=5",
        r"name +before +after +default\n-.*\nretention\.ms +604800000 +5 +false",
        {"name": "retention.ms", "before": "604800000", "after": "5", "default": False},
    ),
    Shown(
        "topics add-partitions grown-FORM --partitions 3",
        r"grown-text: 3 partitions, before 1",
        {"topic": "grown-json", "before": 1, "partitions": 3},
    ),
    Shown("topics delete gone-FORM", r"gone-text: deleted", {"topic": "gone-json", "deleted": True}),
    Shown(
        "topics export orders --data ROOTS/handed-FORM --yes",
        r"plan: bring 0 .*\nplan: drop .*\n\S+/topics/orders: exported as version \d+; orders is no topic any more",
        {"topic": "orders", "location": ANY, "version": ANY, "already": False, "dry_run": False},
    ),
    Shown(
        "produce written-FORM",
        r"written-text: 1 record, 2 B in [\d.]+ s: \d+ records/s, [\d.]+ MB/s",
        {"topic": "written-json", "records": 1, "bytes": 2, "seconds": ANY, "records_per_second": ANY},
    ),
    Shown(
        "consume orders",
        r"first",
        {
            "topic": "orders",
            "partition": 0,
            "offset": 0,
            "timestamp": ANY,
            "key": None,
            "value": "first",
            "headers": [],
        },
    ),
    Shown(
        "groups list",
        r"group +state +members +generation +assignor\n-.*\n(.*\n)*readers +Empty +0 +0",
        {"group": "readers", "state": "Empty", "members": 0, "generation": 0, "assignor": None},
    ),
    Shown(
        "groups describe readers",
        r"group       readers\n(.*\n)*lag         0\n(.*\n)+orders +0 +1 +1 +0 +" + AT,
        {
            "group": "readers",
            "state": "Empty",
            "generation": 0,
            "assignor": None,
            "lag": 0,
            "partitions": [
                {
                    "topic": "orders",
                    "partition": 0,
                    "next_offset": 1,
                    "end_offset": 1,
                    "lag": 0,
                    "owner": None,
                    "committed": ANY,
                    "metadata": "",
                }
            ],
            "members": [],
        },
    ),
    Shown(
        "groups reset-offsets reset-FORM --to-earliest",
        r"group +topic +partition +before +after +done\n-.*\nreset-text +orders +0 +1 +0 +true",
        {"group": "reset-json", "topic": "orders", "partition": 0, "before": 1, "after": 0, "done": True},
    ),
    Shown("groups delete gone-FORM", r"gone-text: deleted", {"group": "gone-json", "deleted": True}),
    Shown(
        "dlq list",
        r"topic +group +partitions +letters\n-.*\norders\.dlq +orders +1 +1",
        {"topic": "orders.dlq", "group": "orders", "partitions": 1, "letters": 1},
    ),
    Shown(
        "dlq show orders.dlq",
        r"partition  offset  time .*\n-.*\n0 +0 +" + AT + " +first",
        {
            "partition": 0,
            "offset": 0,
            "time": ANY,
            "from": "",
            "from_partition": None,
            "from_offset": None,
            "group": None,
            "attempts": None,
            "reason": None,
            "key": None,
            "value": "first",
        },
    ),
    Shown(
        "dlq replay orders.dlq --to sent-FORM",
        r"partition +offset +to +to_partition +to_offset +sent\n-.*\n0 +0 +sent-text +0 +0 +true",
        {"partition": 0, "offset": 0, "to": "sent-json", "to_partition": 0, "to_offset": 0, "sent": True},
    ),
    Shown(
        "bench produce loaded-FORM --records 10",
        r"10 records sent, [\d,.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, .* ms 99\.9th",
        {"topic": "loaded-json", "records": 10, "bytes": 1000, "latency_of": "a record", **FIGURES},
    ),
    Shown(
        "bench consume orders",
        r"1 records read, [\d,.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, .* ms 99\.9th",
        {"topic": "orders", "records": 1, "bytes": 5, "latency_of": "a poll", **FIGURES},
    ),
    Shown(
        "sql 'SELECT count(*) AS n FROM orders' --data ROOTS/root",
        r"n\n---\n1",
        {"n": 1},
    ),
    Shown(
        "check --server SERVER",
        r"plan: read of .*\n\S+/root: sound; \d+ tables, .* bytes",
        {
            "root": ANY,
            "dry_run": False,
            "sound": True,
            "tables": ANY,
            "files": ANY,
            "records": ANY,
            "bytes": ANY,
            "findings": [],
        },
    ),
    Shown(
        "repair --data ROOTS/damaged-FORM --yes",
        r"(plan: |cure: |).*orders.*\n(.*\n)*\S+/damaged-text: did 1 cure; 0 things are left",
        {"root": ANY, "dry_run": False, "sound": True, "cures": [ANY], "left": [], "findings": ANY},
    ),
    Shown(
        "backup ROOTS/copy-FORM --data ROOTS/dead",
        r"plan: .*\n(.*\n)*\S+/dead copied to \S+/copy-text: 3 tables, \d+ files, \d+ bytes",
        A_COPY | {"tables": [ANY, ANY, ANY]},
    ),
    Shown(
        "restore ROOTS/copy --data ROOTS/new-FORM",
        r"plan: .*\n(.*\n)*\S+/copy copied to \S+/new-text: 3 tables, \d+ files, \d+ bytes",
        A_COPY | {"tables": [ANY, ANY, ANY]},
    ),
    Shown("jobs list", r"retention +Remove .*", {"job": "retention", "summary": ANY}),
    Shown(
        "doctor --data ROOTS/dead",
        r"ok       root +\S+/dead has cluster \w+ in format 1\n(.*\n)+",
        {"outcome": ANY, "checks": ANY},
    ),
    Shown(
        "selftest --records 20",
        r"1\. .*\n(.*\n)+All \d+ acknowledged records are there, each once, at its offset\.",
        {"acknowledged": ANY, "rows": ANY, "wrong": []},
    ),
)
#: Where both forms are looked at there.
ELSEWHERE = {"demo": "integration/test_demo_command.py"}
#: What these write is a log, and what a shell reads.
ONE_FORM = ("serve", "completion bash")


class Stage(NamedTuple):
    server: Server
    roots: Path

    def call(self, words: str, form: str) -> Ran:
        for name, meant in {"FORM": form, "ROOTS": str(self.roots), "SERVER": self.server.url}.items():
            words = words.replace(name, meant)
        asked = ["--output", "json"] if form == "json" else []
        return call_command(self.server.url, *shlex.split(words), *asked, given=b"1\n")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stage]:
    """What commands look at, and of what they change one for each form."""
    roots = tmp_path_factory.mktemp("forms")
    make_dead_root(roots / "dead", journal=False)
    make_dead_root(roots / "journaled")
    assert call_command(None, "backup", str(roots / "copy"), "--data", str(roots / "dead")).code == 0
    for form in ("text", "json"):
        shutil.copytree(roots / "dead", roots / f"handed-{form}")
        damaged = Path(shutil.copytree(roots / "journaled", roots / f"damaged-{form}"))
        flip(topic_files(damaged)[1])
    with serving(roots / "root") as server:
        settings = {"bootstrap.servers": server.url}
        with Admin(settings) as admin, Producer(settings) as producer:
            for topic in ("orders", "orders.dlq"):
                admin.create_topic(topic, partitions=1)
                producer.send(topic, b"first").result()
            admin.alter_group_offsets("readers", {("orders", 0): 1})
            for form in ("text", "json"):
                for what in ("altered", "grown", "gone", "written", "sent", "loaded"):
                    admin.create_topic(f"{what}-{form}", partitions=1)
                for what in ("reset", "gone"):
                    admin.alter_group_offsets(f"{what}-{form}", {("orders", 0): 1})
            wait_for(lambda: list(admin.batches("orders", 0)), "the record in the table")
        yield Stage(server, roots)


def name_of(shown: Shown) -> str:
    return re.split(r" (?=[^ ]*[^a-z -])| --", shown.words)[0]


@pytest.mark.parametrize("shown", SHOWN, ids=name_of)
def test_a_command_has_a_form_for_people(stage: Stage, shown: Shown):
    ran = stage.call(shown.words, "text")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(rf"^{shown.text}$", ran.text, re.MULTILINE), ran.text


@pytest.mark.parametrize("shown", SHOWN, ids=name_of)
def test_a_command_has_a_form_for_programs_and_nothing_else_beside_it(stage: Stage, shown: Shown):
    ran = stage.call(shown.words, "json")
    assert ran.code == 0
    assert all(line.startswith("plan: ") for line in ran.err.splitlines()), ran.err
    assert shown.row in ran.rows


def test_what_a_job_did_is_json_in_any_case(stage: Stage):
    said = [stage.call("jobs run retention --data ROOTS/root --all", form) for form in ("text", "json")]
    for ran in said:
        (row,) = ran.rows
        assert (ran.code, row["job"], row["outcome"], row["errors"]) == (0, "retention", "done", {})
    assert said[0].rows[0].keys() == said[1].rows[0].keys()


def test_every_command_is_looked_at_in_both_forms():
    names = {" ".join(path) for path, _ in commands_of(COMMANDS)}
    for name in names - {words.split()[0] for words in ONE_FORM} - ELSEWHERE.keys():
        assert any(f"{shown.words} ".startswith(f"{name} ") for shown in SHOWN), name
    for name, file in ELSEWHERE.items():
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf'call_lakelog\("{name}", .*"--output", "json"\)', text), name
        assert re.search(rf'call_lakelog\("{name}", (?!.*"json").*\)', text), name
    for words in ONE_FORM:
        ran = call_command(None, *words.split(), "--output", "json")
        assert (ran.code, "unrecognized arguments: --output json" in ran.sentence) == (2, True)
