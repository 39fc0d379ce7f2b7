"""What a task of a write hands to a server is stored once, however often it must be sent. Without a JVM."""

import json
import random

import httpx
import pyarrow as pa
import pytest

from jobs.source import staging
from jobs.source.errors import UnknownTopics
from jobs.source.options import WriteOptions
from jobs.source.staging import stage
from tests.support.cutting_proxy import CuttingProxy
from tests.support.serving import serving


def values(start: int, end: int, size: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"%d" % n + b" " * size for n in range(start, end)]})


def stored(url: str, topic: str) -> list[int]:
    answer = httpx.get(f"{url}/topics/{topic}/partitions/0/records", params={"max_bytes": 1 << 26})
    answer.raise_for_status()
    return [json.loads(line)["value"] for line in answer.text.splitlines()]


def test_rows_are_stored_once_and_in_order_through_lost_answers_and_cut_requests():
    with serving(None) as server, CuttingProxy(random.Random(3)) as proxy:
        httpx.put(f"{server.url}/topics/t").raise_for_status()
        proxy.target = server.address
        proxy.trouble = {"cut the request": 0.2, "lose the answer": 0.3, "spoil the answer": 0.1}
        batches = [values(first, first + 50, 1000) for first in range(0, 1000, 50)]
        staged = stage(iter(batches), WriteOptions(proxy.url, "t", 60_000))
        assert proxy.happened["lose the answer"] >= 2
        assert stored(server.url, "t") == list(range(1000))
    assert staged.rows == {"t": 1000}


def test_tasks_of_one_process_are_one_producer_until_one_of_them_fails():
    """A stream of many small batches leaves no trail of producers, and nobody uses numbers that may be taken."""
    with serving(None) as server:
        httpx.put(f"{server.url}/topics/t").raise_for_status()
        options = WriteOptions(server.url, "t", 60_000)
        stage([values(0, 3)], options)
        first = staging._PRODUCERS[server.url]
        stage([values(3, 5)], options)
        assert staging._PRODUCERS[server.url] is first
        with pytest.raises(UnknownTopics):
            stage([values(0, 1)], WriteOptions(server.url, "missing", 60_000))
        assert server.url not in staging._PRODUCERS
        stage([values(5, 6)], options)
        assert stored(server.url, "t") == list(range(6))
