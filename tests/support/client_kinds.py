"""The Producer, and the AsyncProducer made to look like it, so that one test holds both to their promises."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from lakelog import AsyncProducer, AsyncTransaction, Producer, RecordMetadata
from lakelog.transport.exchange import Outcome, Request
from tests.support.client_wire import DEADLINE_S, SETTINGS, Asked, AsyncWire, Wire


class Waits(Protocol):
    def result(self, timeout: float | None = None) -> RecordMetadata: ...

    def exception(self, timeout: float | None = None) -> BaseException | None: ...

    def done(self) -> bool: ...


def refuse(request: Request) -> Outcome | None:
    raise AssertionError(f"nobody is there for {request.path}")


class Threads:
    """A Producer over a wire; without an `act` over the network."""

    def __init__(self, settings: Mapping[str, object], act: Callable[[Request], Outcome | None] | None) -> None:
        self.wire = Wire(act or refuse)
        self._producer = Producer(SETTINGS | dict(settings), transport=self.wire if act else None)

    def send(self, topic: str, value: Any = None, **given: Any) -> Waits:
        return self._producer.send(topic, value, **given)

    def flush(self, timeout: float | None = DEADLINE_S) -> None:
        self._producer.flush(timeout)

    def close(self, timeout: float | None = DEADLINE_S) -> None:
        self._producer.close(timeout)

    def transaction(self) -> AbstractContextManager[Any]:
        return self._producer.transaction()

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


class _Blocking:
    """A transaction of an AsyncProducer, entered and left by a thread."""

    def __init__(self, transaction: AsyncTransaction, run: Callable[[Any], Any]) -> None:
        self._transaction = transaction
        self._run = run

    def send_offsets(self, *given: Any) -> None:
        self._run(self._transaction.send_offsets(*given))

    def __enter__(self) -> Self:
        self._run(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._transaction.__aexit__(kind, error, trace))


class Tasks:
    """An AsyncProducer, likewise, in a loop and a thread of its own."""

    def __init__(self, settings: Mapping[str, object], act: Callable[[Request], Outcome | None] | None) -> None:
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

    def transaction(self) -> AbstractContextManager[Any]:
        return _Blocking(self._producer.transaction(), self._run)

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

    async def _make(self, settings: Mapping[str, object], act: Callable[[Request], Outcome | None] | None) -> AsyncWire:
        wire = AsyncWire(act or refuse)
        self._producer = AsyncProducer(SETTINGS | dict(settings), transport=wire if act else None)
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
