"""A server over a bucket, as an operator runs it: records, groups, a kill, SQL, jobs and the doctor."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from deltalake import DeltaTable

from lakelog import Admin, Consumer, Producer
from lakelog.cli.kit.exit_codes import NOT_NOW
from tests.architecture.project_files import ROOT
from tests.support.commands import call_main
from tests.support.consumer_stage import read
from tests.support.s3_server import S3Server, as_options
from tests.support.serving import DEADLINE_S, Server, environment, serve_in_vain, serving

RECORDS = 60


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return s3_server.root(f"operated/{uuid.uuid4().hex}")


@pytest.fixture
def config(s3_server: S3Server, tmp_path: Path) -> Path:
    """Secrets are for a file that others cannot read, not for a command line."""
    path = tmp_path / "server.toml"
    pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in s3_server.options.items())
    path.write_text(f"store_option = {{ {pairs} }}\n")
    return path


@pytest.fixture
def call(s3_server: S3Server, url: str) -> Callable[..., str]:
    def run(*words: str, code: int = 0) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", *words, f"--data={url}", *as_options(s3_server.options)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            cwd=ROOT,
            env=environment(),
        )
        assert ended.returncode == code, f"{ended.stdout}\n{ended.stderr}"
        assert s3_server.options["aws_secret_access_key"] not in ended.stdout + ended.stderr
        return ended.stdout

    return run


def produce(server: Server, first: int) -> None:
    with Producer({"bootstrap.servers": server.url}) as producer:
        for number in range(first, first + RECORDS):
            producer.send("orders", b"%d" % number, key=b"%d" % (number % 7))


def consume(server: Server, wanted: int) -> list[bytes]:
    """In a group that goes on where it was."""
    settings = {"bootstrap.servers": server.url, "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        found = [record.value for record in read(consumer, wanted)]
        consumer.commit()
        return found


def test_a_bucket_is_operated_as_a_directory_is(s3_server: S3Server, url: str, config: Path, call):
    settings = {"config": config, "topic_defaults": {"lakelog.commit.interval.ms": 200}}
    with serving(url, **settings) as server:
        assert f"data: {url}\n" in server.stdout
        with Admin({"bootstrap.servers": server.url}) as admin:
            admin.create_topic("orders", partitions=3)
        produce(server, 0)
        assert sorted(map(int, consume(server, RECORDS))) == list(range(RECORDS))
        produce(server, RECORDS)
        server.kill()

    with serving(url, **settings) as server:
        assert sorted(map(int, consume(server, RECORDS))) == list(range(RECORDS, 2 * RECORDS))
        produce(server, 2 * RECORDS)
        doctor = json.loads(call("lakelog", "doctor", "--output=json"))
        assert "failed" not in {finding.get("status") for finding in doctor if isinstance(finding, dict)}

    rows = json.loads(
        call("lakelog", "sql", "SELECT count(*) AS n, count(DISTINCT value) AS d FROM orders", "--output=json")
    )
    assert rows == {"n": 3 * RECORDS, "d": 3 * RECORDS}
    lag = call("lakelog", "sql", "SELECT sum(lag) AS lag FROM group_lag", "--output=json")
    assert json.loads(lag) == {"lag": RECORDS}
    for job, *words in (("compaction", "--min-age=0s"), ("retention",), ("audit",)):
        summary = json.loads(call(f"jobs.{job}", "--all", "--engine=local", *words).splitlines()[-1])
        assert (summary["outcome"], summary["root"]) == ("done", url)
    files = DeltaTable(f"{url}/topics/orders", storage_options=s3_server.options).file_uris()
    assert len(files) <= 3
    assert {
        path.suffix for path in (s3_server.folder / url.partition("//")[2].partition("/")[2] / "journal").iterdir()
    } == {".grp"}


def test_a_server_says_which_bucket_it_has_and_nothing_that_opens_it(
    s3_server: S3Server, url: str, config: Path, tmp_path: Path
):
    """Who asks for its root brings his own way in, also to copy it to a directory and from there to another place."""
    secret = s3_server.options["aws_secret_access_key"]
    opens = as_options(s3_server.options)
    with serving(url, config=config) as server:
        with Admin({"bootstrap.servers": server.url}) as admin:
            admin.create_topic("orders", partitions=1)
        produce(server, 0)
        said = httpx.get(server.url)
        assert said.json()["data"] == url
        assert secret not in said.text
        assert call_main("check", "--server", server.url, *opens).code == 0
        wrong = as_options(s3_server.options | {"aws_secret_access_key": "guessed"})
        refused = call_main("check", "--server", server.url, *wrong)
        assert refused.code == NOT_NOW
        assert "access is denied" in refused.failure
        assert "guessed" not in refused.failure
        copy = tmp_path / "copy"
        assert call_main("backup", copy, "--server", server.url, *opens).code == 0
    restored = f"{url}-restored"
    assert call_main("restore", copy, "--data", restored, *opens).code == 0
    found = call_main("sql", "SELECT count(*) AS n FROM orders", "--data", restored, *opens, "--output", "json")
    assert (found.code, found.said) == (0, {"n": RECORDS})


def test_a_server_says_in_a_sentence_why_a_bucket_cannot_be_used(s3_server: S3Server, config: Path, url: str):
    refused = serve_in_vain("s3://no-such-bucket/log", config=config)
    assert refused.returncode == 8
    assert "there is no bucket 'no-such-bucket'" in refused.stderr
    config.write_text(config.read_text().replace(s3_server.options["aws_secret_access_key"], "wrong"))
    refused = serve_in_vain(url, config=config)
    assert refused.returncode == 8
    assert "access is denied" in refused.stderr
    assert "wrong" not in refused.stderr
