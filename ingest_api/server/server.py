"""The composition root: starts a server from its settings in the only safe order, and stops it.

The address is bound first and the log opened after it, so that requests meanwhile get a retriable 503. A stop goes the
other way: no new connections, accepted requests are finished, the log is flushed to its tables. A stop has a deadline;
records not flushed by then are in the journal, and the next start finds them there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import uvicorn
import uvloop

from delta_log import Log
from ingest_api.config.settings import ServerSettings
from ingest_api.http1 import WireCounts, protocol_class
from ingest_api.http1.asgi import App
from ingest_api.server.listener import allow_open_files, is_loopback, listen, url_of
from ingest_api.server.malloc import keep_freed_memory
from ingest_api.server.open import Opened, close_groups, open_all, open_log_of, wire_limits
from ingest_api.server.startup_gate import Gate
from ingest_api.server.unix_sockets import for_own_user, listening_at
from ingest_api.web.access_log import AccessLog, open_access_log
from ingest_api.web.body_reader import Bodies
from ingest_api.web.context import ServerContext
from ingest_api.web.counters import RequestCounters
from ingest_api.web.read_budget import ReadRoom
from ingest_api.web.shutdown import Closing

_log = logging.getLogger("lakelog.server")

#: Exit codes.
DONE, FAILED, FORCED = 0, 1, 130
#: Threads for calls that wait for the disk: reads, admin, large requests.
THREADS: Final = 16
#: Open files beside the connections: the journal, tables being read and written.
_OTHER_FILES: Final = 4096
#: Part of the time for a stop that requests may take; flushing the tables has the rest.
_FOR_REQUESTS: Final = 0.6
#: A longer start announces its address before it is ready.
_SOON_S: Final = 0.5
_MS: Final = 1000
#: Objects made by the start live until the end: they are frozen, as a garbage collection over them pauses the loop for
#: 30 to 50 ms. Objects of requests are nearly all freed by reference counting, so full collections may be rare. Young
#: collections are kept small: each pauses all threads, and large groups create very many new objects.
_COLLECT_AFTER: Final = (10_000, 4, 2_500)
#: Time after which a thread must yield the GIL; Python's own default.
_SWITCH_INTERVAL_S: Final = 0.005


class Announce(Protocol):
    """Announces the state of a start to users."""

    def listening(self, url: str) -> None: ...
    def ready(self, url: str) -> None: ...


def serve(
    settings: ServerSettings,
    announce: Announce,
    make_app: Callable[[ServerContext], App],
    *,
    open_log: Callable[[ServerSettings], Log] | None = None,
) -> int:
    """Run a server until it is stopped; returns the exit code. Raises the error that prevented the start."""
    keep_freed_memory()
    place = settings.unix_socket
    listening = listening_at(place) if place else listen(settings.host, settings.port)
    with listening as listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(Serving(settings, listener, announce, make_app, open_log or open_log_of).run())


class Serving:
    """A run of a server, from its start to its stop."""

    def __init__(
        self,
        settings: ServerSettings,
        listener: socket.socket,
        announce: Announce,
        make_app: Callable[[ServerContext], App],
        open_log: Callable[[ServerSettings], Log],
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._announce = announce
        self._open_log = open_log
        self._make_app = make_app
        self._gate = Gate()
        self._closing = Closing()
        self._counts = WireCounts()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="lakelog-http")
        self._access: AccessLog | None = None
        self._watch: RequestCounters | None = None
        self._drain_by = 0.0
        self._server = _Server(self._uvicorn_config())

    async def run(self) -> int:
        allow_open_files(self._settings.max_connections + _OTHER_FILES)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            return await self._run()
        finally:
            self._threads.shutdown(wait=False)
            if self._access is not None:
                self._access.stop()

    def stop(self) -> None:
        """Begin to stop: waiting requests are woken, new connections are refused."""
        if self._closing.is_set():
            return
        self._drain_by = asyncio.get_running_loop().time() + self._settings.drain_timeout_ms / _MS
        if self._watch is not None:
            self._watch.state = "draining"
        self._closing.set()
        self._server.should_exit = True

    async def _run(self) -> int:
        url, is_ours_alone = url_of(self._listener), is_loopback(self._listener)
        opening = asyncio.create_task(open_all(self._settings, self._threads, self._open_log))
        serving = asyncio.create_task(self._server.serve([self._listener]))
        await asyncio.wait({opening, serving}, timeout=_SOON_S, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done() or opening.exception() is None:
            self._announce.listening(url)
            if not is_ours_alone:
                _log.warning("others can reach this server, and there is no authentication yet: they may do everything")
        await asyncio.wait({opening, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await serving
            return await self._end(opening)
        if opening.exception() is None and not self._closing.is_set():
            app = self._make_app(self._compose(opening.result()))
            _settle_interpreter()
            self._gate.open(app)
            self._announce.ready(url)
        self._server.should_exit = self._server.should_exit or opening.exception() is not None
        await serving
        return await self._end(opening)

    def _compose(self, opened: Opened) -> ServerContext:
        settings = self._settings
        self._access = open_access_log(settings.access_log)
        if self._access is not None:
            self._access.start()
        self._watch = RequestCounters(wire=self._counts, access=self._access)
        return ServerContext(
            log=opened.log,
            groups=opened.groups,
            settings=settings,
            bodies=Bodies(settings.max_body_bytes, settings.max_bodies_bytes, settings.body_timeout_ms / _MS),
            read_room=ReadRoom(settings.max_reads_bytes),
            watch=self._watch,
            threads=self._threads,
            closing=self._closing,
        )

    async def _end(self, opening: asyncio.Future[Opened]) -> int:
        """Flush the log to its tables, after the last request."""
        if not await self._in_time(opening):
            return self._leave("the log was still being opened; the next start goes on with that")
        log, groups = opening.result()
        await close_groups(groups)
        _log.info("bringing everything into the tables")
        closing = asyncio.get_running_loop().run_in_executor(self._threads, log.close)
        if not await self._in_time(closing):
            return self._leave("not everything is in the tables yet; it is in the journal, and the next start goes on")
        if not closing.result():
            _log.error("stopped, but not everything is in the tables; it is in the journal, and the next start goes on")
            return FAILED
        _log.info("stopped")
        return DONE

    async def _in_time(self, work: asyncio.Future[Opened] | asyncio.Future[bool]) -> bool:
        if not self._drain_by:
            await asyncio.wait({work})
        left = self._drain_by - asyncio.get_running_loop().time()
        await asyncio.wait({work}, timeout=max(0.0, left))
        return work.done()

    def _on_signal(self, number: signal.Signals) -> None:
        if not self._closing.is_set():
            _log.info("%s: stopping within %d ms", number.name, self._settings.drain_timeout_ms)
            self.stop()
        elif number == signal.SIGINT:
            _log.warning("interrupted again: what is not in the tables stays in the journal for the next start")
            _leave_now(FORCED)

    def _leave(self, why: str) -> int:
        """Exit at once: a hanging thread would keep the process alive, and leaving it loses nothing."""
        _log.error("the time for a stop, %d ms, is over: %s", self._settings.drain_timeout_ms, why)
        _leave_now(FAILED)
        return FAILED

    def _uvicorn_config(self) -> uvicorn.Config:
        protocol = protocol_class(wire_limits(self._settings), self._counts)
        return uvicorn.Config(
            self._gate,
            loop="uvloop",
            http=for_own_user(protocol) if self._listener.family == socket.AF_UNIX else protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # a layer around every request; routes that need these headers read them
            server_header=False,
            headers=[("x-content-type-options", "nosniff")],  # for every answer, rendered once a second with the date
            # In seconds; fractions are accepted.
            timeout_graceful_shutdown=self._settings.drain_timeout_ms / _MS * _FOR_REQUESTS,  # pyright: ignore[reportArgumentType]
        )


class _Server(uvicorn.Server):
    """Leaves signals to `Serving`: uvicorn would raise them again after the stop, and they would end the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _settle_interpreter() -> None:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def _leave_now(code: int) -> None:
    for handler in logging.getLogger().handlers:
        handler.close()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)
