"""Commands that write, with what they are given by default, when the server is killed under them."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from pathlib import Path

import pytest

from lakelog import Admin
from tests.support.server_commands import Running, call_command, start_command
from tests.support.serving import serving, wait_for

TOPICS = ("full", "slow", "ended", "bench")


def feed(writer: Running) -> None:
    """As much as it takes, as `yes` does."""
    with contextlib.suppress(OSError, ValueError):
        while True:
            writer.give(b"y\n" * 10_000)


def end_of(url: str, topic: str) -> int:
    with Admin({"bootstrap.servers": url}) as admin:
        return admin.offsets(topic, 0).end_offset


def test_who_writes_to_a_server_that_is_killed_learns_that_soon_and_how_much_is_stored(tmp_path: Path):
    """Whether the buffer is full, nothing more is given, or all was given; a server that comes back is waited for."""
    with contextlib.ExitStack() as all_of_it:
        with serving(tmp_path) as server:
            url = server.url
            for topic in TOPICS:
                assert call_command(url, "topics", "create", topic, "--partitions", "1").code == 0
            writers = {
                topic: all_of_it.enter_context(start_command(url, "produce", topic))
                for topic in ("full", "slow", "ended")
            }
            writers["bench"] = all_of_it.enter_context(
                start_command(url, "bench", "produce", "bench", "--records", "100000000")
            )
            threading.Thread(target=feed, args=(writers["full"],), daemon=True).start()
            for topic in ("slow", "ended"):
                writers[topic].give(b"first\n")
            for topic in TOPICS:
                wait_for(lambda topic=topic: end_of(url, topic), f"a record in {topic}")
            server.kill()
        killed_at = time.monotonic()
        writers["slow"].give(b"second\n")
        stdin = writers["ended"].process.stdin
        assert stdin is not None
        stdin.write(b"second\n")
        stdin.close()
        writers["ended"].process.stdin = None
        certain: dict[str, int] = {}
        for topic, writer in writers.items():
            assert writer.process.wait(60) == 4, topic
            assert writer.process.stderr is not None
            waits, sentence = writer.process.stderr.read().decode().splitlines()
            name = "lakelog bench produce" if topic == "bench" else "lakelog produce"
            assert waits.startswith(f"{name}: {url} cannot be reached: ")
            assert waits.endswith("; it is waited for")
            assert f"{url} cannot be reached" in sentence
            told = re.search(r"; ([\d,]+) of the ([\d,]+) records that were sent are stored for certain$", sentence)
            assert told is not None, sentence
            certain[topic] = int(told[1].replace(",", ""))
            assert certain[topic] < int(told[2].replace(",", ""))
            if topic != "bench":
                assert f": line {certain[topic] + 1}: " in sentence
        assert time.monotonic() - killed_at < 55, "far below delivery.timeout.ms, which nobody at a terminal waits for"
        assert (certain["slow"], certain["ended"]) == (1, 1)
    with serving(tmp_path) as server:
        for topic in TOPICS:
            assert end_of(server.url, topic) >= certain[topic]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--key-separator=:", "--property", "partitioner=murmur2", "--property", "metadata.max.age.ms=0"),
    ],
    ids=["plain", "asks for partitions"],
)
def test_a_server_that_comes_back_is_waited_for_and_nothing_is_lost(tmp_path: Path, options: tuple[str, ...]):
    with serving(tmp_path) as server:
        url, port = server.url, server.port
        assert call_command(url, "topics", "create", "orders", "--partitions", "1").code == 0
        with start_command(url, "produce", "orders", *options) as writer:
            writer.give(b"k:first\n")
            wait_for(lambda: end_of(url, "orders"), "a record")
            server.kill()
            writer.give(b"k:second\n")
            assert writer.process.stderr is not None
            assert writer.process.stderr.readline().endswith(b"; it is waited for\n")
            with serving(tmp_path, port=port):
                wait_for(lambda: end_of(url, "orders") == 2, "the second record")
                ended = writer.finish()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(b"orders: 2 records, ")
