"""Steps that a consumer's generators yield; a driver performs each and sends its outcome into the generator."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeVar

from lakelog.transport.backoff import Backoff
from lakelog.transport.exchange import Answer, Request
from lakelog.transport.retry import Heard, fault_of
from lakelog.transport.server_errors import Fault

T = TypeVar("T")


class Wait(NamedTuple):
    """Wait until the state changes, or until the given time."""

    until: float | None = None


class Call(NamedTuple):
    """Run a caller's callback, in the caller's thread. Its exception is thrown into the generator."""

    act: Any
    given: tuple[Any, ...]


#: Returns at once, with the time.
NOW: Final = Wait(0.0)
Doing = Generator[Request | Wait | Call, Heard, T]


class Pace:
    """Earliest time of the next attempt after failures."""

    def __init__(self, backoff: Backoff) -> None:
        self.not_before = 0.0
        self._backoff = backoff
        self._failures = 0

    def succeeded(self) -> None:
        self.not_before, self._failures = 0.0, 0

    def failed(self, heard: Heard, retry_after_s: float = 0.0) -> None:
        self._failures += 1
        self.not_before = heard.now + max(self._backoff.pause_s(self._failures, heard.chance), retry_after_s)


def fault_in(heard: Heard, what: str, address: str) -> Fault | None:
    """Fault in an outcome; None for a success. `what` names the request, to begin an error message."""
    outcome = heard.outcome
    if isinstance(outcome, Answer) and 200 <= outcome.status < 300:  # noqa: PLR2004 - a status code is its own name
        return None
    return fault_of(outcome, what, address)


def code_of(fault: Fault) -> int:
    return 0 if fault.error.said is None else fault.error.said.error_code
