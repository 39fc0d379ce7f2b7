"""A dead-letter topic: created with its first letter; letters are sent in requests that fit its limits.

It knows a server. It must not know why a record is a letter, nor what else is stored with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from jobs.groups.dead_letters import Letter, as_rows, configs_for_letters, cut, without_value
from jobs.groups.group_client import Groups
from jobs.source.errors import NotReadable, UnknownTopics
from jobs.source.server import Numbered, Part, Server

__all__ = ["LetterTopic"]

_CONFLICT: Final = 409
_TOO_LARGE: Final = frozenset({413, 422})
#: A full transaction, which does not mean that the letter is too large.
_FULL: Final = 41301


class LetterTopic:
    """The topic `to`, for letters of a group."""

    def __init__(self, groups: Groups, server: Server, *, to: str, group: str) -> None:
        self.to = to
        self._groups = groups
        self._server = server
        self._group = group
        self._partitions = 0

    def look(self) -> int:
        """Return the number of partitions; 0 if the topic does not exist yet."""
        with suppress(UnknownTopics):
            self._partitions = self._server.describe(self.to).partitions
        return self._partitions

    def send(
        self, letters: Iterable[Letter], topic: str, numbered: Numbered, part: Part | None = None
    ) -> tuple[Numbered, dict[int, int]]:
        """Send letters of a topic; when it returns they are durable, or a part of the transaction.

        Returns the next sequence number, and, as far as known, the offset after the last letter of each partition.
        """
        behind: dict[int, int] = {}
        for some in cut(letters):
            if not self._partitions and not self.look():
                self._make(topic)
            numbered = self._send(some, topic, numbered, part, behind)
        return numbered, behind

    def _make(self, topic: str) -> None:
        """Create the topic; one that exists by now stays as it is."""
        found: Mapping[str, Any] = self._groups.ask("GET", _of(topic)).json()
        configs = configs_for_letters(int(found["configs"]["max.message.bytes"]))
        body = {"partitions": len(found["partitions"]), "configs": configs}
        self._groups.ask("PUT", _of(self.to), body, fine=(_CONFLICT,))
        self._partitions = self._server.describe(self.to).partitions

    def _send(
        self, letters: Sequence[Letter], topic: str, numbered: Numbered, part: Part | None, behind: dict[int, int]
    ) -> Numbered:
        """Send a request, in halves if too large. A refused one stored nothing; the next one reuses its numbers."""
        try:
            rows = as_rows(letters, topic, self._group, self._partitions)
            behind |= self._server.append(self.to, rows, numbered, part)
        except NotReadable as error:
            if error.status not in _TOO_LARGE or letters[0].left_out or error.code == _FULL:
                raise
            half = len(letters) // 2
            for some in (letters[:half], letters[half:]) if half else ([without_value(letters[0])],):
                numbered = self._send(some, topic, numbered, part, behind)
            return numbered
        return numbered._replace(sequence=numbered.sequence + len(letters))


def _of(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"
