"""The verbs of an operator where something is in their way.

Nobody reads their output, Ctrl-C ends them amid their work, the server that named the root is killed meanwhile; and
what `lakelog check` says of each damage, for people and for programs.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest

from delta_log import Log
from delta_log.model.errors import NotARoot
from delta_log.operations import check
from lakelog import Admin, Producer
from lakelog.cli.kit.exit_codes import INTERRUPTED, NOBODY_READS, NOT_AS_IT_SHOULD_BE, NOT_NOW
from tests.support import damaged_roots as roots
from tests.support.commands import call_lakelog, call_main, call_without_reader, end
from tests.support.damaged_roots import KINDS, QUIET, TOPIC
from tests.support.keyed_rows import READERS
from tests.support.serving import environment, serving

#: The program, but that it waits for a line of its input wherever it would show at a terminal how far it is: whoever
#: starts it knows exactly what it is at, however fast the machine is.
PACED = """
import sys
from lakelog.cli.main import main
from lakelog.cli.kit import verbs

def say(_, line):
    print(line, file=sys.stderr, flush=True)
    sys.stdin.readline()

verbs.Watching.say = say
sys.exit(main(sys.argv[1:]))
"""
#: The same wherever it tells a line of its plan, before it does that.
PACED_BY_PLAN = PACED.replace("verbs.Watching.say = say", "verbs.print = lambda line, file: say(None, line)")


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One that died, one after a clean stop, one whose damage the journal can mend, and a backup."""
    place = tmp_path_factory.mktemp("made")
    made = {
        "dead": roots.make_dead_root(place / "dead"),
        "stopped": roots.make_dead_root(place / "stopped", journal=False),
        "damaged": place / "damaged",
        "copy": place / "copy",
    }
    shutil.copytree(made["dead"], made["damaged"])
    roots.flip(roots.topic_files(made["damaged"])[1])
    assert call_main("backup", made["copy"], "--data", made["dead"]).code == 0
    return made


@pytest.fixture
def made(_made: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of one of these, to do with as one likes."""
    return lambda name: Path(shutil.copytree(_made[name], tmp_path / name))


@contextlib.contextmanager
def paced(*words: object, program: str = PACED) -> Generator[subprocess.Popen[str]]:
    """`lakelog` with these words, that goes no step further than `step` lets it."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program, *map(str, words)]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def step(process: subprocess.Popen[str], *, on: bool = True) -> str:
    """What it says that it is at; it goes on to the next step, or stays there."""
    assert process.stderr is not None
    assert process.stdin is not None
    said = process.stderr.readline().rstrip("\n")
    if on:
        process.stdin.write("\n")
        process.stdin.flush()
    return said


class TestNobodyReads:
    """Where the output is text, the plan comes first: it cannot be told, so nothing is done."""

    def test_a_repair_that_cannot_tell_its_plan_changes_nothing(self, made: Callable[[str], Path]):
        root = made("damaged")
        before = roots.content_of(root)
        for words in ((), ("--dry-run",), ("--yes",)):
            assert call_without_reader("repair", "--data", root, *words) == (NOBODY_READS, "", "")
            assert roots.content_of(root) == before
        assert call_main("repair", "--data", root, "--yes").code == 0

    def test_an_export_that_cannot_tell_its_plan_changes_nothing(self, made: Callable[[str], Path]):
        root = made("dead")
        before = roots.content_of(root)
        assert call_without_reader("topics", "export", TOPIC, "--data", root, "--yes") == (NOBODY_READS, "", "")
        assert roots.content_of(root) == before
        assert call_main("topics", "export", TOPIC, "--data", root, "--yes").code == 0

    def test_a_copy_that_cannot_tell_its_plan_is_not_begun(self, made: Callable[[str], Path], tmp_path: Path):
        target = tmp_path / "target"
        for words in (("backup", target, "--data", made("dead")), ("restore", made("copy"), "--data", target)):
            assert call_without_reader(*words) == (NOBODY_READS, "", "")
            assert not target.exists()

    def test_as_json_the_plan_is_told_apart_and_what_was_done_stays_done(
        self, made: Callable[[str], Path], tmp_path: Path
    ):
        root, target = made("damaged"), tmp_path / "target"
        cured = call_without_reader("repair", "--data", root, "--yes", "--output", "json")
        copied = call_without_reader("backup", target, "--data", root, "--output", "json")
        for done in (cured, copied):
            assert (done.code, [line.partition(": ")[0] for line in done.err.splitlines()][:1]) == (
                NOBODY_READS,
                ["plan"],
            )
            assert "Traceback" not in done.err
        assert roots.values(root) == roots.values(target) == roots.expected()


class TestCtrlC:
    """What was done stays done, half a copy is no root, and the same call goes on."""

    def test_amid_a_check_nothing_was_changed(self, made: Callable[[str], Path]):
        root = made("dead")
        before = roots.content_of(root)
        with paced("check", "--data", root) as process:
            assert step(process) == "the journal"
            assert step(process, on=False).startswith("the table ")
            interrupted = end(process, SIGINT)
        assert (interrupted.code, interrupted.out.splitlines()[1:]) == (INTERRUPTED, [])
        assert "Traceback" not in interrupted.err
        assert roots.content_of(root) == before
        assert call_main("check", "--data", root).code == 0

    def test_amid_a_repair_each_cure_is_done_or_not_and_the_same_call_does_the_rest(self, made: Callable[[str], Path]):
        root = made("damaged")
        before = roots.content_of(root)
        words = ("repair", "--data", root, "--yes", "--output", "json")
        with paced(*words, program=PACED_BY_PLAN) as process:
            assert step(process, on=False).startswith("plan: ")  # said before it is done
            interrupted = end(process, SIGINT)
        assert (interrupted.code, interrupted.out) == (INTERRUPTED, "")
        assert "Traceback" not in interrupted.err
        assert roots.content_of(root) == before
        assert call_main("repair", "--data", root, "--yes").code == 0
        assert roots.values(root) == roots.expected()

    def test_amid_an_export_it_is_a_topic_or_not_and_the_same_call_does_the_rest(self, made: Callable[[str], Path]):
        root = made("dead")
        before = roots.content_of(root)
        words = ("topics", "export", TOPIC, "--data", root, "--yes", "--output", "json")
        with paced(*words, program=PACED_BY_PLAN) as process:
            assert step(process, on=False).startswith("plan: ")
            interrupted = end(process, SIGINT)
        assert (interrupted.code, interrupted.out) == (INTERRUPTED, "")
        assert "Traceback" not in interrupted.err
        assert roots.content_of(root) == before
        assert call_main("topics", "export", TOPIC, "--data", root, "--yes").code == 0

    @pytest.mark.parametrize("verb", ["backup", "restore"])
    def test_amid_a_copy_the_same_call_copies_the_rest(self, made: Callable[[str], Path], tmp_path: Path, verb: str):
        source, target = made("dead" if verb == "backup" else "copy"), tmp_path / "target"
        before = roots.content_of(source)
        words = ("backup", target, "--data", source) if verb == "backup" else ("restore", source, "--data", target)
        with paced(*words) as process:
            assert [step(process).partition(" of ")[0] for _ in range(4)] == ["0", "1", "2", "3"]
            assert step(process, on=False).startswith("4 of ")
            interrupted = end(process, SIGINT)
        assert interrupted.code == INTERRUPTED
        assert "Traceback" not in interrupted.err
        with pytest.raises(NotARoot):
            Log.open(target, settings=QUIET)
        done = call_main(*words, "--output", "json")
        copied = sum(table["copied"] for table in done.said["tables"])
        assert (done.code, done.said["complete"]) == (0, True)
        assert 0 < copied == sum(table["files"] for table in done.said["tables"]) - 4
        assert roots.content_of(source) == before
        assert check(target).findings == ()
        assert roots.values(target) == roots.expected()


def test_a_backup_goes_on_when_the_server_is_killed_that_named_the_root(tmp_path: Path):
    """Everything that it had acknowledged before the backup began is in the copy, also what no table has yet."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    with serving(root, topic_defaults={"lakelog.commit.interval.ms": 3_600_000}) as server:
        settings = {"bootstrap.servers": server.url}
        with Admin(settings) as admin, Producer(settings) as producer:
            admin.create_topic(TOPIC, partitions=1)
            sent = [producer.send(TOPIC, b"%06d" % number) for number in range(32)]
            assert [each.result().offset for each in sent] == list(range(32))
        with paced("backup", copy, "--server", server.url) as process:
            first = step(process, on=False)
            server.kill()
            done = end(process)
        assert first.startswith("0 of ")
        assert (done.code, "not in it" in done.out) == (0, False)
        refused = call_main("backup", copy, "--server", server.url)
        assert refused.code == NOT_NOW
        assert "does not answer" in refused.failure
    assert check(copy).findings == ()
    assert roots.values(copy) == roots.expected()


@pytest.mark.parametrize("words", [("topics", "list"), ("consume", TOPIC), ("groups", "list"), ("check",)])
def test_something_else_at_the_address_is_said_to_be_no_lakelog_server(words: tuple[str, ...]):
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            done = call_main(*words, "--server", f"http://127.0.0.1:{other.server_port}")
        finally:
            other.shutdown()
            thread.join()
    assert (done.code, done.out) == (NOT_NOW, "")
    assert "no lakelog server" in done.failure
    assert done.failure.rpartition("; ")[2].startswith(("look what answers there", "name the root with --data"))


class Silent(SimpleHTTPRequestHandler):
    """Another program: it knows nothing of what it is asked."""

    def send_head(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing of it."""


def journal_at(where: str) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        segment = roots.segment_of(root)
        group = roots.groups_of(segment)[2]
        roots.flip(segment, {"header": group.position + 40, "payload": group.end - 1}[where])
        return segment

    return damage


def file_of(table: str, kind: str) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        file = (roots.topic_files(root) if table == TOPIC else roots.table_files(root, table))[1]
        KINDS[kind](file)
        return file

    return damage


def entry(place: int, kind: str) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        found = roots.entries(root)[place]
        KINDS[kind](found)
        return found

    return damage


def identity(name: str) -> Callable[[Path], Path]:
    def damage(root: Path) -> Path:
        roots.cut(root / name)
        return root / name

    return damage


#: By the root that is damaged, and what is damaged there; each answers the file that has to be named.
DAMAGES: dict[str, Callable[[Path], Path]] = {
    **{f"dead: a file of {table}, {kind}": file_of(table, kind) for table in (TOPIC, READERS.name) for kind in KINDS},
    **{f"stopped: log entry {place}, {kind}": entry(place, kind) for place in (0, 1) for kind in KINDS},
    **{f"stopped: the newest entry, {kind}": entry(-1, kind) for kind in ("flipped", "cut", "empty")},
    **{f"dead: the journal's {where}": journal_at(where) for where in ("header", "payload")},
    **{f"dead: {name}": identity(name) for name in ("lakelog.json", "writers/0000000001.json")},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_one_sentence_with_its_place_and_has_an_exit_code(made: Callable[[str], Path], damage: str):
    root = made(damage.partition(":")[0])
    place = DAMAGES[damage](root).relative_to(root).as_posix()
    told = call_main("check", "--data", root)
    said = call_main("check", "--data", root, "--output", "json")
    findings: list[dict[str, Any]] = said.said["findings"]
    assert (told.code, said.code, said.said["sound"]) == (NOT_AS_IT_SHOULD_BE, NOT_AS_IT_SHOULD_BE, False)
    assert told.err == ""
    plan, *lines, verdict = told.out.splitlines()
    assert (plan.startswith("plan: read "), verdict.startswith(f"{root}: ")) == (True, True)
    assert lines == [f"{each['severity']}: {each['place']}: {each['what']}" for each in findings]
    damaged = [each for each in findings if each["severity"] == "damage"]
    journal, _, segment = place.partition("/")
    assert any(place in each["place"] or (each["place"] == journal and segment in each["what"]) for each in damaged)


def test_a_newest_entry_that_is_gone_is_told_by_the_file_that_was_written_for_it(made: Callable[[str], Path]):
    root = made("stopped")
    roots.remove(roots.entries(root)[-1])
    said = call_lakelog("check", "--data", root, "--output", "json")
    (found,) = said.said["findings"]
    assert (said.code, Path(found["place"]).name) == (NOT_AS_IT_SHOULD_BE, roots.topic_files(root)[-1].name)
    assert json.loads(said.out)["sound"] is False
