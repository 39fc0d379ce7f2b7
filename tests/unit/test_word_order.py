"""Options stand anywhere, and words are spelled with hyphens or underscores; what is no option stays where it is."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import pytest

from jobs.foundation.registry import JOBS
from jobs.runner.table_job import build_parser
from jobs.tables import retention
from lakelog.cli import main as cli
from lakelog.cli.commands import COMMANDS
from lakelog.cli.jobs import command as jobs_command
from lakelog.cli.jobs.schedule import Order, plan_order
from lakelog.cli.kit.parser import settle

URL = "http://127.0.0.1:1"


def settled(line: str | Sequence[str]) -> list[str]:
    words = line.split() if isinstance(line, str) else list(line)
    return settle(words, COMMANDS, lambda path: cli.options_below(path, COMMANDS))


def read(line: str | Sequence[str]) -> dict[str, Any]:
    module, args = cli.read(settled(line), COMMANDS)
    assert module is not None
    return vars(args)


def planned(line: str) -> Order:
    args = Namespace(**read(line))
    assert args.action == "run"
    return plan_order(args.words, JOBS, jobs_command.options)


@pytest.mark.parametrize(
    "line",
    [
        f"produce orders --server {URL} lines.txt --format json",
        f"produce --server {URL} orders --format=json lines.txt",
        f"produce --format json --server={URL} orders lines.txt",
        f"--server {URL} produce orders --format json lines.txt",
        f"--server {URL} --format json produce orders lines.txt",
    ],
)
def test_options_stand_between_words_and_before_the_command(line: str):
    found = read(line)
    assert (found["topic"], found["file"], found["server"], found["format"]) == ("orders", "lines.txt", URL, "json")


def test_options_stand_between_a_command_and_the_word_below_it():
    assert settled(f"topics --server {URL} list --output json") == [
        "topics",
        "list",
        "--server",
        URL,
        "--output",
        "json",
    ]
    assert settled("--debug topics --output json add_partitions t") == [
        "--debug", "topics", "add-partitions", "--output", "json", "t",
    ]  # fmt: skip


def test_the_value_of_an_option_is_not_taken_for_a_command():
    assert settled("--group sql consume orders") == ["consume", "--group", "sql", "orders"]
    assert settled("--memory serve --data x") == ["serve", "--memory", "--data", "x"]
    assert settled("--memory true serve --data x") == ["serve", "--memory", "true", "--data", "x"]


@pytest.mark.parametrize(
    "line", ["prode topics list", "--zzz topics list", "--server topics list", "topics", "-- topics"]
)
def test_words_that_fit_no_command_stay_where_they_stand(line: str):
    assert settled(line) == line.split()


def test_names_of_topics_keep_their_spelling():
    assert read("topics describe add_partitions --output json")["topics"] == ["add_partitions"]
    assert read("topics describe reset-offsets a_b --output=json")["topics"] == ["reset-offsets", "a_b"]
    assert read("sql --output json SELECT_1")["query"] == "SELECT_1"


def test_what_begins_with_a_minus_is_still_a_word_behind_two_or_where_a_number_is_wanted():
    assert read("produce orders - --format json")["file"] == "-"
    assert read("produce orders --format json -- -lines")["file"] == "-lines"
    assert read(f"produce --server {URL} -- -orders --format")["topic"] == "-orders"
    assert read(f"produce --server {URL} -- -orders --format")["file"] == "--format"
    assert read("topics delete --if_exists -- -a -b")["topics"] == ["-a", "-b"]
    assert read("groups reset-offsets g --shift-by -5 --topic t")["shift_by"] == -5
    assert read("produce --key-separator=-x orders")["key_separator"] == b"-x"
    assert read(["sql", "--output", "json", "-- a comment\nSELECT 1"])["query"] == "-- a comment\nSELECT 1"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("produce orders lines.txt --partition", "lakelog produce: argument --partition: expected one argument"),
        (
            "produce --key-separator --server orders x",
            "lakelog produce: argument --key-separator: expected one argument",
        ),
        ("produce orders --partition --format json lines.txt", "argument --partition: expected one argument"),
        ("produce a b c", "lakelog produce: unrecognized arguments: c; see"),
        ("produce --format json a b c", "lakelog produce: unrecognized arguments: c; see"),
        ("produce orders --partitoin 3 x", "unrecognized arguments: --partitoin"),
        ("produce --format json", "lakelog produce: the following arguments are required: TOPIC; see"),
        ("produce orders --format jsno", "argument --format: there is no 'jsno'; the nearest is json"),
    ],
)
def test_nothing_is_guessed_where_a_value_is_missing_or_a_word_too_many(
    capsys: pytest.CaptureFixture[str], line: str, says: str
):
    with pytest.raises(SystemExit) as ended:
        read(line)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_options_and_settings_are_known_with_underscores():
    found = read("topics create t --if_not_exists --config retention_ms=5 --config cleanup-policy=compact")
    assert found["if_not_exists"]
    assert found["config"] == [("retention.ms", "5"), ("cleanup.policy", "compact")]
    assert read("topics alter t --delete_config=retention_ms")["delete_config"] == ["retention.ms"]


@pytest.mark.parametrize(
    "line",
    [
        "jobs run key_compaction retention --data x --all --dry-run",
        "jobs run key-compaction retention --data x --all --dry_run",
        "jobs run --data x --all key-compaction --dry-run retention",
        "jobs --data x run --all key-compaction retention --dry_run",
        "--data x jobs --all --dry-run run key-compaction retention",
    ],
)
def test_jobs_are_named_among_options_and_in_both_spellings(line: str):
    order = planned(line)
    assert order.names == ("key_compaction", "retention")
    options = vars(jobs_command.parser_of("retention").parse_args(order.options))
    assert (options["data"], options["all"], options["dry_run"]) == ("x", True, True)


def test_the_name_of_a_job_that_is_the_value_of_an_option_is_no_job():
    assert planned("jobs run --topic audit --data x retention").names == ("retention",)
    assert planned("jobs run retention --data=x --topic compaction").names == ("retention",)
    assert planned("jobs run retention --unknown audit").options == ("--unknown", "audit")


def test_a_job_by_itself_knows_its_options_with_underscores():
    options = build_parser(retention.JOB).parse_args(["--data", "a_b", "--all", "--dry_run", "--store_option=a_b=c_d"])
    assert (options.data, options.dry_run) == ("a_b", True)
