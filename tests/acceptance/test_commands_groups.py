"""`lakelog groups …` and `lakelog bench …` against a real server: what each shows, what it changes, and how it ends."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from lakelog import Admin
from lakelog.cli.bench.figures import percentile, sum_up
from tests.support.server_commands import Ran, call_command, start_command
from tests.support.serving import Server, serving

TIMES = (1_000, 2_000, 3_000, 4_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("groups") / "root") as running:
        with Admin({"bootstrap.servers": running.url}) as admin:
            admin.create_topic("orders", partitions=2)
            for partition in ("0", "1"):
                lines = b"".join(b'{"value": "x", "timestamp": %d}\n' % at for at in TIMES)
                call_command(
                    running.url, "produce", "orders", "--format", "json", "--partition", partition, given=lines
                )
        yield running


@pytest.fixture
def group(server: Server, request: pytest.FixtureRequest) -> str:
    """A group of the test's own, in the middle of both partitions."""
    name = request.node.name
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.alter_group_offsets(name, {("orders", 0): 2, ("orders", 1): 2})
    return name


def groups(server: Server, *words: str) -> Ran:
    return call_command(server.url, "groups", *words)


def done(server: Server, *words: str) -> Ran:
    ran = groups(server, *words)
    assert (ran.code, ran.err) == (0, "")
    return ran


def offsets(server: Server, group: str) -> list[int]:
    (described,) = done(server, "describe", group, "--output", "json").rows
    return [each["next_offset"] for each in described["partitions"]]


def test_a_group_is_listed_and_described_with_its_lag(server: Server, group: str):
    listed = {row["group"]: row for row in done(server, "list", "--output", "json").rows}
    assert listed[group] == {"group": group, "state": "Empty", "members": 0, "generation": 0, "assignor": None}
    assert done(server, "list").lines[0].split() == ["group", "state", "members", "generation", "assignor"]
    (described,) = done(server, "describe", group, "--output", "json").rows
    assert (described["lag"], described["members"]) == (4, [])
    first = described["partitions"][0]
    assert {name: first[name] for name in ("topic", "partition", "next_offset", "end_offset", "lag")} == {
        "topic": "orders",
        "partition": 0,
        "next_offset": 2,
        "end_offset": 4,
        "lag": 2,
    }
    shown = done(server, "describe", group).text
    assert "\npartitions\n" in shown
    assert "orders  0          2            4           2" in shown


@pytest.mark.parametrize(
    ("to", "after"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [4, 4]),
        (["--to-offset", "1"], [1, 1]),
        (["--to-offset", "99"], [4, 4]),
        (["--shift-by", "-1"], [1, 1]),
        (["--shift-by", "1"], [3, 3]),
        (["--to-datetime", "1970-01-01T00:00:03Z"], [2, 2]),
        (["--to-earliest", "--topic", "orders:1"], [2, 0]),
        (["--to-earliest", "--topic", "orders"], [0, 0]),
    ],
    ids=lambda each: " ".join(map(str, each)),
)
def test_a_reset_says_first_what_it_would_do_and_then_does_it(server: Server, to: list[str], after: list[int]):
    name = "reset " + " ".join(to)
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.alter_group_offsets(name, {("orders", 0): 2, ("orders", 1): 2})
    planned = done(server, "reset-offsets", name, *to, "--dry-run", "--output", "json").rows
    assert offsets(server, name) == [2, 2]
    did = done(server, "reset-offsets", name, *to, "--output", "json").rows
    assert [row | {"done": True} for row in planned] == did
    assert all(row["before"] == 2 and row["after"] == after[row["partition"]] for row in did)
    assert len(did) == (1 if "orders:1" in to else 2)
    assert offsets(server, name) == after


def test_a_group_is_deleted_and_then_unknown(server: Server, group: str):
    assert done(server, "delete", group).text == f"{group}: deleted\n"
    for words in (["describe", group], ["delete", group], ["reset-offsets", group, "--to-earliest"]):
        ended = groups(server, *words)
        assert ended.code == 5
        assert "`lakelog groups list` names the groups there are" in ended.sentence


def test_groups_that_were_deleted_before_something_fails_are_said(server: Server, group: str):
    ended = groups(server, "delete", group, "absent", "never")
    assert (ended.code, ended.text) == (4, f"{group}: deleted\n")
    assert "absent" in ended.sentence
    assert ended.sentence.endswith(f"; {group} deleted before that\n")


def test_a_group_with_members_is_left_as_it_is(server: Server, group: str):
    with start_command(server.url, "consume", "orders", "--group", group, "--follow") as reader:
        assert reader.line() == b"x\n"
        (described,) = done(server, "describe", group, "--output", "json").rows
        assert [len(each["assigned"]) for each in described["members"]] == [2]
        for words in (["delete", group], ["reset-offsets", group, "--to-earliest"]):
            ended = groups(server, *words)
            assert ended.code == 6
            assert "stop its members first" in ended.sentence


@pytest.mark.parametrize(
    "words",
    [
        ["reset-offsets", "g"],
        ["reset-offsets", "g", "--to-earliest", "--to-latest"],
        ["reset-offsets", "g", "--to-datetime", "yesterday"],
        ["reset-offsets", "g", "--to-earliest", "--topic", "orders:x"],
        ["describe"],
    ],
    ids=" ".join,
)
def test_what_is_called_wrongly_is_one_sentence(server: Server, words: list[str]):
    ended = groups(server, *words)
    assert ended.code == 2
    assert "--help" in ended.sentence


def test_a_measurement_says_rates_and_percentiles_of_what_it_really_sent_and_read(server: Server):
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.create_topic("measured", partitions=1)
        wanted = ("--records", "500", "--record-size", "10", "--output", "json")
        (sent,) = call_command(server.url, "bench", "produce", "measured", *wanted).rows
        assert admin.offsets("measured", 0).end_offset == sent["records"] == 500
        assert sent["bytes"] == 5_000
        (read,) = call_command(server.url, "bench", "consume", "measured", "--records", "300", "--output", "json").rows
        assert (read["records"], read["bytes"]) == (300, 3_000)
        for figures in (sent, read):
            assert 0 < figures["p50_ms"] <= figures["p95_ms"] <= figures["p99_ms"] <= figures["p99_9_ms"]
            assert figures["p99_9_ms"] <= figures["max_ms"] <= figures["seconds"] * 1000 + 1
        said = call_command(server.url, "bench", "produce", "measured", "--records", "20", "--throughput", "200")
        assert said.code == 0
        assert said.text.startswith("20 records sent, ")
        assert float(said.text.split()[3].replace(",", "")) <= 220
        assert "500" not in call_command(server.url, "groups", "list").text
    for words in (["produce", "absent"], ["consume", "absent"]):
        assert call_command(server.url, "bench", *words).code == 5


def test_percentiles_are_values_that_were_measured():
    ordered = [float(each) for each in range(1, 1001)]
    assert [percentile(ordered, part) for part in (0.5, 0.95, 0.99, 0.999, 1.0)] == [500, 950, 990, 999, 1000]
    assert sum_up("a poll", 0, 0, 0.0, [])["p99_ms"] == 0.0
