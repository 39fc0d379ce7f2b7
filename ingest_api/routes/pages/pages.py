"""The page of all routes, for people with a browser, and the OpenAPI document from which it is made.

The page is self-contained: nothing is loaded from elsewhere, so that its policy can forbid everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from ingest_api.web.openapi import document
from ingest_api.web.request import JSON, Call, Header, Reply
from ingest_api.web.route_spec import Content, Operation, ResponseSpec

VERSION: Final = "2.0"
_FILES: Final = Path(__file__).parent / "page"
HTML: Final = b"text/html; charset=utf-8"
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
#: Headers of every answer that a browser shows as a page: scripts and styles of this server alone, and no frame.
PAGE_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_FRESH: Final[tuple[Header, ...]] = ((b"cache-control", b"no-cache"),)
#: Redirect to the path without a final slash, as a browser resolves the page's links relative to it.
_WITHOUT_SLASH: Final[tuple[Header, ...]] = ((b"location", b"../docs"),)
_TEXT: Final = {"type": "string"}
_NOT_KEPT: Final = {"Cache-Control": "That it is to be asked for each time."}
_GUARDED: Final = _NOT_KEPT | {
    "Content-Security-Policy": "What the page may load and do.",
    "X-Frame-Options": "That no other page may frame it.",
    "Referrer-Policy": "That other servers are not told of it.",
    "Cross-Origin-Opener-Policy": "That it shares nothing with the page that opened it.",
}


def operations(others: Sequence[Operation]) -> list[Operation]:
    """List the routes of this module; its document describes the others, too."""

    @cache
    def written() -> bytes:
        return msgspec.json.encode(document((*others, *own), version=VERSION))

    async def openapi(call: Call) -> Reply:
        call.query(())
        return Reply(200, written(), JSON, _FRESH)

    async def page(call: Call) -> Reply:
        call.query(())
        if call.scope["raw_path"].endswith(b"/"):
            return Reply(308, b"", b"", _WITHOUT_SLASH)
        return Reply(200, _read("index.html"), HTML, (*PAGE_HEADERS, *_FRESH))

    own = [
        Operation(
            "GET", "/openapi.json", "openapi", "All routes, as an OpenAPI document", openapi, "operations",
            (ResponseSpec(200, "The document.", Content({"application/json": {"type": "object"}}), _NOT_KEPT),),
            reads=True,
        ),
        Operation(
            "GET", "/docs", "docs", "All routes, as a page", page, "operations",
            (
                ResponseSpec(
                    200, "The page, which loads nothing from elsewhere.", Content({"text/html": _TEXT}), _GUARDED
                ),
            ),
            reads=True,
        ),
        _of_page("/docs/page.js", "docs_script", _file("page.js", b"text/javascript; charset=utf-8")),
        _of_page("/docs/page.css", "docs_style", _file("page.css", b"text/css; charset=utf-8")),
    ]  # fmt: skip
    return own


def _of_page(path: str, name: str, act: Callable[[Call], Coroutine[Any, Any, Reply]]) -> Operation:
    return Operation("GET", path, name, "For browsers", act, "operations", (), reads=True, listed=False)


def _file(name: str, content_type: bytes) -> Callable[[Call], Coroutine[Any, Any, Reply]]:
    async def give(call: Call) -> Reply:
        call.query(())
        return Reply(200, _read(name), content_type, _FRESH)

    return give


@cache
def _read(name: str) -> bytes:
    return (_FILES / name).read_bytes()
