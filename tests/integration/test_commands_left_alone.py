"""Commands whose reader goes away, that are interrupted at work, that wait for a server that never answers or dies.

Those that are not tried with that elsewhere.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Generator
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGSTOP
from time import sleep

import pytest

from lakelog import Admin, Consumer, Producer
from lakelog.cli.commands import COMMANDS
from lakelog.cli.kit.exit_codes import INTERRUPTED, NOBODY_READS, NOT_NOW, UNKNOWN
from lakelog.cli.kit.parser import commands_of
from tests.architecture.project_files import ROOT
from tests.support.commands import call_at_terminal, call_lakelog, call_without_reader, calling_lakelog, end
from tests.support.serving import Server, environment, serving, wait_for

#: Looks at a command that ends, one every ten milliseconds: sooner than any of the time-outs that there are. While the
#: machine stands still nobody looks.
SOON = 900
#: Of CPU, in threads beside the first, which takes what a start takes.
AT_WORK_S = 0.5


def cpu_at_work_s(pid: int) -> float:
    beside_the_first = (path for path in Path(f"/proc/{pid}/task").glob("*/stat") if path.parent.name != str(pid))
    return sum(map(ticks_of, beside_the_first)) / os.sysconf("SC_CLK_TCK")


def ticks_of(thread: Path) -> int:
    """None of one that has ended since it was listed."""
    try:
        fields = thread.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """With a topic, a letter and a group."""
    with serving(tmp_path_factory.mktemp("pipes") / "root") as server:
        settings = {"bootstrap.servers": server.url}
        with Admin(settings) as admin, Producer(settings) as producer:
            admin.create_topic("orders", partitions=1)
            admin.create_topic("orders.dlq", partitions=1)
            producer.send("orders", b"1").result()
        with Consumer(settings | {"group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["orders"])
            assert wait_for(lambda: consumer.poll(1.0), "the record")
            consumer.commit()
        yield server


ASKING = (
    "topics list",
    "topics create {new}",
    "topics describe orders",
    "topics batches orders",
    "topics alter orders --config retention.ms=86400000",
    "topics add-partitions orders --partitions 2",
    "groups list",
    "groups describe readers",
    "groups reset-offsets readers --to-earliest",
    "dlq list",
    "dlq show orders.dlq",
    "dlq replay orders.dlq",
    "produce orders",
    "bench produce orders --records 10",
    "bench consume orders",
    "groups delete readers",
    "topics delete orders.dlq",
)


@pytest.mark.parametrize("words", ASKING)
def test_who_stops_reading_ends_a_command_that_asks_a_server_quietly(server: Server, words: str):
    done = call_without_reader(*words.replace("{new}", "new").split(), "--server", server.url)
    assert done == (NOBODY_READS, "", "")


ALONE = (
    "completion bash",
    "jobs list",
    "doctor --data {place}",
    "selftest --records 20",
    "serve --check-config --port 0",
)
#: Where the others are tried with that.
ELSEWHERE = {
    "consume": "acceptance/test_commands_records.py",
    "demo": "integration/test_demo_command.py",
    "check": "integration/test_verb_commands.py",
    "repair": "integration/test_verb_trouble.py",
    "backup": "integration/test_verb_trouble.py",
    "restore": "integration/test_verb_trouble.py",
    "topics export": "integration/test_verb_trouble.py",
}


def test_every_command_is_tried_without_a_reader():
    tried = [f"{words} " for words in (*ASKING, *ALONE, "sql")]
    for path, _ in commands_of(COMMANDS):
        name = " ".join(path)
        if name in ELSEWHERE:
            text = (ROOT / "tests" / ELSEWHERE[name]).read_text(encoding="utf-8")
            assert "NOBODY_READS" in text or "stop_reading()" in text, name
        else:
            assert any(words.startswith(f"{name} ") for words in tried), name


@pytest.mark.parametrize("words", ALONE)
def test_who_stops_reading_ends_a_command_without_a_server_quietly(tmp_path: Path, words: str):
    assert call_without_reader(*words.replace("{place}", str(tmp_path)).split()) == (NOBODY_READS, "", "")


def test_who_stops_reading_ends_a_query_quietly(server: Server):
    assert call_without_reader("sql", "SELECT * FROM orders", "--server", server.url) == (NOBODY_READS, "", "")


def test_a_job_whose_summary_nobody_reads_has_done_its_work_and_says_so(server: Server):
    root = call_lakelog("check", "--server", server.url, "--dry-run", "--output", "json").said["root"]
    assert call_without_reader("jobs", "run", "retention", "--data", root, "--all") == (0, "", "")


@pytest.mark.parametrize(
    "words",
    [
        "topics list",
        "groups describe readers",
        "dlq list",
        "produce orders",
        "bench produce orders",
        "bench consume orders",
        "doctor",
    ],
)
def test_ctrl_c_ends_a_command_that_waits_for_an_answer(words: str):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with calling_lakelog(*words.split(), "--server", url) as process:
            connection, _ = silent.accept()
            assert wait_for(lambda: connection.recv(4096), "a request")
            assert end(process, SIGINT) == (INTERRUPTED, "", "")
            connection.close()


def test_ctrl_c_ends_a_query_that_would_take_hours(server: Server):
    many = "unnest(range(0, 1000000))"
    query = f"SELECT count(*) FROM (SELECT {many} AS a) CROSS JOIN (SELECT {many} AS b) WHERE a * b % 7 = 3"
    with calling_lakelog("sql", query, "--server", server.url) as process:
        assert wait_for(lambda: cpu_at_work_s(process.pid) > AT_WORK_S, "work")
        assert end(process, SIGINT) == (INTERRUPTED, "", "")


def test_ctrl_c_amid_a_measurement_stores_what_was_sent_and_ends_it(server: Server):
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.create_topic("measured", partitions=1, exist_ok=True)
        words = ("bench", "produce", "measured", "--records", 10**9, "--throughput", 200, "--server", server.url)
        with calling_lakelog(*words) as process:
            assert wait_for(lambda: admin.offsets("measured", 0).end_offset, "a record")
            assert end(process, SIGINT) == (INTERRUPTED, "", "")


def test_ctrl_c_amid_a_self_test_leaves_nothing_behind(tmp_path: Path):
    with calling_lakelog("selftest", "--records", 10**9, env=environment() | {"TMPDIR": str(tmp_path)}) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("1. A second process appends")
        assert wait_for(lambda: list(tmp_path.rglob("journal/*")), "records")
        assert end(process, SIGINT) == (INTERRUPTED, "", "")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_reader_soon_whose_server_answers_no_more(tmp_path: Path):
    with serving(tmp_path / "root") as server, Admin({"bootstrap.servers": server.url}) as admin:
        admin.create_topic("orders", partitions=1)
        with Producer({"bootstrap.servers": server.url}) as producer:
            producer.send("orders", b"1").result()
        words = ("consume", "orders", "--group", "g", "--from-beginning", "--follow", "--server", server.url)
        with calling_lakelog(*words) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            server.process.send_signal(SIGSTOP)
            try:
                process.send_signal(SIGINT)
                looks = 0
                while process.poll() is None and looks < SOON:
                    sleep(0.01)
                    looks += 1
                assert looks < SOON
                ended = end(process)
            finally:
                server.process.send_signal(SIGCONT)
        assert "Traceback" not in ended.err
        assert ended.code in (INTERRUPTED, NOT_NOW, UNKNOWN)


def test_a_terminal_shows_how_far_a_file_is_and_keeps_nothing_of_it(server: Server, tmp_path: Path):
    (tmp_path / "lines").write_bytes(b"0123456789" * 4 + b"\n" * 20_000)
    few_at_once = ("--property", "batch.size=4000", "--property", "buffer.memory=20000")  # so that it takes a while
    words = ("produce", "orders", tmp_path / "lines", *few_at_once, "--server", server.url)
    shown = call_at_terminal(*words, asked="records/s", answer="")
    assert shown.code == 0
    assert re.search(r"\r\[#* *\] +[0-9]+%  [0-9,]+ records  [0-9.]+ k?B  [0-9,]+ records/s", shown.out)
    assert re.search(r"\r +\rorders: 20,000 records, ", shown.out)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("topics list", NOT_NOW, "cannot be reached"),
        ("dlq list", NOT_NOW, "cannot be reached"),
        ("bench produce orders --records 5", NOT_NOW, "cannot be reached"),
        ("topics create new", UNKNOWN, "creating new: it is unknown whether it was done"),
        ("groups reset-offsets g --to-earliest", UNKNOWN, "it is unknown whether it was done"),
    ],
)
def test_a_server_that_dies_over_a_question_leaves_in_doubt_only_what_changes_something(
    words: str, code: int, says: str
):
    with socket.create_server(("127.0.0.1", 0)) as dying:
        url = f"http://127.0.0.1:{dying.getsockname()[1]}"
        with calling_lakelog(*words.split(), "--server", url) as process:
            connection, _ = dying.accept()
            assert wait_for(lambda: connection.recv(4096), "a request")
            dying.close()
            connection.close()
            ended = end(process)
    assert (ended.code, ended.out) == (code, "")
    assert says in ended.failure
