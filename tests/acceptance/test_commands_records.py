"""`lakelog produce` and `lakelog consume` against a real server: every byte of a line comes back."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from lakelog import Admin, Consumer
from tests.support.commands import call_at_terminal
from tests.support.server_commands import Ran, call_command, run_command, start_command
from tests.support.serving import Server, serving, wait_for

#: Nothing that is text may be told apart from what is not.
BYTES = b"tea\n\n\xff\xfe\x00\r\n\tx:y\n" + "Grüße\n".encode() + b'{"base64": "eA=="}\n"quoted"\nnull\n'
MANY = 1_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("records") / "root") as running:
        yield running


@pytest.fixture
def admin(server: Server) -> Generator[Admin]:
    with Admin({"bootstrap.servers": server.url}) as opened:
        yield opened


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    name = request.node.name.partition("[")[0][-60:].strip("_")
    admin.create_topic(name, partitions=1)
    return name


def call(server: Server, *words: str, given: bytes = b"") -> Ran:
    return call_command(server.url, *words, given=given)


def done(server: Server, *words: str, given: bytes = b"") -> bytes:
    ran = call(server, *words, given=given)
    assert (ran.code, ran.err) == (0, "")
    return ran.out


def test_lines_come_back_as_they_were_whatever_their_bytes_are(server: Server, topic: str):
    assert b"8 records" in done(server, "produce", topic, given=BYTES)
    assert done(server, "consume", topic) == BYTES


def test_a_last_line_without_an_end_is_a_record_and_no_line_is_none(server: Server, topic: str, admin: Admin):
    done(server, "produce", topic, given=b"")
    assert admin.offsets(topic, 0).end_offset == 0
    assert done(server, "consume", topic) == b""
    done(server, "produce", topic, given=b"a\n\nb")
    assert admin.offsets(topic, 0).end_offset == 3
    assert done(server, "consume", topic) == b"a\n\nb\n"


def test_json_copies_records_whole(server: Server, topic: str, admin: Admin):
    admin.create_topic(f"{topic}-copy", partitions=1)
    lines = (
        b'{"key": "k", "value": {"base64": "/wA="}, "headers": [{"name": "h", "value": "v"}, {"name": "n"}], '
        b'"timestamp": 7}\n'
        b'{"value": null}\n{"key": "", "value": {"deep": [1, "\\u00fc"]}}\n{"value": {"base64": "eA==", "more": 1}}\n'
    )
    done(server, "produce", topic, "--format", "json", given=lines)
    first = done(server, "consume", topic, "--output", "json")
    done(server, "produce", f"{topic}-copy", "--format", "json", given=first)
    again = call(server, "consume", f"{topic}-copy", "--output", "json").rows
    assert [row | {"topic": topic} for row in again] == call(server, "consume", topic, "--output", "json").rows
    assert [(row["key"], row["value"]) for row in again] == [
        ("k", {"base64": "/wA="}),
        (None, None),
        ("", '{"deep": [1, "\\u00fc"]}'),
        (None, '{"base64": "eA==", "more": 1}'),
    ]
    assert again[0]["headers"] == [{"name": "h", "value": "v"}, {"name": "n", "value": None}]
    assert again[0]["timestamp"] == 7


def test_keys_and_headers_stand_before_the_value(server: Server, topic: str):
    lines = b"h:v,n\tk::v:w\n\t:\n"
    done(server, "produce", topic, "--headers", "--key-separator", ":", given=lines)
    (first, second) = call(server, "consume", topic, "--output", "json").rows
    assert (first["key"], first["value"]) == ("k", ":v:w")
    assert first["headers"] == [{"name": "h", "value": "v"}, {"name": "n", "value": None}]
    assert (second["key"], second["value"], second["headers"]) == ("", "", [])
    assert done(server, "consume", topic, "--headers", "--key-separator", ":") == lines


@pytest.mark.parametrize(
    ("options", "given", "says"),
    [
        (["--key-separator", ":"], b"a:b\nnone\n", "line 2: there is no ':' behind its key"),
        (["--headers"], b"h:v\tx\nnone\n", "line 2: there is no tab behind its headers"),
        (["--format", "json"], b'{"value": 1}\nnone\n', "line 2: it is no record as JSON"),
        (["--format", "json"], b'{"value": 1}\n{"values": 1}\n', "line 2: it is no record as JSON"),
        (["--format", "json"], b'{"value": 1}\n{"value": {"base64": "?"}}\n', "line 2: its base64 cannot be read"),
        ([], b"a\n" + b"x" * 2_000_000 + b"\nb\n", "line 2: a record for"),
    ],
    ids=lambda each: each[:20] if isinstance(each, bytes) else None,
)
def test_a_bad_line_is_named_and_what_stands_before_it_is_stored(
    server: Server, admin: Admin, options: list[str], given: bytes, says: str
):
    name = f"bad-{random.getrandbits(60)}"
    admin.create_topic(name, partitions=1)
    ended = call(server, "produce", name, *options, given=given)
    assert ended.code == 7
    assert says in ended.sentence
    assert "1 of the 1 records that were sent are stored" in ended.sentence
    assert admin.offsets(name, 0).end_offset == 1


def test_where_to_begin_and_how_far_to_go_can_be_said(server: Server, topic: str, admin: Admin):
    admin.add_partitions(topic, 2)
    for partition in ("0", "1"):
        lines = b"".join(b'{"value": "%s-%d", "timestamp": %d}\n' % (partition.encode(), n, 1000 + n) for n in range(5))
        done(server, "produce", topic, "--partition", partition, "--format", "json", given=lines)

    def read(*options: str) -> list[str]:
        return done(server, "consume", topic, *options).decode().split()

    assert sorted(read()) == sorted(read("--from-beginning")) == [f"{p}-{n}" for p in (0, 1) for n in range(5)]
    assert read("--partition", "1", "--offset", "3") == ["1-3", "1-4"]
    assert read("--partition", "1", "--timestamp", "1970-01-01T00:00:01.003Z") == ["1-3", "1-4"]
    assert read("--partition", "0", "--max", "2") == ["0-0", "0-1"]
    assert read("--offset", "latest") == []
    assert read("--partition", "0", "--offset", "5") == []
    table = done(server, "consume", topic, "--partition", "0", "--max", "1", "--output", "table").decode().splitlines()
    assert [table[0].split()[0], table[2].split()[:4], len(table)] == ["topic", [topic, "0", "0", "1000"], 3]


def test_a_group_reads_on_where_it_was_and_leaves_nothing_behind_but_its_offsets(
    server: Server, topic: str, admin: Admin
):
    done(server, "produce", topic, given=b"1\n2\n3\n4\n5\n")
    assert done(server, "consume", topic, "--group", "readers", "--max", "2") == b"1\n2\n"
    assert done(server, "consume", topic, "--group", "readers", "--max", "1", "--output", "table").count(b"\n") == 3
    assert done(server, "consume", topic, "--group", "readers") == b"4\n5\n"
    assert done(server, "consume", topic, "--group", "readers") == b""
    assert admin.lag("readers") == {(topic, 0): 0}
    assert admin.describe_group("readers").members == ()
    assert done(server, "consume", topic) == b"1\n2\n3\n4\n5\n"
    assert [each.group for each in admin.list_groups() if "cli" in each.group] == []


def test_what_a_killed_reader_leaves_goes_with_the_next_one(server: Server, topic: str, admin: Admin):
    left = f"lakelog-cli-{0:032x}"
    with Consumer({"bootstrap.servers": server.url, "group.id": left}) as killed:
        killed.assign([(topic, 0)])
        wait_for(lambda: killed.poll(0.1) == [] and left in {each.group for each in admin.list_groups()}, "its group")
    assert [each.state for each in admin.list_groups() if each.group == left] == ["Empty"]
    done(server, "consume", topic)
    assert left not in {each.group for each in admin.list_groups()}


def test_a_partition_whose_records_are_all_gone_has_an_end(server: Server, topic: str, admin: Admin):
    done(server, "produce", topic, given=b"1\n2\n")
    admin.delete_records(topic, 0, -1)
    assert done(server, "consume", topic) == b""
    assert done(server, "consume", topic, "--group", "late") == b""


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["consume", "absent"], 5, "`lakelog topics list` names the topics there are"),
        (
            ["consume", "ends", "--partition", "7"],
            5,
            "ends has no partition 7: it has 0 to 0; choose one that there is",
        ),
        (["consume", "ends", "--offset", "7"], 5, "ends-0 has offsets 0 to 0, not 7"),
        (["consume", "ends", "--offset", "7", "--timestamp", "7"], 2, "exclude each other"),
        (["consume", "ends", "--group", "g", "--offset", "7"], 2, "lakelog groups reset-offsets"),
        (["consume", "ends", "--group", "g", "--partition", "0"], 2, "a group gives its members their partitions"),
        (["consume", "ends", "--follow", "--output", "table"], 2, "a table has an end"),
        (["consume", "ends", "--property", "no.such=1"], 7, "no.such"),
        (["consume", "ends", "--offset", "-1"], 2, "lakelog consume --help"),
        (["produce", "absent"], 5, "`lakelog topics list` names the topics there are"),
        (["produce", "ends", "/no/such/file"], 2, "/no/such/file cannot be read"),
        (["produce", "ends", "--format", "json", "--headers"], 2, "a line of JSON has its own key and headers"),
        (
            ["produce", "ends", "--partition", "7"],
            5,
            "ends has no partition 7: it has 0 to 0; choose one that there is",
        ),
    ],
)
def test_what_cannot_be_ends_with_its_code_and_one_sentence(
    server: Server, admin: Admin, words: list[str], code: int, says: str
):
    admin.create_topic("ends", partitions=1, exist_ok=True)
    ended = call(server, *words, given=b"x\n")
    assert (ended.code, ended.out) == (code, b"")
    assert says in ended.sentence


def test_a_million_lines_of_a_file_come_back_byte_by_byte(server: Server, topic: str, tmp_path: Path):
    chance = random.Random(8)
    lines = [b"%d %b\n" % (number, chance.randbytes(number % 60).replace(b"\n", b"")) for number in range(MANY)]
    (tmp_path / "lines").write_bytes(b"".join(lines))
    ran = run_command(server.url, "produce", topic, str(tmp_path / "lines"), "--output", "json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.rows[0]["records"] == MANY
    back = run_command(server.url, "consume", topic)
    assert (back.code, back.err, back.out == b"".join(lines)) == (0, "", True)


def test_what_is_typed_is_stored_at_once_and_followers_see_it(server: Server, topic: str):
    with start_command(server.url, "consume", topic, "--follow", "--from-beginning") as follower:
        with start_command(server.url, "produce", topic) as writer:
            for line in (b"one\n", b"two\n"):
                writer.give(line)
                assert follower.line() == line
            writer.interrupt()
            ended = writer.finish()
        assert (ended.code, ended.err) == (
            130,
            "lakelog produce: interrupted; 2 of the 2 records that were sent are stored for certain\n",
        )
        follower.interrupt()
        assert follower.finish() == (130, b"", "")


def test_who_is_to_type_is_told_how_it_ends(server: Server, topic: str):
    words = ("produce", topic, "--server", server.url)
    shown = call_at_terminal(*words, asked="lakelog produce: each line is a record; Ctrl-D ends", answer="one\n\x04")
    assert (shown.code, f"{topic}: 1 record, " in shown.out) == (0, True)
    assert done(server, "consume", topic) == b"one\n"


def test_ctrl_c_commits_what_was_written_and_leaves_the_group(server: Server, topic: str, admin: Admin):
    """Who presses it waits for that no longer than a second, for which the machine may stand still."""
    done(server, "produce", topic, given=b"1\n2\n3\n")

    def ends_cleanly(group: str) -> bool:
        with start_command(server.url, "consume", topic, "--group", group, "--follow") as reader:
            assert [reader.line() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
            began = time.monotonic()
            reader.interrupt()
            ended = reader.finish()
            took = time.monotonic() - began
        clean = ended == (130, b"", "") and admin.describe_group(group).members == ()
        assert clean or took > 1.0, ended
        assert not clean or admin.lag(group) == {(topic, 0): 0}
        return clean

    assert any(ends_cleanly(f"stopped-{number}") for number in range(5))


def test_who_stops_reading_ends_a_reader_quietly(server: Server, topic: str, tmp_path: Path):
    (tmp_path / "lines").write_bytes(b"x" * 999 + b"\n" + (b"y" * 9_999 + b"\n") * 2_000)  # more than a pipe takes
    done(server, "produce", topic, str(tmp_path / "lines"))
    with start_command(server.url, "consume", topic) as reader:
        assert reader.line().startswith(b"x")
        reader.stop_reading()
        ended = reader.finish()
    assert (ended.code, ended.err) == (141, "")


def test_a_server_that_is_killed_ends_a_reader_and_a_writer_with_a_sentence(tmp_path: Path):
    with serving(tmp_path) as server:
        url = server.url
        assert call_command(url, "topics", "create", "orders").code == 0
        with start_command(url, "produce", "orders", "--property", "retries=3") as writer:
            writer.give(b"first\n")
            with start_command(url, "consume", "orders", "--group", "g", "--follow") as follower:
                assert follower.line() == b"first\n"
                server.kill()
                writer.give(b"second\n")
                assert writer.process.stdin is not None
                writer.process.stdin.close()
                writer.process.stdin = None
                ended = writer.finish()
                assert ended.code in (3, 4)
                assert "line 2: " in ended.sentence
                assert "1 of the 2 records that were sent are stored for certain" in ended.sentence
                follower.interrupt()
                stopped = follower.finish()
                assert stopped.code == 3, "what was written is not committed"
                assert "cannot be reached" in stopped.err.splitlines()[-1]
                assert "Traceback" not in stopped.err
        assert call_command(url, "consume", "orders").code == 3


def test_a_topic_that_the_server_makes_by_itself_needs_no_making(tmp_path: Path):
    with serving(tmp_path, auto_create_topics=True) as server:
        assert call_command(server.url, "produce", "made", given=b"").code == 5
        done(server, "produce", "made", given=b"1\n2\n")
        assert done(server, "consume", "made") == b"1\n2\n"
