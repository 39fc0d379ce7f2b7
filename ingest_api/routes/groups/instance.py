"""The common part of all routes of a consumer instance: its identity, by path and headers, and common headers.

Every request keeps its instance alive, even if it fails. It must not know what any route does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from delta_log.model.errors import OutcomeUnknown
from delta_log.model.quoting import quoted
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.parameters import Flag, Parameter, Whole, parse_value
from ingest_api.web.request import Call, Header
from ingest_api.web.request_timeout import RequestTimeout
from ingest_api.web.route_spec import Operation

T = TypeVar("T")
INSTANCE: Final = "/consumers/{group}/instances/{instance}"
UNKNOWN_INSTANCE: Final = 40403
_NAME_BYTES: Final = 255
_SHOWN: Final = 40

GENERATION: Final = Parameter(
    "Lakelog-Generation",
    Whole(),
    "The generation that the client was told last: one that is no longer its own is refused.",
    "header",
)
RECEIVED: Final = Parameter(
    "Lakelog-Received",
    Whole(),
    "The number of the last answer with records that arrived, as `Lakelog-Answer` told it: what was in a later one is"
    " given again.",
    "header",
)
DONE: Final = Parameter(
    "Lakelog-Done",
    Whole(),
    "Of who reads ahead: the number of the last answer with records of which it has nothing in hand any more. Who does"
    " not say it is done with all that it was given.",
    "header",
)
KEEP: Final = Parameter(
    "keep",
    Flag(),
    "What is being revoked stays the instance's until a heartbeat gives it up, whatever else it does; a poll that waits"
    " ends when there is more of that.",
    default=False,
)
SAYS_GENERATION: Final = {GENERATION.name: "The generation of the group."}


class Asked(NamedTuple):
    group: str
    member_id: str
    generation: int | None
    received: int | None


class InTime:
    """Waits for the groups until the request timeout, as a disk may hang; then the outcome is unknown."""

    def __init__(self, tier: ServerContext) -> None:
        self._patience = RequestTimeout(tier.settings.request_timeout_ms / 1000)

    async def __call__(self, asked: Awaitable[T]) -> T:
        try:
            return await self._patience.wait(asked)
        except TimeoutError:
            raise self._unknown(self._patience.seconds) from None

    async def after(self, wait_ms: int, asked: Awaitable[T]) -> T:
        """Wait for a call that may itself wait for `wait_ms`."""
        seconds = wait_ms / 1000 + self._patience.seconds
        try:
            async with asyncio.timeout(seconds):
                return await asked
        except TimeoutError:
            raise self._unknown(seconds) from None

    def _unknown(self, seconds: float) -> OutcomeUnknown:
        return OutcomeUnknown("the request", f"it took more than {seconds:g} s")


def who_asks(tier: ServerContext, call: Call) -> Asked:
    """Read the identity of an instance, and keep it alive: the first step of every route."""
    group, member_id = call.path["group"], call.path["instance"]
    tier.groups.heard(group, member_id)
    if max(len(group.encode()), len(member_id.encode())) > _NAME_BYTES:
        raise Refusal(
            404,
            f"group {quoted(group, _SHOWN)} has no consumer instance {quoted(member_id, _SHOWN)}: a name has at"
            f" most {_NAME_BYTES} bytes",
            code=UNKNOWN_INSTANCE,
        )
    return Asked(group, member_id, _number(call, GENERATION), _number(call, RECEIVED))


def generation_header(generation: int) -> Header:
    return b"lakelog-generation", b"%d" % generation


def of_instance(declared: Operation) -> Operation:
    """Complete the declaration of an instance's route; `path` follows the name. Adds 404: gone, and 409: its state."""
    answers = tuple(replace(says, headers={**SAYS_GENERATION, **says.headers}) for says in declared.answers)
    return replace(
        declared,
        path=INSTANCE + declared.path,
        answers=answers,
        parameters=(*declared.parameters, GENERATION, RECEIVED),
        error_statuses=(404, 409),
    )


def done_by(call: Call) -> int | None:
    return _number(call, DONE)


def _number(call: Call, declared: Parameter) -> int | None:
    text = call.header(declared.name.lower().encode())
    return None if text is None else parse_value(declared, text.decode("latin-1"))
