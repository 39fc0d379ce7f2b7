"""Requests with JSON bodies and answers, for all calls of admins. Pure: generators, driven by threads or by tasks."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from lakelog.foundation.errors import OutcomeUnknown, Refused
from lakelog.transport.exchange import Request
from lakelog.transport.retry import Asking, Patience, Question, Rejected, Succeeded, ask

T = TypeVar("T")

_JSON: Final = {"Content-Type": "application/json"}


class JsonQuestions:
    """Sends JSON requests. `what` names a request, to begin an error message."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience

    def ask(
        self, what: str, method: str, path: str, body: object = None, *, repeatable: bool = True
    ) -> Asking[Succeeded]:
        """Return the answer; raises the error of a refusal."""
        try:
            return (yield from self.attempt(what, method, path, body, repeatable=repeatable))
        except Rejected as declined:
            error = declined.fault.error
        raise error

    def attempt(
        self, what: str, method: str, path: str, body: object = None, *, repeatable: bool = True
    ) -> Asking[Succeeded]:
        """Like `ask`, but raises `Rejected` for a refusal, so that the caller can inspect it."""
        request = Request(method, path)
        if body is not None:
            try:
                request = request._replace(headers=_JSON, body=msgspec.json.encode(body))
            except (UnicodeEncodeError, TypeError, OverflowError) as error:
                raise Refused(f"{what}: it cannot be written as JSON: {error}") from None
        return ask(Question(what, request, repeatable), self._patience)


def read_answer(what: str, heeded: Succeeded, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(heeded.answer.body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OutcomeUnknown(what, f"the answer cannot be read: {error}") from None
