"""Performs the operation of a request: admits it, acts, answers, and counts it. Every error becomes an answer."""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Final

from ingest_api.web.admission import Door
from ingest_api.web.body_reader import Bodies, ClientGone
from ingest_api.web.counters import RequestCounters
from ingest_api.web.errors import answer_error
from ingest_api.web.parameters import decode_percent
from ingest_api.web.request import JSON, Call, Receive, Reply, Scope, Send, answer_at_once, is_plain, send_reply
from ingest_api.web.route_spec import Operation

_log = logging.getLogger("lakelog.http")
_SOUND_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
#: Names of values cached for a head.
_REQUEST_ID: Final = "edge.request_id"
_PATH: Final = "edge.path"
_ADMITTED: Final = "edge.admitted"


class Dispatcher:
    """Used by one event loop."""

    def __init__(self, bodies: Bodies, watch: RequestCounters, door: Door) -> None:
        self._bodies = bodies
        self._door = door
        self._watch = watch
        self._prefix = secrets.token_hex(4).encode()
        self._numbers = itertools.count(1)

    async def perform(
        self, operation: Operation, path: Mapping[str, bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        began = time.perf_counter()
        call = Call(scope, receive, {}, self._bodies)
        request_id = self._request_id(call)
        reply: Reply | None = None
        try:
            try:
                if _ADMITTED not in call.notes:
                    self._door.admit(operation, scope)
                    call.notes[_ADMITTED] = True
                call.path = call.cached(_PATH, lambda _: _decode_path(path))
                reply = await operation.handle(call)
            except ClientGone:
                self._watch.gone(operation.name)
                return
            except Exception as error:  # noqa: BLE001 - any error is answered
                reply = _explain(error, request_id)
            if call.at_once is not None and is_plain(reply):
                if not answer_at_once(call.at_once, reply, request_id):
                    await call.at_once.drain()
            else:
                await send_reply(send, reply, [(b"x-request-id", request_id)], bodiless=scope["method"] == "HEAD")
            self._watch.answered(operation.name, scope, reply, request_id, time.perf_counter() - began)
        finally:
            if call.room is not None:
                self._bodies.release(call)
            if reply is not None and reply.done is not None:
                reply.done()

    def _request_id(self, call: Call) -> bytes:
        """The client's own id, so that a request can be followed through several programs, or a new one."""
        given = call.cached(_REQUEST_ID, _given_id)
        return b"%s-%x" % (self._prefix, next(self._numbers)) if given is None else given


def _given_id(call: Call) -> bytes | None:
    for name, value in call.headers:
        if name == b"x-request-id" and _SOUND_ID.fullmatch(value):
            return value
    return None


def _decode_path(path: Mapping[str, bytes]) -> Mapping[str, str]:
    return {name: decode_percent(text) for name, text in path.items()}


def _explain(error: Exception, request_id: bytes) -> Reply:
    answer = answer_error(error)
    if answer.status == 500:
        _log.error("request %s failed in an unforeseen way", request_id.decode(), exc_info=error)
    return Reply(answer.status, answer.body, JSON, answer.headers)
