"""A dead-letter topic: it is made when the first letter comes, and takes letters in requests that it has room for.

It knows a server. It must not know why a record is one, nor what else is stored with it.
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
#: That there is no more room in a transaction says nothing of the letter.
_FULL: Final = 41301


class LetterTopic:
    """Named `to`, for letters of a group."""

    def __init__(self, groups: Groups, server: Server, *, to: str, group: str) -> None:
        self.to = to
        self._groups = groups
        self._server = server
        self._group = group
        self._partitions = 0

    def look(self) -> int:
        """How many partitions it has; none where it is not there yet."""
        with suppress(UnknownTopics):
            self._partitions = self._server.describe(self.to).partitions
        return self._partitions

    def send(
        self, letters: Iterable[Letter], topic: str, numbered: Numbered, part: Part | None = None
    ) -> tuple[Numbered, dict[int, int]]:
        """Letters of a topic, which are durable, or a part of a transaction, when it returns.

        Answers the number behind them, and as far as is known the offset behind the last of them in each partition.
        """
        behind: dict[int, int] = {}
        for some in cut(letters):
            if not self._partitions and not self.look():
                self._make(topic)
            numbered = self._send(some, topic, numbered, part, behind)
        return numbered, behind

    def _make(self, topic: str) -> None:
        """One that is there by now stays as it is."""
        found: Mapping[str, Any] = self._groups.ask("GET", _of(topic)).json()
        configs = configs_for_letters(int(found["configs"]["max.message.bytes"]))
        body = {"partitions": len(found["partitions"]), "configs": configs}
        self._groups.ask("PUT", _of(self.to), body, fine=(_CONFLICT,))
        self._partitions = self._server.describe(self.to).partitions

    def _send(
        self, letters: Sequence[Letter], topic: str, numbered: Numbered, part: Part | None, behind: dict[int, int]
    ) -> Numbered:
        """A refused request has stored nothing, and its numbers are the next one's."""
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
