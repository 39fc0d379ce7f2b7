"""Consumer groups over HTTP, as jobs need them: committed offsets, and a member that commits.

    Groups(url)                          committed offsets and members of a group
    Groups(url).member(group, name)      one instance: joins, sends heartbeats, commits, leaves

A request is retried while the server does not answer, or refuses temporarily. All of them can be: offsets are given
explicitly, and a fenced member stays fenced. Knows httpx; not when a request is made.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx

from delta_log.model.errors import InvalidRequest, NotAvailable
from jobs.foundation.addresses import client_options
from jobs.source.positions import Positions, TopicPartition
from jobs.source.rest_client import LATER, PAUSE_S, SLOW_S, message_of

__all__ = ["NOT_THERE", "Beat", "Fenced", "Groups", "Instance", "Other", "cut_entries"]

_JSON: Final = "application/vnd.kafka.v2+json"
_PATIENCE_S: Final = 120.0
_LEAVE_WITHIN_S: Final = 3.0
_BAD: Final = 400
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_UNPROCESSABLE: Final = 422
_NAME_TAKEN: Final = 40902
_GONE: Final = 40403
_STALE: Final = 40904
#: Error codes of a missing topic or partition. A member that has read it has lost it.
NOT_THERE: Final = frozenset({40401, 40402})
#: Maximum number of offsets in one commit request.
_MOST_COMMITTED: Final = 10_000


class Fenced(Exception):
    """The group does not know the member any more, or a partition has had another owner since, or is gone."""


class Beat(NamedTuple):
    """Answer to a heartbeat: partitions that the member may read, with their generation, and those to give up."""

    generation: int
    assigned: frozenset[TopicPartition]
    revoking: frozenset[TopicPartition]
    since: Mapping[TopicPartition, int]


class Other(NamedTuple):
    """Another member of the group."""

    name: str
    partitions: tuple[TopicPartition, ...]


class Groups:
    """Client of groups. `patience_s`: how long it retries a server that does not answer. Thread-safe."""

    def __init__(self, url: str, patience_s: float = _PATIENCE_S) -> None:
        self.url = url
        self._patience_s = patience_s
        self._client = httpx.Client(**client_options(url), timeout=min(SLOW_S, patience_s))

    def close(self) -> None:
        self._client.close()

    def committed(self, group: str) -> Positions:
        """Committed offset of each partition; nothing for a group that does not exist."""
        answer = self.ask("GET", f"/groups/{_quoted(group)}/offsets", fine=(_NOT_FOUND,))
        if answer.status_code == _NOT_FOUND:
            return {}
        return {
            TopicPartition(each["topic"], each["partition"]): each["next_offset"] for each in answer.json()["offsets"]
        }

    def commit(self, group: str, offsets: Positions) -> None:
        """Commit offsets of a group without readers; Fenced if it has one."""
        for entries in cut_entries(offsets):
            self.ask("PUT", f"/groups/{_quoted(group)}/offsets", {"offsets": entries})

    def readers(self, group: str) -> list[Other]:
        """Members of the group that are subscribed."""
        answer = self.ask("GET", f"/groups/{_quoted(group)}", fine=(_NOT_FOUND,))
        if answer.status_code == _NOT_FOUND:
            return []
        return [
            Other(each["instance_id"], tuple(_partitions([*each["assigned"], *each["revoking"]])))
            for each in answer.json()["members"]
            if each["topics"] or each["topic_pattern"] is not None
        ]

    def is_moving(self, group: str) -> bool:
        """Return whether a rebalance is in progress."""
        answer = self.ask("GET", f"/groups/{_quoted(group)}", fine=(_NOT_FOUND,))
        return answer.status_code != _NOT_FOUND and answer.json()["state"] == "Reconciling"

    def member(self, group: str, name: str) -> Instance:
        return Instance(self, group, name)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        generation: int | None = None,
        fine: Sequence[int] = (),
        fenced: Collection[int] = (),
        patience_s: float | None = None,
    ) -> httpx.Response:
        """Send a request; returns a success or a status in `fine`. Error codes in `fenced` raise Fenced, too."""
        patience_s = self._patience_s if patience_s is None else patience_s
        headers = {} if generation is None else {"Lakelog-Generation": str(generation)}
        if path.startswith("/consumers/"):
            headers["Content-Type"] = _JSON
        began = time.monotonic()
        while True:
            try:
                answer = self._client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
            else:
                if answer.is_success or answer.status_code in fine:
                    return answer
                if answer.status_code not in LATER:
                    raise _refusal(answer, fenced)
                why = _message(answer)
            if time.monotonic() - began >= patience_s:
                raise NotAvailable(f"{method} {path} of {self.url}: {why}")
            time.sleep(PAUSE_S)


class Instance:
    """A member of a group, by the routes of consumer instances. Methods raise Fenced once it is no longer a member."""

    def __init__(self, groups: Groups, group: str, name: str) -> None:
        self.group, self.name = group, name
        self._groups = groups
        self._path = f"/consumers/{_quoted(group)}/instances/{_quoted(name)}"

    def join(self, options: Mapping[str, object], subscription: Mapping[str, object]) -> None:
        """Join and subscribe. The name must be new: if it is taken, an earlier try whose answer was lost succeeded."""
        path = f"/consumers/{_quoted(self.group)}"
        answer = self._groups.ask("POST", path, {**options, "name": self.name}, fine=(_CONFLICT,))
        if answer.status_code == _CONFLICT and answer.json()["error_code"] != _NAME_TAKEN:
            raise _refusal(answer)
        self._groups.ask("POST", f"{self._path}/subscription", subscription)

    def beat(self, held: Iterable[TopicPartition]) -> Beat:
        """Send a heartbeat; revoked partitions that are not `held` move to other members."""
        owned = [each._asdict() for each in held]
        told = self._groups.ask("POST", f"{self._path}/heartbeat", {"owned": owned}).json()
        since = {
            TopicPartition(topic, int(number)): generation
            for topic, of in told["since"].items()
            for number, generation in of.items()
        }
        assigned, revoking = (frozenset(_partitions(told[name])) for name in ("assigned", "revoking"))
        return Beat(told["generation"], assigned, revoking, since)

    def commit(self, offsets: Positions, generation: int) -> None:
        """Commit; Fenced if a partition is gone, or has had another owner since the generation.

        A request is stored as a whole or not at all. It gives up no partition.
        """
        path = f"{self._path}/offsets?keep=true"
        for entries in cut_entries(offsets):
            self._groups.ask("POST", path, {"offsets": entries}, generation=generation, fenced=NOT_THERE)

    def leave(self) -> None:
        """Leave the group; if that does not succeed soon, the session expires."""
        with contextlib.suppress(NotAvailable, Fenced):
            self._groups.ask("DELETE", self._path, fine=(_NOT_FOUND,), patience_s=_LEAVE_WITHIN_S)


def cut_entries(offsets: Positions) -> Iterable[list[Mapping[str, Any]]]:
    """Cut offsets into lists for one commit request each."""
    entries: list[Mapping[str, Any]] = [
        {"topic": of.topic, "partition": of.partition, "next_offset": at} for of, at in offsets.items()
    ]
    return (entries[at : at + _MOST_COMMITTED] for at in range(0, len(entries), _MOST_COMMITTED))


def _refusal(answer: httpx.Response, fenced: Collection[int] = ()) -> Exception:
    what = _message(answer)
    try:
        code = answer.json()["error_code"]
    except (ValueError, KeyError, TypeError):
        code = answer.status_code
    if code in {_GONE, _STALE, *fenced} or answer.status_code == _CONFLICT:
        return Fenced(what)
    if _NOT_FOUND <= answer.status_code <= _UNPROCESSABLE or answer.status_code == _BAD:
        return InvalidRequest(what)
    return NotAvailable(f"{answer.request.method} {answer.request.url}: {answer.status_code} {what}")


def _message(answer: httpx.Response) -> str:
    return message_of(answer) or str(answer.status_code)


def _partitions(shown: Iterable[Mapping[str, Any]]) -> Iterable[TopicPartition]:
    return (TopicPartition(each["topic"], each["partition"]) for each in shown)


def _quoted(name: str) -> str:
    return quote(name, safe="")
