"""A proxy before a real server, up to the request of a command that a test waits for.

    with HoldingProxy(server.address, "GET /topics/orders ", "PATCH /v3/") as proxy:
        ...                 # a command that is told `proxy.url`
        proxy.wait()        # these came in this order; the last one and all behind it come through no more
        proxy.die()         # as a server that is killed: connections are ended, and new ones refused

Steps are regular expressions of how a request begins.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from typing import Self

from tests.support.cutting_proxy import Ended, read_message
from tests.support.serving import DEADLINE_S, wait_for


class HoldingProxy:
    """`dies` has it die of the last step at once."""

    def __init__(self, target: tuple[str, int], *steps: str, dies: bool = False) -> None:
        self._target, self._dies = target, dies
        self._left = [re.compile(step.encode()) for step in steps]
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._dead = False
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()

    @property
    def holds(self) -> bool:
        return not self._left

    def wait(self) -> None:
        wait_for(lambda: self.holds, f"a request as {self._left}")

    def die(self) -> None:
        with self._lock:
            self._dead = True
            for each in (self._listener, *self._sockets):
                with contextlib.suppress(OSError):  # it has ended already
                    each.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self) -> None:
        while not self._dead:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target, DEADLINE_S)
            with self._lock:
                if self._dead:
                    client.close()
                    server.close()
                    return
                self._sockets += (client, server)
                self._threads.append(threading.Thread(target=self._serve, args=(client, server), daemon=True))
                self._threads[-1].start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        asked = answered = b""
        with client, server, contextlib.suppress(OSError, Ended):
            while True:
                request, asked = read_message(client, asked)
                if self._is_held(request):
                    client.recv(1)  # until the client leaves, or this dies
                    return
                server.sendall(request)
                answer, answered = read_message(server, answered)
                client.sendall(answer)

    def _is_held(self, request: bytes) -> bool:
        with self._lock:
            if self._left and self._left[0].match(request):
                del self._left[0]
                just_now = not self._left
            else:
                just_now = False
        if just_now and self._dies:
            self.die()
        return self.holds
