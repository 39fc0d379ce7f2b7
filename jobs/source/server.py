"""A server's topics over HTTP: descriptions, and records as Arrow. Knows routes, and not how requests are retried.

Every request here can be repeated: reads change nothing, stored requests are numbered, and a transaction begins and
ends only once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx
import pyarrow as pa

from delta_log.fetch.fetch_result import between
from jobs.source.errors import NotReadable
from jobs.source.planning import TopicView
from jobs.source.positions import Range
from jobs.source.rest_client import ARROW, BROKEN_OFF, Asking, NotNow

_NDJSON: Final = "application/x-ndjson"
_RECORDS: Final = 1_000_000
_BYTES: Final = 16 * 1024 * 1024
#: Maximum number of partitions whose end offsets the server returns in one answer.
_MOST_AT_ONCE: Final = 1_000
_TIMEOUT_REFUSED: Final = 42208
DECIDED: Final = 40918
_LONGEST_MS: Final = 2**63 - 1


class Numbered(NamedTuple):
    """Producer of a request, and the sequence number of its first record in the topic: a repeat is stored once."""

    producer_id: str
    sequence: int
    epoch: int = 0


class Part(NamedTuple):
    """A part of a transaction, stored if the commit names its stage; without a stage it is always stored."""

    transaction: str
    epoch: int
    stage: str = ""


class Server:
    """A server's topics; for one thread at a time."""

    def __init__(self, url: str, patience_ms: int) -> None:
        self.url = url
        self._asking = Asking(url, patience_ms)

    def close(self) -> None:
        self._asking.close()

    def cluster_id(self) -> str:
        return str(self._json("its cluster", "/v3/clusters")["data"][0]["cluster_id"])

    def topics(self) -> list[str]:
        return list(self._json("its topics", "/topics"))

    def describe(self, topic: str) -> TopicView:
        answer = self._asking.get(f"topic {topic}", _of(topic), {}, "application/json", topic)
        found = answer.json()
        kind = found["configs"].get("message.timestamp.type", "CreateTime")
        return TopicView(len(found["partitions"]), int(kind == "LogAppendTime"), answer.headers.get("Lakelog-Topic-Id"))

    def range(self, topic: str, partition: int) -> Range:
        found = self._offsets(topic, partition, {})
        return Range(found["beginning_offset"], found["end_offset"])

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        found = self._offsets(topic, partition, {"timestamp": time_ms})["offset"]
        return None if found is None else int(found)

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        """Return the end offset of every partition, by one request if possible."""
        if partitions > _MOST_AT_ONCE:
            return {number: self.range(topic, number).end for number in range(partitions)}
        query = {"offset": "latest", "max_records": 1}
        answer = self._asking.get(f"the ends of {topic}", f"{_of(topic)}/records", query, _NDJSON, topic)
        places = (each.split(":") for each in answer.headers["Lakelog-Next-Offsets"].split(",") if each)
        return {int(number): int(offset) for number, offset in places}

    def read(
        self, topic: str, partition: int, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read records from `start` to below `end`, batch by batch; OutOfRange if the log begins later.

        The offset is the first of the columns. A broken answer is requested again from after the last record received.
        """
        position, heard = start, time.monotonic()
        what, path = f"records of {topic}-{partition}", f"{_of(topic)}/partitions/{partition}/records"
        while position < end:
            try:
                query = {"offset": position, "max_records": min(end - position, _RECORDS), "max_bytes": _BYTES}
                with self._asking.open(what, path, query, topic) as (said, batches):
                    behind = int(said["Lakelog-Next-Offset"])
                    if behind == position:
                        raise NotNow(f"it ends at {position}, and {end} was wanted")
                    for batch in batches:
                        kept = between(batch.select(list(columns)), position, end) if batch.num_rows else batch
                        if kept.num_rows:
                            yield kept
                            position, heard = int(kept.column(0)[-1].as_py()) + 1, time.monotonic()
                    if behind > position:
                        position, heard = behind, time.monotonic()
            except BROKEN_OFF as error:
                self._asking.wait(heard, what, error)

    def begin(self, name: str, version: int, stage: str) -> Part | None:
        """Begin a part of the transaction of a version, with the longest timeout that the server allows.

        None if the version, or a later one, is committed.
        """
        what = f"version {version} of {name}"
        asked = {"transactional_id": name, "version": version, "timeout_ms": _LONGEST_MS}
        try:
            try:
                begun = self._post(what, "/transactions", asked).json()
            except NotReadable as refused:
                if refused.code != _TIMEOUT_REFUSED:
                    raise
                begun = self._post(what, "/transactions", asked | {"timeout_ms": refused.facts["limit"]}).json()
        except NotReadable as refused:
            if refused.code != DECIDED:
                raise
            return None
        return Part(begun["id"], begun["epoch"], stage)

    def commit(self, transaction: str, stages: Sequence[str]) -> None:
        """Commit the named stages of a transaction; a repeat changes nothing: the stages named first count."""
        self._post(f"transaction {transaction}", f"/transactions/{transaction}/commit", {"stages": list(stages)})

    def abort(self, transaction: str) -> None:
        self._post(f"transaction {transaction}", f"/transactions/{transaction}/abort", None)

    def append(self, topic: str, rows: pa.RecordBatch, numbered: Numbered, part: Part | None = None) -> dict[int, int]:
        """Store rows, exactly once despite retries. They are durable when it returns.

        As a part of a transaction they are kept until it ends. Returns the offset after the last of them in each
        partition, as far as known.
        """
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, rows.schema) as stream:
            stream.write_batch(rows)
        headers = {
            "Content-Type": ARROW,
            "Producer-Id": numbered.producer_id,
            "Producer-Epoch": str(numbered.epoch),
            "Producer-Seq": str(numbered.sequence),
        }
        if part is not None:
            headers |= {"Transaction-Id": part.transaction} | ({"Transaction-Stage": part.stage} if part.stage else {})
        content = body.getvalue().to_pybytes()
        answer = self._asking.post(f"rows for {topic}", _of(topic), content, headers, topic)
        ranges = answer.json()["ranges"] or ()
        return {each["partition"]: each["base_offset"] + each["count"] for each in ranges}

    def _post(self, what: str, path: str, asked: Mapping[str, Any] | None) -> httpx.Response:
        content = b"" if asked is None else json.dumps(asked).encode()
        return self._asking.post(what, path, content, {"Content-Type": "application/json"}, "")

    def _offsets(self, topic: str, partition: int, query: Mapping[str, int]) -> Any:
        what = f"the offsets of {topic}-{partition}"
        return self._json(what, f"{_of(topic)}/partitions/{partition}/offsets", query, topic)

    def _json(self, what: str, path: str, query: Mapping[str, int] | None = None, topic: str = "") -> Any:
        return self._asking.get(what, path, query or {}, "application/json", topic).json()


def _of(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"
