"""A server's topics over HTTP: what there is, and records as Arrow. Knows httpx, and when to ask once more.

A question is repeated while the server does not answer, or refuses for the time being, and nothing has come for less
than the patience of the query. Every question here may be repeated: reading changes nothing, and what is stored is
numbered.
"""

from __future__ import annotations

import io
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx
import pyarrow as pa

from delta_log.fetched import between
from jobs.source.errors import NotReadable, UnknownPartition, UnknownTopics
from jobs.source.positions import Range

ARROW: Final = "application/vnd.apache.arrow.stream"
_NDJSON: Final = "application/x-ndjson"
_RECORDS: Final = 1_000_000
_BYTES: Final = 16 * 1024 * 1024
_PAUSE_S: Final = 0.2
_SLOW_S: Final = 30.0
#: Of more partitions the server does not tell where all of them end at once.
_MOST_AT_ONCE: Final = 1_000
_LATER: Final = frozenset({408, 429, 500, 502, 503, 504})
_OUT_OF_RANGE: Final = 416
_NOT_FOUND: Final = 404
_UNKNOWN_PARTITION: Final = 40402
_OK: Final = 200


class OutOfRange(Exception):
    """A position that is no more, or not yet, in the log: and what is."""

    def __init__(self, there: Range) -> None:
        self.there = there
        super().__init__(f"the log holds {there.start} to {there.end}")


class TopicView(NamedTuple):
    partitions: int
    timestamp_type: int


class Numbered(NamedTuple):
    """Who sends a request, and the number of its first record in the topic: repeated, it is stored once."""

    producer_id: str
    sequence: int


class Server:
    """One at a time may ask."""

    def __init__(self, url: str, patience_ms: int) -> None:
        self.url = url
        self._patience_s = patience_ms / 1000
        # Where nothing is encrypted nobody's certificates need be read, which takes longer than a request.
        self._client = httpx.Client(
            base_url=url,
            timeout=min(_SLOW_S, self._patience_s),
            headers={"Accept-Encoding": "identity"},
            verify=url.lower().startswith("https:"),
        )

    def close(self) -> None:
        self._client.close()

    def cluster_id(self) -> str:
        return str(self._json("its cluster", "/v3/clusters")["data"][0]["cluster_id"])

    def topics(self) -> list[str]:
        return list(self._json("its topics", "/topics"))

    def describe(self, topic: str) -> TopicView:
        found = self._json(f"topic {topic}", f"/topics/{quote(topic, safe='')}", topic=topic)
        kind = found["configs"].get("message.timestamp.type", "CreateTime")
        return TopicView(len(found["partitions"]), int(kind == "LogAppendTime"))

    def range(self, topic: str, partition: int) -> Range:
        found = self._offsets(topic, partition, {})
        return Range(found["beginning_offset"], found["end_offset"])

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        found = self._offsets(topic, partition, {"timestamp": time_ms})["offset"]
        return None if found is None else int(found)

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        """Where every partition ends, by one question if that is possible."""
        if partitions > _MOST_AT_ONCE:
            return {number: self.range(topic, number).end for number in range(partitions)}
        query = {"offset": "latest", "max_records": 1}
        answer = self._ask(f"the ends of {topic}", f"{_of(topic)}/records", query, _NDJSON, topic)
        places = (each.split(":") for each in answer.headers["Lakelog-Next-Offsets"].split(",") if each)
        return {int(number): int(offset) for number, offset in places}

    def read(
        self, topic: str, partition: int, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Records from `start` to below `end`, batch by batch; OutOfRange where the log begins later.

        The offset is the first of the columns. What breaks off is asked for again, from behind what came.
        """
        position, heard = start, time.monotonic()
        what = f"records of {topic}-{partition}"
        while position < end:
            try:
                with self._open(topic, partition, position, end - position) as (behind, batches):
                    for batch in batches:
                        kept = between(batch.select(list(columns)), position, end) if batch.num_rows else batch
                        if kept.num_rows:
                            yield kept
                            position, heard = int(kept.column(0)[-1].as_py()) + 1, time.monotonic()
                    if behind > position:
                        position, heard = behind, time.monotonic()
            except (_NotNow, httpx.TransportError, httpx.StreamError, pa.ArrowInvalid) as error:
                self._wait(heard, what, error)

    @contextmanager
    def _open(
        self, topic: str, partition: int, offset: int, most: int
    ) -> Generator[tuple[int, Iterator[pa.RecordBatch]]]:
        """An answer that is read as it comes, never in memory as a whole; and the offset behind it."""
        query = {"offset": offset, "max_records": min(most, _RECORDS), "max_bytes": _BYTES}
        path = f"{_of(topic)}/partitions/{partition}/records"
        with self._client.stream("GET", path, params=query, headers={"Accept": ARROW}) as answer:
            if answer.status_code != _OK:
                answer.read()
                self._check(answer, f"records of {topic}-{partition}", topic)
            behind = int(answer.headers["Lakelog-Next-Offset"])
            if behind == offset:
                raise _NotNow(f"it ends at {offset}, and {offset + most} was wanted")
            with io.BufferedReader(_Body(answer.iter_bytes())) as body, pa.ipc.open_stream(body) as reader:
                yield behind, iter(reader)

    def append(self, topic: str, rows: pa.RecordBatch, numbered: Numbered) -> None:
        """Have rows stored, once however often it takes to be told so. They are durable when it returns."""
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, rows.schema) as stream:
            stream.write_batch(rows)
        headers = {
            "Content-Type": ARROW,
            "Producer-Id": numbered.producer_id,
            "Producer-Epoch": "0",
            "Producer-Seq": str(numbered.sequence),
        }
        what, content, heard = f"rows for {topic}", body.getvalue().to_pybytes(), time.monotonic()
        while True:
            try:
                self._check(self._client.post(_of(topic), content=content, headers=headers), what, topic)
            except (_NotNow, httpx.TransportError) as error:
                self._wait(heard, what, error)
            else:
                return

    def _offsets(self, topic: str, partition: int, query: Mapping[str, int]) -> Any:
        what = f"the offsets of {topic}-{partition}"
        return self._json(what, f"{_of(topic)}/partitions/{partition}/offsets", query, topic)

    def _json(self, what: str, path: str, query: Mapping[str, int] | None = None, topic: str = "") -> Any:
        return self._ask(what, path, query or {}, "application/json", topic).json()

    def _ask(self, what: str, path: str, query: Mapping[str, Any], accept: str, topic: str) -> httpx.Response:
        heard = time.monotonic()
        while True:
            try:
                answer = self._client.get(path, params=dict(query), headers={"Accept": accept})
                self._check(answer, what, topic)
            except (_NotNow, httpx.TransportError) as error:
                self._wait(heard, what, error)
            else:
                return answer

    def _check(self, answer: httpx.Response, what: str, topic: str) -> None:
        if answer.status_code == _OK:
            return
        if answer.status_code in _LATER:
            raise _NotNow(_message(answer))
        if answer.status_code == _OUT_OF_RANGE:
            found = answer.json()
            raise OutOfRange(Range(found["log_start_offset"], found["end_offset"]))
        if answer.status_code == _NOT_FOUND and topic:
            if answer.json()["error_code"] == _UNKNOWN_PARTITION:
                raise UnknownPartition(topic, self.url, _message(answer))
            raise UnknownTopics([topic], self.url)
        raise NotReadable(self.url, what, f"{answer.status_code} {_message(answer)}")

    def _wait(self, heard: float, what: str, why: Exception) -> None:
        if time.monotonic() - heard >= self._patience_s:
            raise NotReadable(self.url, what, str(why) or type(why).__name__) from why
        time.sleep(_PAUSE_S)


class _NotNow(Exception):
    """Ask again a little later."""


def _of(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]


class _Body(io.RawIOBase):
    """The bytes of an answer as a file."""

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
