"""A proxy between a store and whoever uses it, that is slow, loses what it likes, and answers for the store.

    with StoreProxy(server.address) as proxy:
        proxy.delay_s = 0.06
        proxy.faults = [StoreFault("lose the answer", method="PUT", part="_delta_log", times=1)]

Beside what `CuttingProxy` does there is

    503             the answer is 503, and the store never hears of it
    503 afterwards  the store does it, and the answer is 503
    hang            the store does it, and there is no answer until the client gives up
"""

from __future__ import annotations

import random
import socket
import time
from dataclasses import dataclass

from tests.support.cutting_proxy import CuttingProxy, read_head, read_message

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_UNAVAILABLE = b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_SLOW_DOWN),
    _SLOW_DOWN,
)
#: What befalls requests of a bucket on their way, each as often.
TROUBLE = dict.fromkeys(("lose the answer", "cut the request", "cut the answer", "503", "503 afterwards"), 0.03)


@dataclass
class StoreFault:
    """What happens to the next `times` requests of this method whose line contains `part`."""

    what: str
    method: str = ""
    part: str = ""
    times: int = 1 << 30


class StoreProxy(CuttingProxy):
    """`delay_s` is what each PUT takes longer, `most_at_once` how many of them there were at a time.

    Named faults go before the `trouble` that chance brings.
    """

    def __init__(self, target: tuple[str, int], chance: random.Random | None = None) -> None:
        super().__init__(chance or random.Random(0))
        self.target = target
        self.delay_s = 0.0
        self.faults: list[StoreFault] = []
        self.requests: list[str] = []
        self.most_at_once = 0
        self._at_once = 0

    def _pass(self, client: socket.socket, server: socket.socket, request: bytes, left: list[bytes]) -> None:
        line = request.partition(b"\r\n")[0].decode("latin-1")
        method = line.partition(" ")[0]
        what = self._fault_of(method, line)
        with self._lock:
            self.requests.append(line)
            self.happened[what] += 1
        if method == "PUT":
            self._delay()
        match what:
            case "503":
                client.sendall(_UNAVAILABLE)
                return
            case "cut the request":
                server.sendall(request[: self._some(request)])
                self._cut(client)
        server.sendall(request)
        read = read_head if method == "HEAD" else read_message
        answer, left[1] = read(server, left[1])
        match what:
            case "503 afterwards":
                client.sendall(_UNAVAILABLE)
            case "lose the answer":
                self._cut(client)
            case "cut the answer":
                client.sendall(answer[: self._some(answer)])
                self._cut(client)
            case "hang":
                self._stopped.wait(10.0)
                self._cut(client)
            case _:
                client.sendall(answer)

    def _delay(self) -> None:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(self.delay_s)
        with self._lock:
            self._at_once -= 1

    def _fault_of(self, method: str, line: str) -> str:
        with self._lock:
            for fault in self.faults:
                if fault.times and fault.method in method and fault.part in line:
                    fault.times -= 1
                    return fault.what
        return self._choose()
