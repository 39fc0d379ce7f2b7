"""The declaration of a route: its parameters, its answers, and its handler.

Routing, the strict parsing of parameters and the OpenAPI document are all made from it, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ingest_api.web.parameters import Kind, Parameter, Text, Whole
from ingest_api.web.request import Call, Reply

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Action = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Content:
    """A body: its media types, each with a schema: a msgspec type that has one, or a JSON schema with types in it."""

    types: Mapping[str, Any]
    required: bool = True
    doc: str = ""


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """An answer of a route; `headers` describes its headers by name."""

    status: int
    doc: str
    content: Content | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Operation:
    """A route. `path` names its parameters in braces; `error_statuses` are the errors that are its own.

    Unless it only `reads`, web pages of other origins may not send it. `under_any_name`: served for any `Host`.
    `listed`: part of the OpenAPI document.
    """

    method: Method
    path: str
    name: str
    summary: str
    handle: Action
    tag: str
    answers: tuple[ResponseSpec, ...]
    parameters: tuple[Parameter, ...] = ()
    body: Content | None = None
    error_statuses: tuple[int, ...] = ()
    doc: str = ""
    reads: bool = False
    under_any_name: bool = False
    listed: bool = True

    def __post_init__(self) -> None:
        if self.reads and self.method != "GET":
            raise ValueError(f"{self.method} {self.path} cannot be one that only reads")


PATH_KINDS: Final[Mapping[str, tuple[Kind, str]]] = {
    "topic": (Text(249, "[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,247}[A-Za-z0-9_-])?"), "The topic's name."),
    "partition": (Whole(0, 2**31 - 1), "The number of a partition, from 0."),
    "cluster": (Text(255), "The id of the cluster, as `GET /v3/clusters` names it."),
    "broker": (Whole(0, 2**31 - 1), "The id of the broker."),
    "config": (Text(249), "The name of a setting."),
    "group": (Text(255), "The name of the consumer group: 1 to 255 bytes of UTF-8."),
    "instance": (Text(255), "The name of the consumer instance: 1 to 255 bytes of UTF-8."),
    "transaction": (Text(512), "The id of the transaction, as `POST /transactions` answered it."),
    "consumer": (Text(255), "The id of the member: of an instance its name."),
}
