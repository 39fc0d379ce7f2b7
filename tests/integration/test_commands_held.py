"""Every command that asks a server, when that is killed, or answers no more, amid what the command is there for.

Whatever came before was answered by a real one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from signal import SIGINT
from time import sleep
from typing import NamedTuple

import pytest

from lakelog import Admin, Consumer, Producer
from lakelog.cli.commands import COMMANDS
from lakelog.cli.kit.exit_codes import FAILED, INTERRUPTED, NOT_NOW, UNKNOWN
from lakelog.cli.kit.parser import commands_of
from lakelog.cli.main import main
from tests.architecture.project_files import ROOT
from tests.support.commands import Called, calling_lakelog, end
from tests.support.holding_proxy import HoldingProxy
from tests.support.serving import Server, serving, wait_for

#: At once, as most of their time they wait.
AT_ONCE = 6
#: Looks at a command that ends, one every ten milliseconds: sooner than any of the time-outs that there are. While the
#: machine stands still nobody looks.
SOON = 900

IN_DOUBT = "it is unknown whether it was done"
GONE = "cannot be reached"
NO_ANSWER = "does not answer"


class Case(NamedTuple):
    """Of its requests these come in this order, and the last one is not answered.

    `code` and `says` are of a server that is killed then; without `says`, and where that is tried is in `ELSEWHERE`.
    """

    words: str
    steps: tuple[str, ...]
    code: int | None
    says: str | None

    def __str__(self) -> str:
        return f"{self.words}, at {self.steps[-1].strip()}"

    def is_of(self, command: str) -> bool:
        return f"{self.words} ".startswith(f"{command} ")


CASES = (
    Case("topics list", ("GET /topics ",), NOT_NOW, GONE),
    Case("topics create new", ("PUT /topics/new ",), UNKNOWN, f"creating new: {IN_DOUBT}"),
    Case("topics describe orders", ("GET /v3/[^ ]+/configs ",), NOT_NOW, GONE),
    Case("topics batches orders", ("GET /topics/orders/partitions/0/batches",), NOT_NOW, GONE),
    Case("topics alter orders --config retention.ms=5", ("POST /v3/[^ ]+:alter ",), UNKNOWN, IN_DOUBT),
    Case(
        "topics alter orders --config segment.ms=5",
        ("POST /v3/[^ ]+:alter ", "GET /v3/[^ ]+/configs "),
        UNKNOWN,
        "the settings of orders were changed before that",
    ),
    Case("topics add-partitions orders --partitions 9", ("PATCH /v3/",), UNKNOWN, IN_DOUBT),
    Case("topics delete orders", ("DELETE /topics/orders ",), UNKNOWN, f"deleting orders: {IN_DOUBT}"),
    Case("topics export orders", ("GET / ",), NOT_NOW, NO_ANSWER),
    Case("groups list", ("GET /groups ",), NOT_NOW, GONE),
    Case("groups describe readers", ("GET /groups/readers ",), NOT_NOW, GONE),
    Case("groups reset-offsets readers --to-earliest", ("POST /groups/readers/offsets:reset ",), UNKNOWN, IN_DOUBT),
    Case("groups delete readers", ("DELETE /groups/readers ",), UNKNOWN, f"deleting group readers: {IN_DOUBT}"),
    Case("dlq list", ("GET /topics/orders.dlq ",), NOT_NOW, GONE),
    Case("dlq show orders.dlq", ("GET /topics/orders.dlq/partitions/0/records",), NOT_NOW, GONE),
    Case("dlq replay orders.dlq --to orders", ("POST /consumers/[^ ]+/assignments ",), UNKNOWN, IN_DOUBT),
    Case("dlq replay orders.dlq --to orders", ("POST /topics/orders ",), UNKNOWN, f"sending a letter: {IN_DOUBT}"),
    Case("produce orders", ("POST /topics/orders ",), None, None),
    Case("consume orders", ("GET /consumers/[^ ]+/records",), NOT_NOW, GONE),
    Case("consume orders --group billing", ("GET /consumers/billing/[^ ]+/records",), NOT_NOW, GONE),
    Case("bench produce orders --records 10", ("POST /topics/orders ",), None, None),
    Case("bench consume orders", ("GET /consumers/[^ ]+/records",), NOT_NOW, GONE),
    Case("sql SELECT(1)", ("GET / ",), NOT_NOW, NO_ANSWER),
    Case("check", ("GET / ",), NOT_NOW, NO_ANSWER),
    Case("repair", ("GET / ",), NOT_NOW, NO_ANSWER),
    Case("backup copy", ("GET / ",), NOT_NOW, NO_ANSWER),
    Case("doctor", ("GET / ",), FAILED, NO_ANSWER),
    Case("completion topics", ("GET /topics ",), NOT_NOW, ""),
)
KILLED = [case for case in CASES if case.says is not None]
#: Where others are tried with a server that is killed: they wait for one to come back.
ELSEWHERE = {
    "produce": "acceptance/test_commands_killed_server.py",
    "bench produce": "acceptance/test_commands_killed_server.py",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """With a topic, a letter and a group."""
    with serving(tmp_path_factory.mktemp("held") / "root") as server:
        settings = {"bootstrap.servers": server.url}
        with Admin(settings) as admin, Producer(settings) as producer:
            for topic in ("orders", "orders.dlq"):
                admin.create_topic(topic, partitions=1)
                producer.send(topic, b"1").result()
        with Consumer(settings | {"group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["orders"])
            assert wait_for(lambda: consumer.poll(1.0), "the record")
            consumer.commit()
        yield server


Played = dict[Case, "Future[Called]"]


def play_all(play: Callable[[Case], Called], cases: list[Case]) -> Generator[Played]:
    """Those whose servers are waited for longest first."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case: pool.submit(play, case) for case in sorted(cases, key=lambda case: "consume" not in case.words)}


@pytest.fixture(scope="module")
def killed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Generator[Played]:
    folder = tmp_path_factory.mktemp("killed")

    def play(case: Case) -> Called:
        with (
            HoldingProxy(server.address, *case.steps, dies=True) as proxy,
            calling_lakelog(*case.words.split(), "--server", proxy.url, cwd=folder) as process,
        ):
            ended = end(process)
            assert proxy.holds, (case, ended)
        return ended

    yield from play_all(play, KILLED)


@pytest.fixture(scope="module")
def interrupted(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Generator[Played]:
    folder = tmp_path_factory.mktemp("interrupted")

    def play(case: Case) -> Called:
        words = (*case.words.split(), "--server")
        with (
            HoldingProxy(server.address, *case.steps) as proxy,
            calling_lakelog(*words, proxy.url, cwd=folder, stdin=subprocess.PIPE) as process,
        ):
            assert process.stdin is not None
            process.stdin.write("one\n")
            process.stdin.flush()
            proxy.wait()
            process.send_signal(SIGINT)
            looks = 0
            while process.poll() is None and looks < SOON:
                sleep(0.01)
                looks += 1
            assert looks < SOON, case
            ended = end(process)
            assert list(folder.iterdir()) == []
        return ended

    yield from play_all(play, list(CASES))


@pytest.mark.parametrize("case", KILLED, ids=str)
def test_a_killed_server_is_one_sentence_and_what_may_be_done_is_in_doubt(killed: Played, case: Case):
    ended = killed[case].result()
    assert ended.code == case.code, ended
    if case.words == "doctor":  # its findings are what it is called for
        assert NO_ANSWER in ended.out
    elif not case.says:  # who types is told nothing
        assert (ended.out, ended.err) == ("", "")
    else:
        assert ended.out == ""
        assert case.says in ended.failure


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ctrl_c_ends_soon_and_quietly_what_waits_for_an_answer(interrupted: Played, case: Case):
    said = "lakelog produce: interrupted; 0 of the 1 records that were sent are stored for certain\n"
    assert interrupted[case].result() == (INTERRUPTED, "", said if case.is_of("produce") else "")


def asks_a_server(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> bool:
    with pytest.raises(SystemExit):
        main([*path, "--help"])
    return "--server" in capsys.readouterr().out


def test_every_command_that_asks_a_server_is_tried(capsys: pytest.CaptureFixture[str]):
    asking = {" ".join(path) for path, _ in commands_of(COMMANDS) if asks_a_server(path, capsys)}
    assert [case for case in CASES if not any(case.is_of(name) for name in asking)] == []
    for name in asking:
        assert any(case.is_of(name) for case in CASES), name
        if not any(case.is_of(name) for case in KILLED):
            assert "server.kill()" in (ROOT / "tests" / ELSEWHERE[name]).read_text(encoding="utf-8"), name
