"""The Producer, and the AsyncProducer made to look like it, so that one test holds both to their promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from lakelog import AsyncProducer, Producer, RecordMetadata
from lakelog.transport.exchange import Outcome, Request
from tests.support.client_wire import DEADLINE_S, SETTINGS, Asked, AsyncWire, Wire


class Waits(Protocol):
    def result(self, timeout: float | None = None) -> RecordMetadata: ...

    def exception(self, timeout: float | None = None) -> BaseException | None: ...

    def done(self) -> bool: ...


class Threads:
    """A Producer over a wire."""

    def __init__(self, settings: Mapping[str, object], act: Callable[[Request], Outcome | None]) -> None:
        self.wire = Wire(act)
        self._producer = Producer(SETTINGS | dict(settings), transport=self.wire)

    def send(self, topic: str, value: Any = None, **given: Any) -> Waits:
        return self._producer.send(topic, value, **given)

    def flush(self, timeout: float | None = DEADLINE_S) -> None:
        self._producer.flush(timeout)

    def close(self, timeout: float | None = DEADLINE_S) -> None:
        self._producer.close(timeout)

    def take(self) -> Asked:
        return self.wire.take()

    @property
    def requests(self) -> list[Request]:
        return self.wire.requests

    @property
    def closed(self) -> bool:
        return self.wire.closed.wait(DEADLINE_S)

    def end(self) -> None:
        self._producer.close(0)
        self.wire.release()


class Tasks:
    """An AsyncProducer over a wire, in a loop and a thread of its own."""

    def __init__(self, settings: Mapping[str, object], act: Callable[[Request], Outcome | None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.wire: AsyncWire = self._run(self._make(settings, act))

    def send(self, topic: str, value: Any = None, **given: Any) -> Waits:
        return self._run(self._send(topic, value, given))

    def flush(self, timeout: float | None = DEADLINE_S) -> None:
        self._run(self._producer.flush(timeout))

    def close(self, timeout: float | None = DEADLINE_S) -> None:
        self._run(self._producer.close(timeout))

    def take(self) -> Asked:
        return self._run(self.wire.take())

    @property
    def requests(self) -> list[Request]:
        return self.wire.requests

    @property
    def closed(self) -> bool:
        return self.wire.closed

    def end(self) -> None:
        self.close(0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    async def _make(self, settings: Mapping[str, object], act: Callable[[Request], Outcome | None]) -> AsyncWire:
        wire = AsyncWire(act)
        self._producer = AsyncProducer(SETTINGS | dict(settings), transport=wire)
        return wire

    async def _send(self, topic: str, value: Any, given: dict[str, Any]) -> Waits:
        future = await self._producer.send(topic, value, **given)
        seen: Future[RecordMetadata] = Future()

        def tell(done: asyncio.Future[RecordMetadata]) -> None:
            error = done.exception()
            if error is None:
                seen.set_result(done.result())
            else:
                seen.set_exception(error)

        future.add_done_callback(tell)
        return seen

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(DEADLINE_S * 2)


Kind = Threads | Tasks
KINDS: Mapping[str, type[Threads | Tasks]] = {"threads": Threads, "tasks": Tasks}
