"""Requests answered before they are durable, by acks=0: bounded, completed, and counted once durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from delta_log import Appended
from ingest_api.web.errors import try_again

_log = logging.getLogger("lakelog.http")
#: Memory of a request beside its body.
_REQUEST_BYTES: Final = 1024


class Accepted:
    """Used by the loop alone. `held` is about the memory of the requests in flight."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: set[asyncio.Task[Appended]] = set()
        self.held = 0

    def check_room(self) -> None:
        """Backpressure: a producer that is answered at once can send faster than a disk writes."""
        if self.held >= self._most:
            raise try_again("too many records wait to be stored; try again", code=50309)

    def store(self, storing: Coroutine[Any, Any, Appended], size: int, stored: Callable[[], None]) -> None:
        """Run `storing` in the background; `stored` is called once it has succeeded."""
        task = asyncio.create_task(storing)
        self._under_way.add(task)
        self.held += size + _REQUEST_BYTES

        def settle(task: asyncio.Task[Appended]) -> None:
            self._under_way.discard(task)
            self.held -= size + _REQUEST_BYTES
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                stored()
            else:
                _log.warning("records that were accepted with acks=0 were lost: %s", error)

        task.add_done_callback(settle)
