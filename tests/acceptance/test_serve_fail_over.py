"""A server takes over the bucket of one that is suspended: its clients go on, and the former one serves nobody."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path

import httpx

from lakelog import Admin, Consumer, Producer
from tests.support.consumer_stage import read
from tests.support.s3_server import S3Server
from tests.support.serving import serving, wait_for


def values(server: str, wanted: int) -> list[bytes]:
    """In a group that goes on where it was."""
    settings = {"bootstrap.servers": server, "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        found = [record.value for record in read(consumer, wanted)]
        consumer.commit()
        return found


def produce(server: str, *numbers: int) -> None:
    with Producer({"bootstrap.servers": server}) as producer:
        for number in numbers:
            producer.send("orders", b"%d" % number)


def test_clients_of_a_replaced_server_are_refused_and_those_of_the_new_one_go_on(s3_server: S3Server, tmp_path: Path):
    config = tmp_path / "server.toml"
    pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in s3_server.options.items())
    config.write_text(f"store_option = {{ {pairs} }}\n")
    url = s3_server.root(f"served/{uuid.uuid4().hex}")
    with serving(url, config=config) as old:
        with Admin({"bootstrap.servers": old.url}) as admin:
            admin.create_topic("orders")
        produce(old.url, *range(10))
        assert values(old.url, 10) == [b"%d" % number for number in range(10)]
        produce(old.url, 10, 11)
        os.kill(old.pid, signal.SIGSTOP)
        try:
            with serving(url, config=config) as new:
                produce(new.url, 12, 13)
                assert values(new.url, 4) == [b"%d" % number for number in range(10, 14)]
                os.kill(old.pid, signal.SIGCONT)
                refused = httpx.post(f"{old.url}/topics/orders", json={"records": [{"value": "late"}]})
                assert refused.status_code in (404, 503), refused.text
                wait_for(lambda: httpx.get(f"{old.url}/readyz").status_code == 503, "the end of being ready")
                assert "no longer owns" in httpx.get(f"{old.url}/readyz").text
                for answer in (
                    httpx.get(f"{old.url}/topics/orders/partitions/0/records", params={"offset": 0}),
                    httpx.post(f"{old.url}/topics/orders", json={"records": [{"value": "late"}]}),
                ):
                    assert answer.status_code == 503, answer.text
                    assert "no longer owns" in answer.text
                assert httpx.get(f"{old.url}/healthz").status_code == 200
                produce(new.url, 14)
                assert values(new.url, 1) == [b"14"]
        finally:
            os.kill(old.pid, signal.SIGCONT)
        old.kill()
