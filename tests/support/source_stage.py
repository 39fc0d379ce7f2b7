"""A real server for the tests of the data source: what is written to it, and what it says itself is in it."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from delta_log import LogReader
from tests.support.serving import Server, wait_for

JSON = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
Row = dict[str, Any]


class Stage:
    """One server, and its root."""

    def __init__(self, server: Server, root: Path) -> None:
        self.url = server.url
        self.path = str(root)
        self.client = httpx.Client(base_url=server.url)

    @property
    def grounds(self) -> dict[str, dict[str, str]]:
        """By what a source can read the same."""
        path, server = {"path": self.path}, {"server": self.url}
        return {"tables": path, "server": server, "both": path | server}

    def create(self, topic: str, partitions: int, **configs: Any) -> None:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        self.client.put(f"/topics/{topic}", json={"partitions": partitions, "configs": settings}).raise_for_status()

    def write(self, topic: str, records: Iterable[Row], *, wait: bool = True) -> None:
        """Records with `key`, `value`, `partition`, `timestamp`, `headers`; bytes are bytes."""
        body = {"records": [_encoded(record) for record in records]}
        query = {"wait": "table"} if wait else {}
        self.client.post(f"/topics/{topic}", params=query, json=body, headers=JSON).raise_for_status()

    def fill(self, topic: str, count: int, *, partitions: int = 1, first: int = 0, wait: bool = True) -> None:
        """Numbered values, by turns to each partition."""
        records = [{"value": b"%d" % n, "partition": n % partitions} for n in range(first, first + count)]
        self.write(topic, records, wait=wait)

    def read(self, topic: str, partition: int, end: int | None = None) -> list[Row]:
        """All that the server gives of a partition, up to an end, as the columns of the source."""
        found: list[Row] = []
        where: Any = "earliest"
        while end is None or not found or found[-1]["offset"] + 1 < end:
            answer = self.client.get(
                f"/topics/{topic}/partitions/{partition}/records",
                params={"offset": where, "decode": "base64"},
                headers={"Accept": "application/vnd.kafka.binary.v2+json"},
            )
            answer.raise_for_status()
            rows = [_row(topic, record) for record in answer.json()]
            if not rows:
                break
            found += rows
            where = answer.headers["Lakelog-Next-Offset"]
        return [row for row in found if end is None or row["offset"] < end]

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        path = f"/topics/{topic}/partitions/{partition}/records:delete"
        self.client.post(path, json={"before_offset": before}).raise_for_status()

    def wait_for_fold(self, topic: str, partition: int) -> None:
        """Until the server has folded files of a partition into one."""
        with LogReader.open(self.path) as reader:
            wait_for(lambda: any("-fold-" in file.path for file in reader.files(topic, partition)), "a fold")

    def close(self) -> None:
        self.client.close()


@contextmanager
def writing_on(write: Callable[[int], None]) -> Generator[Callable[[], object]]:
    """Somebody who goes on writing: `write` is called with 0, 1, 2 and so on, until the block ends.

    Once it was before the block begins. The block is given what waits until it was again, from beginning to end.
    """
    enough, written = threading.Event(), 0
    failed: list[BaseException] = []

    def run() -> None:
        nonlocal written
        try:
            while not enough.wait(0.01):
                write(written)
                written += 1
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    def more(times: int = 2) -> object:
        before = written
        return wait_for(lambda: written >= before + times or failed, "that somebody writes")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        more(1)
        yield more
    finally:
        enough.set()
        thread.join()
    assert not failed, failed


def _encoded(record: Row) -> Row:
    encoded = dict(record)
    for name in ("key", "value"):
        if encoded.get(name) is not None:
            encoded[name] = base64.b64encode(encoded[name]).decode()
    if "headers" in encoded:
        encoded["headers"] = [
            {"name": name, "value": None if value is None else base64.b64encode(value).decode()}
            for name, value in encoded["headers"]
        ]
    return encoded


def _row(topic: str, record: Row) -> Row:
    return {
        "key": _decoded(record["key"]),
        "value": _decoded(record["value"]),
        "topic": topic,
        "partition": record["partition"],
        "offset": record["offset"],
        "timestamp": record["timestamp"],
        "timestampType": 0,
        "headers": [(header["name"], _decoded(header["value"])) for header in record["headers"]],
    }


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
