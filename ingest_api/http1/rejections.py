"""Refusals of invalid input of clients, each with its status and message. Values alone."""

from __future__ import annotations

from typing import Final, NamedTuple


class Fault(NamedTuple):
    """A refusal before any app is called. `reason` is the name under which it is counted."""

    status: int
    reason: str
    message: str
    not_attempted: bool = False
    """The same request may be sent again unchanged; the answer includes it."""


class BadRequest(Exception):
    """Raised while a request is parsed; no later request of its connection is ever executed."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def bad_request(message: str) -> BadRequest:
    return BadRequest(Fault(400, "bad_request", message))


HEAD_TOO_LARGE: Final = Fault(431, "head_too_large", "the request head is too large")
TOO_MANY_FIELDS: Final = Fault(431, "head_too_large", "the request head has too many fields")
URL_TOO_LONG: Final = Fault(414, "url_too_long", "the request target is too long")
UNKNOWN_EXPECTATION: Final = Fault(417, "expectation", "the only expectation that is met is 100-continue")
NO_TUNNELS: Final = Fault(501, "no_tunnels", "this server opens no tunnels")
HEAD_TOO_SLOW: Final = Fault(408, "head_too_slow", "the request head did not arrive in time")
BODY_TOO_SLOW: Final = Fault(
    408, "body_too_slow", "the request body came too slowly: see body_timeout_ms and min_body_bytes_per_second"
)
BODY_TOO_LATE: Final = Fault(408, "body_too_late", "the request body took longer in all than body_deadline_ms")
TOO_MANY_CONNECTIONS: Final = Fault(503, "too_many_connections", "too many connections are open", not_attempted=True)
