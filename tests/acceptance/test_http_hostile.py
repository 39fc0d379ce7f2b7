"""Whatever a server is sent: the documented status, an error in JSON, nothing stored, and it goes on."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from tests.support.hostile_bodies import MOST_BYTES, MOST_RECORDS
from tests.support.hostile_requests import ROWS, TAKEN, Row
from tests.support.http_producers import frame
from tests.support.raw_http import Answer, RawClient
from tests.support.serving import Server, serving

ALIVE = frame("GET", "/healthz")
GOOD = frame("POST", "/topics/alive", {"Content-Type": "application/x-ndjson"}, b"1")


class Victim:
    """A server, and a connection to look at it with."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._client = RawClient(server.port)
        for topic in ("one", "alive"):
            made = self.ask(frame("PUT", f"/topics/{topic}", {"Content-Type": "application/json"}, b'{"partitions":1}'))
            assert made.status == 201
        self._alive = 0

    def ask(self, request: bytes) -> Answer:
        return self._client.ask(request)

    def state(self) -> dict[str, object]:
        """Everything that could have been stored."""
        topics = json.loads(self.ask(frame("GET", "/topics")).body)
        return {
            topic: json.loads(self.ask(frame("GET", f"/topics/{topic}/partitions/0/offsets")).body) for topic in topics
        }

    def check_alive(self) -> None:
        """It takes records, and none that nobody sent."""
        answer = self.ask(GOOD)
        assert answer.status == 200, answer
        assert json.loads(answer.body)["offsets"][0]["offset"] == self._alive
        self._alive += 1

    def close(self) -> None:
        self._client.socket.close()


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Generator[Victim]:
    root = tmp_path_factory.mktemp("hostile") / "root"
    with serving(
        root, auto_create_topics=True, max_records=MOST_RECORDS, max_body_bytes=MOST_BYTES, max_poll_ms=50
    ) as server:
        victim = Victim(server)
        yield victim
        victim.close()
        assert server.terminate() == 0
        assert "Traceback" not in server.stderr
        assert '"status":500' not in server.stderr.replace(" ", "")
    names = {path.name for path in (root / "topics").iterdir()}
    assert {"one", "alive"} <= names
    assert all(name in ("one", "alive") or name.startswith("__") for name in names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name[:60])
def test_it_is_refused_and_nothing_is_stored(victim: Victim, row: Row):
    before = victim.state()
    with RawClient(victim.server.port) as client:
        answer = client.ask(row.request)
        assert answer.status == row.status, answer
        check_error(answer, row.code or row.status)
        if row.closes:
            assert answer.headers["connection"] == "close"
            assert client.is_ended()
        else:
            assert client.ask(ALIVE).status == 200
    assert victim.state() == before
    victim.check_alive()


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_odd_and_taken(victim: Victim, name: str):
    with RawClient(victim.server.port) as client:
        assert client.ask(TAKEN[name]).status == 200
        assert client.ask(ALIVE).status == 200


def test_what_was_sent_behind_a_refusal_that_closes_is_never_done(victim: Victim):
    before = victim.state()
    for row in ROWS:
        if row.closes and row.status == 400 and b"chunked" not in row.request:
            with RawClient(victim.server.port) as client:
                assert client.ask(row.request + frame("PUT", "/topics/smuggled", {}, b"")).status == 400
                assert client.is_ended()
    assert victim.state() == before


def test_a_type_that_is_not_taken_or_offered_is_answered_with_those_that_are(victim: Victim):
    refused = victim.ask(frame("POST", "/topics/one", {"Content-Type": "text/plain"}, b"1"))
    for media in (
        "application/vnd.kafka.binary.v2+json",
        "application/x-ndjson",
        "application/vnd.apache.arrow.stream",
    ):
        assert media in json.loads(refused.body)["message"]
    refused = victim.ask(frame("GET", "/topics/one/partitions/0/records", {"Accept": "text/html"}))
    for media in ("application/x-ndjson", "text/event-stream"):
        assert media in json.loads(refused.body)["message"]


def test_no_two_rows_have_one_name():
    assert len({row.name for row in ROWS}) == len(ROWS)


def check_error(answer: Answer, code: int) -> None:
    """An error in JSON that says what is wrong, and nothing of the inside."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert len(answer.body) < 20_000
    said = json.loads(answer.body)
    assert said["error_code"] == code, said
    assert isinstance(said["message"], str)
    assert said["message"]
    for word in ("Traceback", ".py", 'File "', "object at 0x"):
        assert word not in answer.body.decode()
