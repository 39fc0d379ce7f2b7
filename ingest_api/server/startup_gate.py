"""Answers requests until the app is ready: the server listens at once and reports that it is not ready."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ingest_api.http1.asgi import App
from ingest_api.observe.readiness import reasons_not_ready
from ingest_api.web.errors import RETRY_AFTER_S, answer_error, try_again
from ingest_api.web.request import JSON, Receive, Reply, Scope, Send, json_reply, send_reply

_REASONS: Final = reasons_not_ready("recovering", None)
_METRICS: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Gate:
    """An app that is replaced by another one."""

    def __init__(self) -> None:
        self._app: App = self._recovering

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self._app(scope, receive, send)

    def open(self, app: App) -> None:
        self._app = app

    async def _recovering(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await send_reply(send, reply_while_recovering(scope["path"]), [])


def reply_while_recovering(path: str) -> Reply:
    """Make the answer of a server that is alive, but cannot store or read anything yet."""
    match path.rstrip("/"):
        case "/healthz":
            return json_reply({"status": "ok"})
        case "/metrics":
            return Reply(body=b"# The log is being opened.\n", content_type=_METRICS)
        case "/readyz":
            said = {"error_code": 503, "message": _REASONS[0], "ready": False, "reasons": _REASONS}
            return json_reply(said, 503, headers=[(b"retry-after", b"%d" % RETRY_AFTER_S)])
        case _:
            answer = answer_error(try_again("the log is being opened; try again", code=50307))
            return Reply(answer.status, answer.body, JSON, answer.headers)
