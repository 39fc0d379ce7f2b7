"""HTTP client of a server: retries of requests, and errors for its refusals. Knows httpx, and no topic.

A request is retried while the server does not answer, or refuses temporarily, until nothing has been received for the
patience of the query. `what` names the request in messages.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

import httpx
import pyarrow as pa

from delta_log.model.schema import FILE_SCHEMA, RECORD_COLUMNS
from jobs.foundation.addresses import client_options
from jobs.source.errors import NotReadable, UnknownPartition, UnknownTopics
from jobs.source.positions import Range
from lakelog.foundation.arrow_stream import ArrowStream, Coming, Limits, Readable
from lakelog.foundation.arrow_types import ArrowRefused

ARROW: Final = "application/vnd.apache.arrow.stream"
#: Pause between two tries, and timeout of one.
PAUSE_S: Final = 0.2
SLOW_S: Final = 30.0
#: Statuses of a temporary refusal.
LATER: Final = frozenset({408, 429, 500, 502, 503, 504})
_OUT_OF_RANGE: Final = 416
_NOT_FOUND: Final = 404
_UNKNOWN_PARTITION: Final = 40402
_UNKNOWN_TRANSACTION: Final = 40405
_OK: Final = 200
_ACCEPTED: Final = 202
#: Schema of a server's answer in Arrow, which it never compresses. Of the whole stream only the time is limited.
_RECORDS: Final = pa.schema([pa.field("partition", pa.int32()), *(FILE_SCHEMA.field(name) for name in RECORD_COLUMNS)])
_LIMITS: Final = Limits(bytes=0, batches=1_000_000, nulls=0)
_SHOWN: Final = 300


class OutOfRange(Exception):
    """A position is no longer, or not yet, in the log; `there` is the range of the log."""

    def __init__(self, there: Range) -> None:
        self.there = there
        super().__init__(f"the log holds {there.start} to {there.end}")


class NotNow(Exception):
    """Temporary refusal: retry later."""


#: Errors after which a request is retried.
BROKEN_OFF: Final = (NotNow, httpx.TransportError, httpx.StreamError, pa.ArrowInvalid, ArrowRefused)


class Asking:
    """HTTP client for one thread at a time. `topic`: the one that a request is about, if any."""

    def __init__(self, url: str, patience_ms: int) -> None:
        self.url = url
        self._patience_s = patience_ms / 1000
        self._client = httpx.Client(
            **client_options(url), timeout=min(SLOW_S, self._patience_s), headers={"Accept-Encoding": "identity"}
        )

    def close(self) -> None:
        self._client.close()

    def get(self, what: str, path: str, query: Mapping[str, Any], accept: str, topic: str) -> httpx.Response:
        return self._ask(what, topic, lambda: self._client.get(path, params=dict(query), headers={"Accept": accept}))

    def post(self, what: str, path: str, content: bytes, headers: Mapping[str, str], topic: str) -> httpx.Response:
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        return self._ask(what, topic, lambda: self._client.post(path, content=content, headers=encoded))

    @contextmanager
    def open(
        self, what: str, path: str, query: Mapping[str, Any], topic: str
    ) -> Generator[tuple[httpx.Headers, Iterator[pa.RecordBatch]]]:
        """Open an answer in Arrow, without retries, streamed rather than held in memory."""
        with self._client.stream("GET", path, params=dict(query), headers={"Accept": ARROW}) as answer:
            if answer.status_code != _OK:
                answer.read()
                self._check(answer, what, topic)
            with io.BufferedReader(_Body(answer.iter_bytes())) as body:
                yield answer.headers, _records_of(body)

    def wait(self, heard: float, what: str, why: Exception) -> None:
        """Wait before the next try; NotReadable if nothing was received for too long."""
        if time.monotonic() - heard >= self._patience_s:
            raise NotReadable(self.url, what, str(why) or type(why).__name__) from why
        time.sleep(PAUSE_S)

    def _ask(self, what: str, topic: str, ask: Callable[[], httpx.Response]) -> httpx.Response:
        heard = time.monotonic()
        while True:
            try:
                answer = ask()
                self._check(answer, what, topic)
            except (NotNow, httpx.TransportError) as error:
                self.wait(heard, what, error)
            else:
                return answer

    def _check(self, answer: httpx.Response, what: str, topic: str) -> None:
        if answer.status_code in (_OK, _ACCEPTED):
            return
        if answer.status_code in LATER:
            raise NotNow(message_of(answer))
        if answer.status_code == _OUT_OF_RANGE:
            found = answer.json()
            raise OutOfRange(Range(found["log_start_offset"], found["end_offset"]))
        facts = _facts(answer)
        code = facts.get("error_code")
        if code == _UNKNOWN_PARTITION and topic:
            raise UnknownPartition(topic, self.url, message_of(answer))
        if answer.status_code == _NOT_FOUND and topic and code != _UNKNOWN_TRANSACTION:
            raise UnknownTopics([topic], self.url)
        raise NotReadable(self.url, what, f"{answer.status_code} {message_of(answer)}", answer.status_code, facts)


def _records_of(body: Readable) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an answer; refused unless its schema is that of records, before Arrow decodes it."""
    stream = ArrowStream(Coming(body), _LIMITS)
    if not stream.schema.equals(_RECORDS):
        raise ArrowRefused(f"has other columns than records have: {', '.join(map(str, stream.schema))[:_SHOWN]}")
    for batch in stream:
        batch.validate(full=True)
        if batch.column("offset").null_count:
            raise ArrowRefused("has records without an offset")
        yield batch


def _facts(answer: httpx.Response) -> dict[str, Any]:
    """Parse the error body of a server's answer; empty for an answer of an intermediary in another format."""
    try:
        found = answer.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def message_of(answer: httpx.Response) -> str:
    """Return the message of a refusal; else the start of its text."""
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


class _Body(io.RawIOBase):
    """Bytes of an answer as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(into), len(self._left))
        into[:size] = self._left[:size]
        self._left = self._left[size:]
        return size
