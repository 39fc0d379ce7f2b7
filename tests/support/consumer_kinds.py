"""The Consumer, and the AsyncConsumer made to look like it, so that one test holds both to their promises."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from lakelog import AsyncConsumer, Consumer, ConsumerRecord

DEADLINE_S = 80.0


class InLoop:
    """An AsyncConsumer in a loop and a thread of its own; its methods block. A listener calls what is no coroutine."""

    def __init__(self, settings: Mapping[str, object], **more: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer = self._run(_made(lambda: AsyncConsumer(settings, **more)))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if threading.current_thread() is self._thread:
                return getattr(self._consumer, name)(*given, **named)
            return self._run(_called(getattr(self._consumer, name), given, named))

        return call

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            try:
                yield self._run(_called(self._consumer.__anext__, (), {}))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(_called(self._consumer.__aexit__, (kind, error, trace), {}))

    def end(self) -> None:
        """It was closed."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(DEADLINE_S)


async def _made(make: Callable[[], Any]) -> Any:
    return make()


async def _called(call: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    made = call(*given, **named)
    return await made if inspect.isawaitable(made) else made


KINDS: Mapping[str, Callable[..., Any]] = {"threads": Consumer, "tasks": InLoop}
