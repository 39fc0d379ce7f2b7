"""Requests of the dead-letter commands: letters as stored, and letters that no replay has sent yet."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Generator, Iterator
from typing import Any, Final, Self
from urllib.parse import quote

import msgspec

from lakelog.cli.dlq.letters import REPLAYS, Letter, Polled, as_record, read_letter
from lakelog.cli.kit.clients import CLIENT_ID
from lakelog.foundation.errors import LakelogError, OutcomeUnknown
from lakelog.topics.settings import AdminSettings
from lakelog.transport.exchange import Request
from lakelog.transport.http import HttpTransport
from lakelog.transport.retry import Patience, Question, Rejected, Succeeded, ask, run

_V2: Final = "application/vnd.kafka.v2+json"
_BINARY: Final = "application/vnd.kafka.binary.v2+json"
_AT_ONCE: Final = 500
_LEAVING: Final = "leaving the group of replays"
#: How long leaving the group may take after a failure.
_LAST_S: Final = 1.0
_SETTINGS: Final = {"client.id": CLIENT_ID, "retries": 3, "default.api.timeout.ms": 15_000}

_read = msgspec.json.Decoder(list[Polled]).decode


class Place(msgspec.Struct):
    partition: int
    offset: int | None


class _Stored(msgspec.Struct):
    offsets: list[Place]


class Letters:
    """Requests about a dead-letter topic of a server."""

    def __init__(self, server: str, topic: str) -> None:
        settings = AdminSettings.of({"bootstrap.servers": server, **_SETTINGS})
        self._patience = settings.patience
        self._transport = HttpTransport(settings.bootstrap_servers, settings.client_id, 1)
        self._topic = topic

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def lying(self, partition: int, begin: int, end: int) -> Iterator[Letter]:
        """Letters in a range of offsets of a partition."""
        path = f"/topics/{quote(self._topic, safe='')}/partitions/{partition}/records"
        while begin < end:
            asked = Request("GET", f"{path}?offset={begin}&max_records={_AT_ONCE}", {"Accept": _BINARY})
            answer = self._ask("reading letters", asked).answer
            for record in _read(answer.body):
                if record.offset < end:
                    yield read_letter(record)
            begin = max(begin + 1, int(answer.headers["lakelog-next-offset"]))

    @contextlib.contextmanager
    def replaying(self, to: str, partitions: int) -> Generator[Replay]:
        """Replay as a member of a group that marks each letter sent to that topic as done, and never reads it again."""
        group = _name(self._topic, to)
        options = {
            "name": uuid.uuid4().hex,
            "format": "binary",
            "auto.commit.enable": False,
            "session.timeout.ms": 60_000,
            "dead.letter.topic": self._topic,
            "max.delivery.attempts": -1,
        }
        path = f"/consumers/{quote(group, safe='')}"
        self._post("joining the group of replays", path, options)
        path = f"{path}/instances/{options['name']}"
        try:
            places = [{"topic": self._topic, "partition": number} for number in range(partitions)]
            self._post("asking for the letters", f"{path}/assignments", {"partitions": places})
            yield Replay(self, path, to)
        except BaseException:
            # The first error counts; a member that fails to leave expires with its session.
            with contextlib.suppress(LakelogError):
                self._ask(
                    _LEAVING, Request("DELETE", path), self._patience._replace(total_s=_LAST_S, request_s=_LAST_S)
                )
            raise
        self._ask(_LEAVING, Request("DELETE", path))

    def poll(self, path: str) -> list[Letter]:
        """Next letters of a replay; none at the end."""
        asked = Request("GET", f"{path}/records?timeout=0&max_records={_AT_ONCE}")
        return [read_letter(record) for record in _read(self._ask("reading letters", asked).answer.body)]

    def send(self, letter: Letter, to: str, partition: int | None) -> Place:
        """Send a letter, with a producer id made of its place: if it is sent again, it is stored once."""
        record = letter.record
        numbers = {
            "Producer-Id": _name(self._topic, record.partition, record.offset, record.timestamp),
            "Producer-Epoch": "0",
            "Producer-Seq": "0",
        }
        body = msgspec.json.encode({"records": [as_record(letter, partition)]})
        asked = Request("POST", f"/topics/{quote(to, safe='')}", {"Content-Type": _BINARY, **numbers}, body)
        answer = self._ask("sending a letter", asked).answer
        return msgspec.json.decode(answer.body, type=_Stored).offsets[0]

    def passed(self, path: str, letter: Letter) -> None:
        record = {"topic": self._topic, "partition": letter.record.partition, "offset": letter.record.offset}
        self._post("noting what was sent", f"{path}/dead-letters", {"records": [{**record, "reason": "replayed"}]})

    def _post(self, what: str, path: str, body: object) -> Succeeded:
        return self._ask(what, Request("POST", path, {"Content-Type": _V2}, msgspec.json.encode(body)))

    def _ask(self, what: str, request: Request, patience: Patience | None = None) -> Succeeded:
        try:
            return run(ask(Question(what, request), patience or self._patience), self._transport)
        except Rejected as declined:
            raise declined.fault.error from None


def _name(*parts: object) -> str:
    """Unique name for these parts, hashed because a topic's name may be as long as the result may be."""
    said = "/".join(map(str, parts))
    return f"{REPLAYS}{parts[0]!s:.100}/{hashlib.sha256(said.encode()).hexdigest()[:40]}"


class Replay:
    """Letters that were not sent to `to` yet."""

    def __init__(self, letters: Letters, path: str, to: str) -> None:
        self._letters = letters
        self._path = path
        self._to = to

    def __iter__(self) -> Iterator[Letter]:
        while found := self._letters.poll(self._path):
            yield from found

    def send(self, letter: Letter, partition: int | None) -> Any:
        """Store a letter, then mark it as sent: after a crash in between it is sent again, and stored once."""
        place = self._letters.send(letter, self._to, partition)
        try:
            self._letters.passed(self._path, letter)
        except LakelogError as error:
            raise OutcomeUnknown("noting that a letter was sent", error) from None
        return place
