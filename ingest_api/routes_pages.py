"""What a browser is shown: the page of all routes, and the document that it is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from fastapi.openapi.docs import get_swagger_ui_html

from ingest_api.call import Call, Reply
from ingest_api.openapi import document
from ingest_api.operations import Operation

VERSION: Final = "2.0"
_HTML: Final = b"text/html; charset=utf-8"


def operations(described: Sequence[Operation]) -> list[Operation]:
    """The routes of this module: of a document that describes these others."""

    @cache
    def written() -> bytes:
        return msgspec.json.encode(document(described, version=VERSION))

    async def openapi(call: Call) -> Reply:
        call.query(())
        return Reply(body=written())

    async def page(call: Call) -> Reply:
        call.query(())
        return Reply(
            body=bytes(get_swagger_ui_html(openapi_url="/openapi.json", title="lakelog").body), content_type=_HTML
        )

    return [_shown("/openapi.json", "openapi", openapi), _shown("/docs", "docs", page)]


def _shown(path: str, name: str, act: Callable[[Call], Any]) -> Operation:
    return Operation("GET", path, name, "For browsers", act, "pages", (), reads=True, listed=False)
