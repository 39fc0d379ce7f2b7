"""No message shows what only Python writes, obeys a hostile input, or has no end: of every error that there is."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import msgspec
import pytest

from consumer_groups.model import errors as group_errors
from delta_log.model import errors as log_errors
from delta_log.model.errors import LakelogError
from ingest_api.formats.decode.record_errors import refuse_records
from ingest_api.routes.groups.poll_formats import _choose
from ingest_api.routes.v3.storing import explain
from ingest_api.web.errors import TABLE, Refusal, answer_error
from ingest_api.web.json_bodies import check_accepts_json, check_content_type, decode_strict
from ingest_api.web.negotiation import Format, plain_media_type, produce_format, read_format
from ingest_api.web.request import Call

HOSTILE = "\x00\r\n\x1b[2J\u202e\u2028" + "x" * 100_000
#: What Python writes of bytes, of what has no text, of its own words, and of its objects.
PYTHON = re.compile(r"\bb['\"]|<[^>]* (object|at 0x)|<\w+\.\w+: |\bNone\b|\bTrue\b|\bFalse\b|\b[A-Z]\w+\(\w+=")
MOST = 2_001


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    ONE = "one"


@dataclass
class Point:
    x: int = 1


#: What can stand for a parameter, by its annotation.
GIVEN: dict[str, list[Any]] = {
    "str": [HOSTILE, "plain", Word.ONE],
    "int": [7],
    "int | None": [None, 7],
    "object": [HOSTILE, b"text", b"\xff", None, True, (1, b"text"), {"a": None}, Colour.RED, Point(), OSError(5, "x")],
}  # fmt: skip


def every_kind() -> Iterator[type[LakelogError]]:
    for module in (log_errors, group_errors):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, LakelogError) and kind.__module__ == module.__name__:
                yield kind


def every_error(kind: type[LakelogError]) -> Iterator[LakelogError]:
    """Each with one fact after the other as hostile as can be."""
    if kind.__init__ is Exception.__init__:
        yield kind(HOSTILE)
        return
    parameters = [each for each in inspect.signature(kind).parameters.values() if each.name != "self"]
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        yield kind(HOSTILE)
        return
    usual = {each.name: GIVEN[each.annotation][-1 if each.annotation != "object" else 0] for each in parameters}
    for parameter in parameters:
        for value in GIVEN[parameter.annotation]:
            yield kind(**{**usual, parameter.name: value})


def check(message: str) -> None:
    assert message
    assert message.isprintable(), message[:300]
    assert len(message) <= MOST
    assert not PYTHON.search(message), message[:300]


@pytest.mark.parametrize("kind", list(every_kind()), ids=lambda kind: kind.__name__)
def test_every_error_of_the_log_and_of_groups_is_told_in_one_sound_line(kind: type[LakelogError]):
    for error in every_error(kind):
        check(json.loads(answer_error(error).body)["message"])
        check(explain(error)["message"])


def test_these_are_all_rows_of_the_table():
    assert {kind for kind, _ in TABLE} <= set(every_kind())


def test_a_refusal_is_told_in_one_sound_line():
    check(json.loads(answer_error(Refusal(422, f"it is {HOSTILE}")).body)["message"])
    many = json.loads(answer_error(refuse_records([(number, HOSTILE) for number in range(100)], 100)).body)
    for error in many["errors"]:
        check(error["message"])


def call_of(**fields: bytes) -> Call:
    headers = [(name.replace("_", "-").encode(), value) for name, value in fields.items()]
    return Call({"headers": headers, "query_string": b""}, None, {}, None)  # type: ignore[arg-type]


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    a: int = 1


HEADER = b"text/ht\x80ml; " + b"x" * 10_000
REFUSING = {
    "Accept of v3": lambda: check_accepts_json(call_of(accept=HEADER)),
    "Accept of v2": lambda: plain_media_type(HEADER),
    "Accept of a read": lambda: read_format(HEADER, (Format.NDJSON,), Format.NDJSON),
    "Accept of a poll": lambda: _choose(HEADER, "binary"),
    "Content-Type of a body": lambda: check_content_type(call_of(content_type=HEADER), ("application/json",)),
    "charset": lambda: check_content_type(
        call_of(content_type=b"application/json; charset=\x80"), ("application/json",)
    ),
    "Content-Type of records": lambda: produce_format(HEADER, (Format.JSON,)),
    "a member twice": lambda: decode_strict(b'{"\\u0000":1,"\\u0000":2}', dict[str, int]),
    "a member that there is not": lambda: decode_strict(json.dumps({HOSTILE: 1}).encode(), Shape),
}


@pytest.mark.parametrize("what", list(REFUSING))
def test_what_is_quoted_of_a_request_is_bounded_text(what: str):
    with pytest.raises(Refusal) as error:
        REFUSING[what]()
    check(error.value.message)
