"""Clients that were written for other REST proxies work unchanged: their calls, made by curl with their media types."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.serving import Server, serving

V2 = "application/vnd.kafka.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
#: What curl prints behind a body.
_FACTS = '\n{"status":%{http_code},"type":"%{content_type}"}'


@dataclass
class Said:
    """What curl was answered."""

    status: int
    type: str
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Curl:
    """The program itself, which must be there."""

    def __init__(self, server: Server) -> None:
        found = shutil.which("curl")
        assert found is not None, "these tests need curl: install it"
        self._program = found
        self._url = server.url

    def __call__(self, path: str, *words: str) -> Said:
        command = [self._program, "--silent", "--show-error", "--max-time", "20", "--write-out", _FACTS, *words]
        ran = subprocess.run([*command, self._url + path], capture_output=True, text=True, timeout=30, check=False)
        assert ran.returncode == 0, ran.stderr
        text, _, facts = ran.stdout.rpartition("\n")
        return Said(json.loads(facts)["status"], json.loads(facts)["type"], text)

    @contextmanager
    def following(self, path: str, *words: str) -> Generator[IO[str]]:
        """The lines of an answer that does not end."""
        command = [self._program, "--silent", "--no-buffer", "--max-time", "100", *words, self._url + path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.terminate()

    def produce(self, path: str, media: str, body: str, accept: str = V2) -> Said:
        return self(path, "-X", "POST", "-H", f"Content-Type: {media}", "-H", f"Accept: {accept}", "--data", body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("clients"), auto_create_topics=True) as server:
        yield server


@pytest.fixture
def curl(server: Server) -> Curl:
    return Curl(server)


def stored(partition: int, offset: int) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, "error_code": None, "error": None}


def test_a_producer_of_json_and_the_calls_around_it(curl: Curl):
    said = curl.produce("/topics/jsontest", JSON, '{"records":[{"value":{"foo":"bar"}}]}')
    assert (said.status, said.type) == (200, V2)
    assert said.json == {"offsets": [stored(0, 0)], "key_schema_id": None, "value_schema_id": None}
    assert "jsontest" in curl("/topics", "-H", f"Accept: {V2}").json
    described = curl("/topics/jsontest", "-H", f"Accept: {V2}")
    assert (described.status, described.type) == (200, V2)
    replicas = [{"broker": 1, "leader": True, "in_sync": True}]
    partition = {"partition": 0, "leader": 1, "replicas": replicas}
    assert described.json["name"] == "jsontest"
    assert described.json["configs"]["cleanup.policy"] == "delete"
    assert described.json["partitions"] == [partition]
    assert curl("/topics/jsontest/partitions").json == [partition]
    assert curl("/topics/jsontest/partitions/0").json == partition
    offsets = curl("/topics/jsontest/partitions/0/offsets", "-H", f"Accept: {V2}")
    assert offsets.json == {"beginning_offset": 0, "end_offset": 1}
    assert curl("/brokers").json == {"brokers": [1]}


def test_a_producer_of_binary_with_keys_and_partitions(curl: Curl):
    records = (
        '{"records":[{"key":"a2V5","value":"S2Fma2E="},{"value":"TG9ncw==","partition":0},{"key":"a2V5","value":null}]}'
    )
    said = curl.produce("/topics/binarytest", BINARY, records, f"{V2}, application/vnd.kafka+json, application/json")
    assert said.status == 200
    assert [each["offset"] for each in said.json["offsets"]] == [0, 1, 2]
    read = curl("/topics/binarytest/partitions/0/records?offset=0", "-H", f"Accept: {BINARY}")
    assert (read.status, read.type) == (200, BINARY)
    assert [(each["key"], each["value"]) for each in read.json] == [
        ("a2V5", "S2Fma2E="), (None, "TG9ncw=="), ("a2V5", None),
    ]  # fmt: skip
    assert {each["topic"] for each in read.json} == {"binarytest"}
    said = curl.produce("/topics/binarytest/partitions/0", BINARY, '{"records":[{"value":"S2Fma2E="}]}')
    assert said.json["offsets"] == [stored(0, 3)]


@pytest.mark.parametrize(
    "media",
    [
        JSON,
        "application/vnd.kafka.json.v1+json",
        "application/vnd.kafka.json+json",
        "application/json",
        "application/json; charset=utf-8",
        "Application/Vnd.Kafka.JSON.v2+json",
    ],
)
def test_every_name_that_clients_have_for_json_is_known(curl: Curl, media: str):
    body = '{"key_schema":null,"value_schema":null,"records":[{"key":"k","value":{"a":1.50}}]}'
    said = curl.produce("/topics/medias", media, body, "*/*")
    assert said.status == 200, said.text
    place = said.json["offsets"][0]
    read = curl(f"/topics/medias/partitions/0/records?offset={place['offset']}", "-H", f"Accept: {BINARY}")
    assert base64.b64decode(read.json[0]["value"]) == b'{"a":1.50}'


@pytest.mark.parametrize("media", [BINARY, V2, "application/vnd.kafka.binary.v1+json", "application/vnd.kafka.v1+json"])
def test_every_name_that_clients_have_for_binary_is_known(curl: Curl, media: str):
    said = curl.produce("/topics/binaries", media, '{"records":[{"value":"/w=="}]}')
    assert said.status == 200, said.text


@pytest.mark.parametrize("accept", [V2, "application/json", "application/vnd.kafka+json"])
def test_a_client_is_answered_in_the_type_it_asked_for(curl: Curl, accept: str):
    assert curl.produce("/topics/accepts", JSON, '{"records":[{"value":1}]}', accept).type == accept
    assert curl("/topics", "-H", f"Accept: {accept}").type == accept


def test_errors_are_those_that_clients_know(curl: Curl):
    for path, status, code in (
        ("/topics/nobody", 404, 40403),
        ("/topics/nobody/partitions", 404, 40401),
        ("/topics/nobody/partitions/0", 404, 40401),
        ("/topics/nobody/partitions/0/offsets", 404, 40401),
        ("/topics/jsontest2/partitions/7", 404, 40402),
        ("/nothing", 404, 404),
    ):
        curl("/topics/jsontest2", "-X", "PUT")
        said = curl(path)
        assert (said.status, said.json["error_code"]) == (status, code), path
        assert set(said.json) == {"error_code", "message"}
    avro = curl.produce("/topics/x", "application/vnd.kafka.avro.v2+json", '{"records":[]}')
    assert (avro.status, avro.json["error_code"]) == (415, 415)
    empty = curl.produce("/topics/x", JSON, '{"records":[]}')
    assert empty.status == 422
    schema = curl.produce("/topics/x", JSON, '{"value_schema_id":1,"records":[{"value":1}]}')
    assert schema.status == 422
    assert "value_schema_id" in schema.json["message"]
    assert "x" not in curl("/topics").json


def test_a_client_that_expects_to_be_told_to_go_on_is_told(curl: Curl, tmp_path: Path):
    """It asks before it sends more than a megabyte."""
    body = tmp_path / "body"
    body.write_text('{"records":[' + ",".join(['{"value":"' + "x" * 1000 + '"}'] * 2000) + "]}")
    said = curl.produce("/topics/expects", JSON, f"@{body}")
    assert len(said.json["offsets"]) == 2000


def test_clients_of_older_and_compressing_kinds(curl: Curl, tmp_path: Path):
    body = tmp_path / "body.gz"
    body.write_bytes(gzip.compress(b'{"records":[{"value":1}]}'))
    kind = ("-H", f"Content-Type: {JSON}", "-H", "Accept: */*")
    zipped = curl("/topics/kinds", "-X", "POST", "-H", "Content-Encoding: gzip", *kind, "--data-binary", f"@{body}")
    assert zipped.json["offsets"] == [stored(0, 0)]
    chunked = ("-H", "Transfer-Encoding: chunked", "--data", '{"records":[{"value":2}]}')
    assert curl("/topics/kinds", "-X", "POST", *kind, *chunked).json["offsets"] == [stored(0, 1)]
    old = ("--http1.0", "--data", '{"records":[{"value":3}]}')
    assert curl("/topics/kinds", "-X", "POST", *kind, *old).json["offsets"] == [stored(0, 2)]
    assert curl("/topics/kinds/", "--head").status == 200


def test_the_administrators_and_producers_of_v3(curl: Curl):
    (cluster,) = curl("/v3/clusters").json["data"]
    base = f"/v3/clusters/{cluster['cluster_id']}"
    made = curl(f"{base}/topics", "--json", '{"topic_name":"three","partitions_count":2}')
    assert made.status == 201
    assert made.json["partitions_count"] == 2
    names = [each["topic_name"] for each in curl(f"{base}/topics").json["data"]]
    assert "three" in names
    record = '{"partition_id":1,"key":{"type":"STRING","data":"k"},"value":{"type":"JSON","data":{"a":1}}}'
    said = curl(f"{base}/topics/three/records", "--json", record)
    assert said.status == 200
    assert (said.json["error_code"], said.json["partition_id"], said.json["offset"]) == (200, 1, 0)
    many = curl(f"{base}/topics/three/records", "-H", "Transfer-Encoding: chunked", "--json", record + "\n" + record)
    assert [json.loads(line)["offset"] for line in many.text.splitlines() if line] == [1, 2]
    assert curl(f"{base}/topics/three", "-X", "DELETE").status == 204


def test_the_way_of_a_newcomer(curl: Curl):
    assert curl("/topics/first", "-X", "PUT").status == 201
    assert curl("/topics/first", "-X", "PUT").status == 200
    lines = '{"id":1}\n{"id":2}'
    said = curl("/topics/first?key=/id", "-H", "Content-Type: application/x-ndjson", "--data-binary", lines)
    assert [each["offset"] for each in said.json["offsets"]] == [0, 1]
    read = curl("/topics/first/partitions/0/records?offset=earliest")
    assert [(json.loads(line)["key"], json.loads(line)["value"]) for line in read.text.splitlines()] == [
        (1, {"id": 1}), (2, {"id": 2}),
    ]  # fmt: skip
    with curl.following("/topics/first/records", "-H", "Accept: text/event-stream") as lines:
        events = (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))
        assert [next(events)["value"] for _ in range(2)] == [{"id": 1}, {"id": 2}]
        assert curl.produce("/topics/first", "application/x-ndjson", '{"id":3}').status == 200
        assert next(events)["value"] == {"id": 3}, "it goes on for ever"
