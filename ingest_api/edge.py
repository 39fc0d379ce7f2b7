"""Does one operation for one request: reads it, acts, answers, and tells the watch. Every error becomes an answer."""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Final

from ingest_api.bodies import Bodies, ClientGone
from ingest_api.call import JSON, Call, Receive, Reply, Scope, Send, send_reply
from ingest_api.errors import answer_error
from ingest_api.operations import Operation
from ingest_api.parameters import decode_percent
from ingest_api.watch import Watch

_log = logging.getLogger("lakelog.http")
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class Edge:
    """Used by one loop."""

    def __init__(self, bodies: Bodies, watch: Watch) -> None:
        self._bodies = bodies
        self._watch = watch
        self._prefix = secrets.token_hex(4).encode()
        self._numbers = itertools.count(1)

    async def perform(
        self, operation: Operation, path: Mapping[str, bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        began = time.perf_counter()
        request_id = self._request_id(scope)
        call = Call(scope, receive, {}, self._bodies)
        reply: Reply | None = None
        try:
            reply = await self._act(operation, call, path, request_id)
            if reply is None:
                return
            await send_reply(send, reply, [(b"x-request-id", request_id)], bodiless=scope["method"] == "HEAD")
            self._watch.answered(operation.name, scope, reply, request_id, time.perf_counter() - began)
        finally:
            self._bodies.release(call)
            if reply is not None and reply.done is not None:
                reply.done()

    async def _act(
        self, operation: Operation, call: Call, path: Mapping[str, bytes], request_id: bytes
    ) -> Reply | None:
        try:
            call.path = {name: decode_percent(text) for name, text in path.items()}
            return await operation.act(call)
        except ClientGone:
            self._watch.gone(operation.name)
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, its sender is answered
            answer = answer_error(error)
            if answer.status == 500:
                _log.error("request %s failed in an unforeseen way", request_id.decode(), exc_info=error)
            return Reply(answer.status, answer.body, JSON, answer.headers)

    def _request_id(self, scope: Scope) -> bytes:
        """The client's own, so that a request can be followed through several programs, or a new one."""
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                return value
        return b"%s-%x" % (self._prefix, next(self._numbers))
