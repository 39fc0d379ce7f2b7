"""`lakelog demo` as a process: what it shows, that what it says to try works as it stands, and that nothing is left."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import IO

from lakelog.cli.demo.output import HEADINGS, Counts, Look, Sample, make_sample, show_sample
from lakelog.cli.kit.exit_codes import NOBODY_READS, NOT_NOW
from tests.support.commands import Called, call_at_terminal, call_lakelog, call_main, calling_lakelog, end
from tests.support.serving import wait_for

SAMPLE = re.compile(r"^ +\d+(?: +[\d,]+){5}$")


def read_until(out: IO[str] | None, pattern: re.Pattern[str], times: int = 1) -> list[str]:
    """The lines up to the one that matches; each second one comes."""
    lines: list[str] = []
    for line in out or ():
        lines.append(line.rstrip("\n"))
        times -= pattern.search(line) is not None
        if times == 0:
            return lines
    raise AssertionError("\n".join(lines))


def folder_in(lines: list[str]) -> Path:
    found = re.search(r"its log is (?:in memory|on disk), in (\S+), and goes with it", lines[0])
    assert found, lines[0]
    return Path(found[1])


def found_by(call: Callable[..., Called], words: list[str]) -> Called | None:
    """None as long as that is nothing: tables are about a second behind, and members need some time to begin."""
    done = call(*words[1:], "--output", "json")
    assert (done.code, done.err) == (0, "")
    return done if done.out else None


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_a_killed_demo_left_goes_with_the_next_one_and_what_another_needs_stays():
    with calling_lakelog("demo") as killed, calling_lakelog("demo") as other:
        left, used = (folder_in(read_until(each.stdout, SAMPLE)) for each in (killed, other))
        (server,) = children_of(killed.pid)
        end(killed, signal.SIGKILL)
        assert left.is_dir()
        wait_for(lambda: not Path(f"/proc/{server}/cmdline").exists(), "the end of its server")
        done = call_lakelog("demo", "--seconds", "1")
        assert (done.code, done.err) == (0, "")
        assert not left.exists()
        assert used.is_dir()
        assert end(other, signal.SIGINT).code == 0


def test_what_it_says_to_try_works_as_it_stands_and_ctrl_c_leaves_nothing():
    with calling_lakelog("demo") as demo:
        lines = read_until(demo.stdout, SAMPLE, times=2)
        folder = folder_in(lines)
        assert (folder.is_dir(), HEADINGS in lines) == (True, True)
        tries = [shlex.split(line) for line in lines if line.startswith("  lakelog ")]
        assert [words[:2] for words in tries] == [["lakelog", "sql"]] * 3 + [["lakelog", "topics"]]
        for words in tries[:2]:
            done = wait_for(lambda words=words: found_by(call_main, words), "records in the table")
        newest = json.loads(done.out.splitlines()[0])
        assert (newest["headers"][0]["key"], set(json.loads(newest["value"]))) == ("shop", {"drink", "cups"})
        lag = wait_for(lambda: found_by(call_lakelog, tries[2]), "offsets of the group in the table")
        assert json.loads(lag.out.splitlines()[0])["group_id"] == "billing"
        assert call_main(*tries[3][1:]).code == 0
        done = end(demo, signal.SIGINT)
    assert (done.code, done.err) == (0, "")
    assert re.search(r"(\A|\n)[\d,]+ records were produced and [\d,]+ consumed; nothing of it is left\.\n\Z", done.out)
    assert "\033" not in "".join(lines) + done.out
    assert not folder.exists()


def test_a_server_that_is_killed_ends_it_with_a_sentence():
    with calling_lakelog("demo") as demo:
        folder = folder_in(read_until(demo.stdout, SAMPLE))
        (server,) = children_of(demo.pid)
        os.kill(server, signal.SIGKILL)
        done = end(demo)
    assert done.code == NOT_NOW
    assert done.failure == "lakelog demo: the demo's server ended with -9; start the demo again"
    assert not folder.exists()


def test_it_ends_by_itself_and_speaks_json_and_needs_no_reader():
    done = call_lakelog("demo", "--seconds", "2", "--rate", "60", "--output", "json")
    assert (done.code, done.err) == (0, "")
    samples = [json.loads(line) for line in done.out.splitlines()]
    assert [each["second"] for each in samples] == [1, 2]
    assert samples[-1]["produced"] < 1_000
    with calling_lakelog("demo", "--output", "json") as demo:
        read_until(demo.stdout, re.compile(r'"produced": ?[1-9]'))
        assert demo.stdout is not None
        demo.stdout.close()
        demo.stdout = None
        assert end(demo).code == NOBODY_READS


def test_on_a_terminal_one_line_changes_and_sigterm_is_heeded_too():
    done = call_at_terminal("demo", asked="\r\033[K     2", answer=signal.SIGTERM)
    assert done.code == 0
    assert "nothing of it is left" in done.out


def test_a_second_is_told_by_what_came_in_it():
    sample = make_sample(7, Counts(1_000, 400), Counts(1_300, 1_000), Look(lag=300, members=2))
    assert sample == Sample(7, produced_rate=300, consumed_rate=600, lag=300, members=2, produced=1_300)
    assert show_sample(sample).split() == ["7", "300", "600", "300", "2", "1,300"]
    assert len(show_sample(sample)) == len(HEADINGS)
