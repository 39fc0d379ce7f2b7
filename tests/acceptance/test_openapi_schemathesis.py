"""The server's OpenAPI document is true: it is driven from it, by what the document allows and by what it forbids."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.serving import Server, serving

SEED = 1
EXAMPLES = 25
#: For what hangs: it is a minute's work of a processor, and took four minutes where eight others wanted it as well.
MOST_S = 900
TOPICS = [f"topic-{number}" for number in range(30)]
GROUPS = ["billing", "audit"]
INSTANCES = [f"instance-{number}" for number in range(30)]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
#: What is too long may already be too long for the wire, and an offset that is none may be one that is out of range.
REJECTED = [400, 404, 405, 406, 409, 413, 414, 415, 416, 422, 431]
#: Half of the names are of what is there, or every request would be for what is not.
CONFIG = """
[cache]
enabled = false
[checks.negative_data_rejection]
expected-statuses = {rejected}
[dictionaries]
topics = {{ values = {topics} }}
partitions = {{ values = [0, 1] }}
clusters = {{ values = ["{cluster}"] }}
brokers = {{ values = [1] }}
groups = {{ values = {groups} }}
instances = {{ values = {instances} }}
settings = {{ values = ["retention.ms", "cleanup.policy", "max.message.bytes"] }}
[parameters]
topic = {{ dictionary = "topics", probability = 0.7 }}
partition = {{ dictionary = "partitions", probability = 0.7 }}
cluster = {{ dictionary = "clusters", probability = 0.9 }}
broker = {{ dictionary = "brokers", probability = 0.7 }}
config = {{ dictionary = "settings", probability = 0.7 }}
group = {{ dictionary = "groups", probability = 0.9 }}
instance = {{ dictionary = "instances", probability = 0.9 }}
consumer = {{ dictionary = "instances", probability = 0.7 }}
"""


def furnish(server: Server) -> str:
    """Something to ask for; answers the id of the cluster."""
    for topic in TOPICS:
        assert httpx.put(f"{server.url}/topics/{topic}", json={"partitions": 2}).status_code == 201
        headers = {"Content-Type": "application/x-ndjson"}
        for partition in (0, 1):
            records = f"{server.url}/topics/{topic}/partitions/{partition}"
            assert httpx.post(records, content=b'1\n"a"\n{"b":null}', headers=headers).status_code == 200
    for group in GROUPS:
        for number, name in enumerate(INSTANCES):
            assert httpx.post(f"{server.url}/consumers/{group}", json={"name": name}).status_code == 200
            instance = f"{server.url}/consumers/{group}/instances/{name}"
            if number % 3 == 0:
                assert httpx.post(f"{instance}/subscription", json={"topics": TOPICS[number:]}).status_code == 204
            elif number % 3 == 1:
                mine = {"partitions": [{"topic": TOPICS[number], "partition": 0}]}
                assert httpx.post(f"{instance}/assignments", json=mine).status_code == 204
    return httpx.get(server.url).json()["cluster_id"]


@pytest.mark.timeout(MOST_S + 300)
def test_the_server_does_as_its_openapi_document_says(tmp_path: Path):
    with serving(tmp_path / "data", max_poll_ms=20, log_level="warning") as server:
        config = CONFIG.format(
            rejected=REJECTED,
            topics=json.dumps(TOPICS),
            groups=json.dumps(GROUPS),
            instances=json.dumps(INSTANCES),
            cluster=furnish(server),
        )
        (tmp_path / "schemathesis.toml").write_text(config)
        command = [
            str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/openapi.json",
            "--checks", ",".join(CHECKS), "--phases", "coverage,fuzzing", "--seed", str(SEED),
            "--max-examples", str(EXAMPLES), "--generation-database", "none", "--continue-on-failure",
            "--request-timeout", "60", "--no-color", "--workers", "1",
        ]  # fmt: skip
        driven = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=MOST_S, check=False)
        said = "\n".join(line[:300] for line in driven.stdout.splitlines())
        assert driven.returncode == 0, said + driven.stderr[-3000:]
        assert "Selected: " in said
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        assert server.terminate() == 0
        assert "Traceback" not in server.stderr
