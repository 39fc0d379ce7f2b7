"""Neither Spark nor its Python waits for the other's kernel to acknowledge what came."""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.source.worker_latency import Prompt, acknowledge

#: Where in Linux's `struct tcp_info` the number of segments stands that nobody has acknowledged yet.
UNACKNOWLEDGED = 24
ROUNDS = 100
#: A machine with much to do may take a while even for what is done at once.
TURNS = 20
DESCRIPTORS = Path("/proc/self/fd")

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="of Linux alone")


class Work(Prompt):
    def __init__(self, what: str) -> None:
        self.what = what


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of one connection over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        other, _ = server.accept()
        with other:
            yield one, other


def waiting(of: socket.socket) -> int:
    info = of.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
    return int(struct.unpack_from("I", info, UNACKNOWLEDGED)[0])


def leave_one_waiting(one: socket.socket, other: socket.socket) -> None:
    """Until the kernel puts off to acknowledge something that was read: not so at first, nor where it is held up."""
    for _ in range(ROUNDS):
        other.sendall(b"done")
        one.recv(4)
        one.sendall(b"what to do")
        other.recv(10)
        if waiting(one):
            return
    raise AssertionError("all was acknowledged at once")


def test_what_came_is_acknowledged_as_soon_as_somebody_is_sent_to_work(ends: tuple[socket.socket, socket.socket]):
    sent = pickle.dumps(Work("to read"))
    late: list[int] = []
    for _ in range(TURNS):
        leave_one_waiting(*ends)
        work = pickle.loads(sent)
        late.append(waiting(ends[0]))
        assert work.what == "to read"
        if not late[-1]:
            return
    raise AssertionError(f"it was left to the kernel, {len(late)} times")


@pytest.mark.usefixtures("ends")
def test_no_descriptor_is_left_open_whatever_it_is_of():
    one, other = socket.socketpair()
    with one, other, socket.socket(type=socket.SOCK_DGRAM), Path(os.devnull).open():
        before = len(list(DESCRIPTORS.iterdir()))
        for _ in range(ROUNDS):
            acknowledge()
        assert len(list(DESCRIPTORS.iterdir())) < before + ROUNDS
