"""An attempt as a sequence of requests, nearly always one. Pure: yields requests, is sent their outcomes.

A server accepts the current epoch of a producer and the next. A lane that was in doubt several times in a row is
further ahead, as nothing was stored in the epochs between. It has these opened, which also fences late requests in
them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Final, TypeVar

import msgspec

from lakelog.produce.outbox import Attempt
from lakelog.produce.verdict import Skipped, Verdict, read_verdict
from lakelog.produce.wire import Wire
from lakelog.transport.exchange import Answer, AsyncTransport, Outcome, Request, Transport

#: The most epochs that one attempt opens; the next attempt opens the rest.
_MOST_ASKED: Final = 1000

T = TypeVar("T")
Making = Generator[Request, Outcome, T]


class _HandedOut(msgspec.Struct):
    epoch: Annotated[int, msgspec.Meta(ge=0)]


_DECODER: Final = msgspec.json.Decoder(_HandedOut)


def make(wire: Wire, attempt: Attempt, address: str) -> Making[Verdict]:
    verdict = read_verdict((yield wire.request(attempt)), attempt.topic, attempt.payload.rows, address)
    if isinstance(verdict, Skipped) and (yield from _open_epochs(wire, attempt, verdict.current)):
        verdict = read_verdict((yield wire.request(attempt)), attempt.topic, attempt.payload.rows, address)
    return verdict


def _open_epochs(wire: Wire, attempt: Attempt, current: int) -> Making[bool]:
    """Open all epochs before the attempt's own; False if that did not succeed for certain.

    Only the first request of an epoch does so: several would open too many, and fence themselves.
    """
    stamp = attempt.stamp
    if stamp is None or stamp.sequence:
        return False
    for _ in range(_MOST_ASKED):
        if current >= stamp.epoch - 1:
            return True
        match (yield wire.next_epoch(stamp, attempt.timeout_s)):
            case Answer(200, _, body):
                try:
                    current = _DECODER.decode(body).epoch
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    return False
            case _:
                return False
    return False


def run(making: Making[T], transport: Transport) -> T:
    try:
        request = next(making)
        while True:
            request = making.send(transport.send(request))
    except StopIteration as end:
        return end.value


async def run_async(making: Making[T], transport: AsyncTransport) -> T:
    try:
        request = next(making)
        while True:
            request = making.send(await transport.send(request))
    except StopIteration as end:
        return end.value
