"""Checks of the server by a command that sends, while none of its records are decided.

A producer is patient: it retries for two minutes, silently. A person at a command is told within seconds, and a server
that is gone ends the command soon; one that is only slow does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from lakelog.cli.kit.clients import open_admin

if TYPE_CHECKING:
    from lakelog.producer import Producer

__all__ = ["LOOK_MS", "Watch", "deliver"]

#: Interval of the checks during a wait; nothing may block longer.
LOOK_MS: Final = 1_000
#: After this long without a decided record the server is checked; and the timeout of the check.
_QUIET_S: Final = 3.0
_ANSWER_MS: Final = 5_000
#: How long to wait for a server that does not answer.
_PATIENCE_S: Final = 15.0


class Watch:
    """Watches the server. With `quiet` it does not report that it waits: the output is for a program."""

    def __init__(self, command: str, server: str, topic: str, *, quiet: bool) -> None:
        self._command, self._server, self._topic, self._told = command, server, topic, quiet
        self._decided: int = 0
        self._since: float = monotonic()

    def look(self, decided: int, sent: int) -> None:
        """Check the server if no progress is made; raises its error after the limit of waiting."""
        from lakelog.foundation.errors import LakelogError

        quiet_s = monotonic() - self._since
        if decided == sent or decided != self._decided:
            self._decided, self._since = decided, monotonic()
        elif quiet_s >= _QUIET_S:
            try:
                with open_admin(self._server, retries=0, patience_ms=_ANSWER_MS) as admin:
                    admin.describe_topic(self._topic)
            except LakelogError as error:
                if error.retriable:
                    self._wait(error, quiet_s)
            else:
                self._since = monotonic()

    def _wait(self, error: Exception, quiet_s: float) -> None:
        if quiet_s >= _PATIENCE_S:
            raise error
        if not self._told:
            print(f"{self._command}: {error}; it is waited for", file=sys.stderr)
        self._told = True


def deliver(producer: Producer, look: Callable[[], None]) -> None:
    """Wait until all sent records are decided."""
    from lakelog.foundation.errors import StillUnderWay

    while True:
        try:
            producer.flush(LOOK_MS / 1000)
        except StillUnderWay:
            look()
        else:
            return
