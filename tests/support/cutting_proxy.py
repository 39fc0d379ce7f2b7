"""A proxy between a client and a server that outlives servers, and breaks connections wherever it likes.

    with CuttingProxy(chance) as proxy:
        proxy.target = server.address
        proxy.trouble = {"cut the answer": 0.2}

It takes requests one by one. What may happen to each, by its name:

    cut the request   a part of it comes through, and the connection ends
    lose the answer   all of it comes through, and the connection ends before the answer's first byte
    cut the answer    the connection ends within the answer
    come late         the client is cut off at once, and the request comes through some time later
    spoil the answer  the answer is 502, of a proxy that knows nothing

Without a target every connection is ended as soon as it is made.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Generator
from typing import Self

#: Closing with this drops what the other side has not read yet, and it is told so.
RESET = struct.pack("ii", 1, 0)
DEADLINE_S = 30.0
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 20\r\n\r\n<html>a proxy</html>"


class Ended(Exception):
    """One side has closed."""


class CuttingProxy:
    def __init__(self, chance: random.Random, *, late_s: float = 0.3) -> None:
        self.target: tuple[str, int] | None = None
        self.trouble: dict[str, float] = {}
        self.happened: Counter[str] = Counter()
        self._chance = chance
        self._late_s = late_s
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._sockets: set[socket.socket] = set()
        self._stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname(), DEADLINE_S).close()  # wakes who accepts
        self.cut_off()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        self._listener.close()

    def cut_off(self) -> None:
        """Nobody comes through any more, until there is a target again; what was open is ended."""
        self.target = None
        with self._lock:
            for open_socket in self._sockets:
                with contextlib.suppress(OSError):
                    open_socket.shutdown(socket.SHUT_RDWR)

    def wait_until_late_ones_came(self) -> None:
        """Nothing that was cut off is on its way to the server any more."""
        for thread in list(self._threads):
            if thread.name == "late":
                thread.join(DEADLINE_S)

    def _start(self, target: Callable[..., None], *given: object, name: str = "proxy") -> None:
        thread = threading.Thread(target=target, args=given, name=name, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                with self._lock:  # `cut_off` finds it, or it finds no target any more
                    target = None if self._stopped.is_set() else self.target
                    if target is not None:
                        self._sockets.add(client)
                if target is None:
                    client.close()
                else:
                    self._start(self._serve, client, target)

    def _serve(self, client: socket.socket, target: tuple[str, int]) -> None:
        with self._open(client), contextlib.suppress(OSError, Ended):
            server = socket.create_connection(target, DEADLINE_S)
            with self._open(server):
                left = [b"", b""]
                while True:
                    request, left[0] = read_message(client, left[0])
                    self._pass(client, server, request, left)

    def _pass(self, client: socket.socket, server: socket.socket, request: bytes, left: list[bytes]) -> None:
        what = self._choose()
        self.happened[what] += 1
        match what:
            case "cut the request":
                server.sendall(request[: self._some(request)])
                self._cut(client)
            case "come late":
                self._start(self._come_late, request, name="late")
                self._cut(client)
            case "spoil the answer":
                server.sendall(request)
                _, left[1] = read_message(server, left[1])
                client.sendall(BAD_GATEWAY)
            case "lose the answer":
                server.sendall(request)
                read_message(server, left[1])
                self._cut(client)
            case "cut the answer":
                server.sendall(request)
                answer, _ = read_message(server, left[1])
                client.sendall(answer[: self._some(answer)])
                self._cut(client)
            case _:
                server.sendall(request)
                answer, left[1] = read_message(server, left[1])
                client.sendall(answer)

    def _come_late(self, request: bytes) -> None:
        self._stopped.wait(self._late_s)
        with contextlib.suppress(OSError, Ended):
            if self.target is not None:
                server = socket.create_connection(self.target, DEADLINE_S)
                with self._open(server):
                    server.sendall(request)
                    read_message(server, b"")

    def _choose(self) -> str:
        with self._lock:
            drawn = self._chance.random()
        for what, share in self.trouble.items():
            drawn -= share
            if drawn < 0:
                return what
        return "pass"

    def _some(self, message: bytes) -> int:
        """Less than all of it."""
        with self._lock:
            return self._chance.randrange(len(message))

    def _cut(self, client: socket.socket) -> None:
        with self._lock:
            reset = self._chance.random() < 0.5
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        raise Ended

    @contextlib.contextmanager
    def _open(self, opened: socket.socket) -> Generator[None]:
        with self._lock:
            self._sockets.add(opened)
        opened.settimeout(DEADLINE_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            yield
        finally:
            with self._lock:
                self._sockets.discard(opened)
            opened.close()


def read_message(source: socket.socket, begun: bytes) -> tuple[bytes, bytes]:
    """One whole message, with a Content-Length, in chunks, or without a body; and what came behind it."""
    data = begun
    while b"\r\n\r\n" not in data:
        data += _more(source)
    size = data.index(b"\r\n\r\n") + 4
    fields = dict(line.lower().partition(b":")[::2] for line in data[:size].split(b"\r\n")[1:])
    if fields.get(b"transfer-encoding", b"").strip() == b"chunked":
        return _read_chunks(source, data, size)
    size += int(fields.get(b"content-length", 0))
    while len(data) < size:
        data += _more(source)
    return data[:size], data[size:]


def read_head(source: socket.socket, begun: bytes) -> tuple[bytes, bytes]:
    """A message that has no body, whatever it says of its length: the answer to HEAD."""
    data = begun
    while b"\r\n\r\n" not in data:
        data += _more(source)
    size = data.index(b"\r\n\r\n") + 4
    return data[:size], data[size:]


def _read_chunks(source: socket.socket, data: bytes, at: int) -> tuple[bytes, bytes]:
    """The message whose body begins there; trailers are not known."""
    got = bytearray(data)
    while True:
        while (end := got.find(b"\r\n", at)) < 0:
            got += _more(source)
        length = int(got[at:end], 16)
        at = end + 2 + length + 2
        while len(got) < at:
            got += _more(source)
        if not length:
            return bytes(got[:at]), bytes(got[at:])


def _more(source: socket.socket) -> bytes:
    piece = source.recv(1 << 16)
    if not piece:
        raise Ended
    return piece
