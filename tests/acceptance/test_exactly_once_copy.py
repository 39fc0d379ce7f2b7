"""The loop of the documents: killed in the middle, alone and as a crowd, together with the server; B has what A has."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakelog import Producer
from tests.support.copying import (
    EXAMPLE,
    GROUP,
    SOURCE,
    TARGET,
    Copier,
    check,
    committed,
    copied,
    copying,
    ends,
    look,
    make_topics,
)
from tests.support.cutting_proxy import CuttingProxy
from tests.support.serving import DEADLINE_S, environment, serving, wait_for

#: LAKELOG_KILL_ROUNDS=20 for a long run of one, LAKELOG_COPY_S=300 for one of many; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "2"))
SECONDS = float(os.environ.get("LAKELOG_COPY_S", "8"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
#: Not requests that come late: of those that begin a transaction they are somebody who takes the name over.
TROUBLE = {"cut the request": 0.03, "lose the answer": 0.03, "cut the answer": 0.03, "spoil the answer": 0.03}


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_a_loop_that_is_killed_with_its_server_copies_each_record_once(tmp_path: Path):
    chance = random.Random(SEED)
    with CuttingProxy(chance) as proxy, serving(tmp_path) as first:
        make_topics(first)
        proxy.target, proxy.trouble = first.address, TROUBLE
        with copying(proxy, ["one"]) as going:
            (copier,) = going.copiers
            for _ in range(ROUNDS):
                going.wait_for_copies(first, chance.randint(100, 500))
                copier.pause()
                look(first)
                copier.kill()
                look(first)
                copier.start()
            going.wait_for_copies(first, chance.randint(100, 500))
            copier.pause()
            first.kill()
            proxy.cut_off()
            copier.kill()
            copier.start()
            with serving(tmp_path) as second:
                proxy.target = second.address
                going.wait_for_copies(second, 300)
                look(second)
                going.finish(second)


@pytest.mark.timeout(300 + 4 * SECONDS)
def test_many_processes_of_a_group_killed_with_their_server_copy_each_record_once(tmp_path: Path):
    chance = random.Random(SEED)
    with CuttingProxy(chance) as proxy:
        with serving(tmp_path) as server:
            make_topics(server)
        with copying(proxy, ["one", "two", "three"]) as going:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                with serving(tmp_path) as killed:
                    proxy.target = killed.address
                    for _ in range(chance.randint(1, 3)):
                        going.wait_for_copies(killed, chance.randint(50, 500))
                        look(killed)
                        going.kill_some(chance)
                    killed.kill()
                    proxy.cut_off()
            with serving(tmp_path) as last:
                proxy.target = last.address
                going.wait_for_copies(last, 100)
                look(last)
                going.finish(last)


def test_a_record_at_which_many_readers_died_is_copied_as_any_other(tmp_path: Path):
    """It was no fault of the record: a default of ten tries, after which it is a dead letter, is not for this loop."""
    text, program = EXAMPLE.read_text(), tmp_path / "dying.py"
    dying = text.replace(
        "            with producer.transaction()", "            os.abort()\n            with producer.transaction()"
    )
    assert dying != text
    program.write_text(dying)
    words = [SOURCE, TARGET, GROUP, "one"]
    with serving(tmp_path / "root") as server:
        make_topics(server)
        with Producer({"bootstrap.servers": server.url}) as producer:
            for number in range(100):
                producer.send(SOURCE, b"%d" % number, key=b"%d" % (number % 20))
        for _ in range(12):
            variables = environment() | {"LAKELOG_SERVER": server.url}
            ended = subprocess.run([sys.executable, program, *words], env=variables, timeout=DEADLINE_S, check=False)
            assert ended.returncode == -signal.SIGABRT
        copier = Copier([sys.executable, str(EXAMPLE), *words], server.url)
        copier.start()
        try:
            wait_for(lambda: committed(server) == ends(server, SOURCE), "the end of the first topic")
            copier.stop()
        finally:
            copier.end()
        check(server)


def test_offsets_that_are_committed_behind_the_transaction_are_found_out(tmp_path: Path):
    """That these tests can fail."""
    text, program = EXAMPLE.read_text(), tmp_path / "broken.py"
    behind = "            time.sleep(0.05)\n            consumer.commit()\n"
    broken = text.replace("                transaction.send_offsets(consumer)\n", behind)
    assert broken != text
    program.write_text(broken)
    with CuttingProxy(random.Random(SEED)) as proxy, serving(tmp_path / "root") as server:
        make_topics(server)
        proxy.target = server.address
        with copying(proxy, ["one"], program) as going:
            (copier,) = going.copiers
            deadline = time.monotonic() + DEADLINE_S
            while True:
                copier.pause()
                if copied(server) > committed(server):
                    break
                copier.go_on()
                assert time.monotonic() < deadline, "it was never seen in the middle"
                time.sleep(0.0005)
            copier.kill()
            copier.start()
            going.feeder.stop()
            wait_for(lambda: committed(server) == ends(server, SOURCE), "the end of the first topic")
            going.watcher.stop()
            with pytest.raises(AssertionError, match="copies"):
                check(server)
