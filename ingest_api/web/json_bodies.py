"""JSON bodies of administrative routes: read whole, and accepted in the declared shape alone.

Nothing is coerced, left out or guessed: an unknown member, a repeated member, a number of the wrong kind and text that
is not UTF-8 are refused. Knows no route and no format of records.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeVar

import msgspec

from delta_log.model.quoting import quoted
from ingest_api.web.errors import Refusal
from ingest_api.web.negotiation import choose
from ingest_api.web.request import JSON, Call

T = TypeVar("T")

#: Such bodies are short: a longer one is refused before it takes the loop's time.
MOST_BYTES: Final = 1024 * 1024
_MESSAGE: Final = 400
#: msgspec's message for a number that is too large or too small.
_BOUND: Final = re.compile(r"Expected `\w+` (?P<sign>[<>]=) (?P<limit>-?\d+) - at `\$\.(?P<where>.+)`")
#: The media types of v2's own bodies that carry no records.
V2_TYPES: Final = ("application/json", "application/vnd.kafka.v2+json", "application/vnd.kafka+json")
V3_TYPES: Final = ("application/json",)


async def read_json(call: Call, shape: type[T], *, types: tuple[str, ...] = V2_TYPES) -> T:
    """Read and decode the body, which is required."""
    check_content_type(call, types)
    body = await read_short(call)
    if not body:
        raise Refusal(422, "this route needs a JSON object as its body")
    return decode_strict(body, shape)


async def read_json_or(call: Call, shape: type[T], default: T, *, types: tuple[str, ...] = V2_TYPES) -> T:
    """Read and decode the body; `default` if it is empty."""
    body = await read_short(call)
    if not body:
        return default
    check_content_type(call, types)
    return decode_strict(body, shape)


async def read_short(call: Call) -> bytes:
    body = await call.body()
    if len(body) > MOST_BYTES:
        raise Refusal(413, f"the body of this route has at most {MOST_BYTES} bytes")
    return body


def decode_strict(body: bytes, shape: type[T]) -> T:
    """Decode JSON of exactly the declared shape."""
    try:
        value = msgspec.json.decode(body, type=shape)
        json.loads(body, object_pairs_hook=_each_once)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refusal(422, f"the body cannot be used: {_shown(error)}") from None
    return value


def check_content_type(call: Call, types: tuple[str, ...]) -> None:
    """Refuse a body of another type. A missing type was checked by admission."""
    given = call.header(b"content-type")
    if given is None:
        return
    media, _, parameters = given.decode("latin-1").lower().partition(";")
    if media.strip(" \t") not in types:
        raise Refusal(415, f"Content-Type {quoted(given)} is not accepted here, but {', '.join(types)} are")
    charset = parameters.replace(" ", "").replace('"', "")
    if "charset=" in charset and "charset=utf-8" not in charset and "charset=utf8" not in charset:
        raise Refusal(415, f"Content-Type {quoted(given)} cannot be used: the charset must be utf-8")


def check_accepts_json(call: Call) -> None:
    """Refuse an `Accept` without JSON, for routes that answer in JSON alone."""
    accept = call.list_header(b"accept")
    if accept and choose(accept, {"application/json": JSON}) is None:
        raise Refusal(406, f"Accept {quoted(accept)} allows nothing that is offered here: application/json")


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"the member {quoted(name)} is given twice")
        seen.add(name)


def _shown(error: Exception) -> str:
    text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    if bound := _BOUND.fullmatch(text):
        text = f"{bound['where']} must be at {'most' if bound['sign'] == '<=' else 'least'} {bound['limit']}"
    return text if len(text) <= _MESSAGE else text[:_MESSAGE] + "…"
