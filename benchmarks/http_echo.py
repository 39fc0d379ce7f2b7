"""A bare ASGI app on stock uvicorn: the least that answering a request can cost. `python -m benchmarks.http_echo`."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn

_ANSWER = b'{"ok":1}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]


async def echo(_scope: Any, receive: Any, send: Any) -> None:
    """Take the whole body, and answer."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _ANSWER})


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"listens on http://127.0.0.1:{listener.getsockname()[1]}\nready", flush=True)
    config = uvicorn.Config(
        echo, loop="uvloop", http="httptools", ws="none", lifespan="off", access_log=False, log_level="error"
    )
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
