"""A server whose disk fails for a while, so that even a failed write cannot be cut off, comes back by itself.

All that was answered is there, once, in order, at its offset; what was refused is nowhere; what was unknown is there as
a whole or not at all. The server is the real one, and so is its disk but for the calls that are told to fail.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.http_ledger import HttpLedger, Sent, read_lines, read_tables
from tests.support.http_producers import Producer, join_all, run_all
from tests.support.raw_http import Answer, RawClient
from tests.support.serving import Server, serving, wait_for
from tests.support.sick_server import STALE, fall_ill, recover, sick

#: What fails: each of these leaves a write of the journal in doubt.
FAULTS = {
    "write": ("write", "write_all", "truncate"),
    "sync": ("sync_data", "sync", "sync_directory"),
    "link": ("link", "sync_data", "truncate"),
    "rename": ("rename", "sync_data", "truncate"),
    "handles": (STALE,),
}
CODES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE]
#: By one of these a table may be told first that the disk is full, and the journal write nothing that could fail.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
TOPICS = {"orders": 3}
SETTINGS = {"topic_defaults": {"lakelog.commit.interval.ms": 100}}
#: Which clients there are: the format, and whether they number their requests.
CLIENTS = (("lines", False), ("json", False), ("arrow", False), ("lines", True), ("json", True))


class Patient(Producer):
    """Takes no for an answer. A numbered request is sent again until it is stored; another one is left as it is."""

    def __init__(self, ledger: HttpLedger, form: str, *, stamped: bool) -> None:
        super().__init__(ledger, form, "orders", stamped=stamped)
        self.is_refused = False
        self.is_unknown = False

    def _send_next(self, client: RawClient, cluster: str) -> None:
        super()._send_next(client, cluster)
        while self._stamped and (self.is_refused or self.is_unknown) and not self.stopped.wait(0.02):
            sent, request = self._recent[-1]
            self._settle(sent, client.ask(request))
        self.stopped.wait(0.005)

    def _settle(self, sent: Sent, answer: Answer) -> None:
        self.is_unknown = answer.status == 504 and b'"unknown"' in answer.body
        self.is_refused = answer.status == 503
        if self.is_unknown:
            sent.fate = "unknown"
        elif not (self.is_refused and sent.fate == "unknown" and self._stamped):
            super()._settle(sent, answer)

    def go_on_until(self, stopped: threading.Event, server: Server) -> None:
        self.stopped = stopped
        self.produce(server.address, "", stopped, half=False)


@contextmanager
def produced_to(server: Server, ledger: HttpLedger) -> Iterator[None]:
    stopped = threading.Event()
    clients = [Patient(ledger, form, stamped=stamped) for form, stamped in CLIENTS]
    threads = run_all(partial(client.go_on_until, stopped, server) for client in clients)
    try:
        yield
    finally:
        stopped.set()
        join_all(threads)


class Group:
    """A member that reads and commits."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._path = "/consumers/g/instances/ann"
        made = client.post("/consumers/g", json={"name": "ann", "format": "binary", "auto.commit.enable": "false"})
        assert made.status_code == 200, made.text
        assert self._post("/subscription", {"topics": list(TOPICS)}).status_code == 204

    def commit(self, next_offset: int) -> httpx.Response:
        offsets = [{"topic": "orders", "partition": 1, "next_offset": next_offset}]
        return self._post("/offsets", {"offsets": offsets})

    @property
    def committed(self) -> int:
        """0 as long as nothing is."""
        asked = {"partitions": [{"topic": "orders", "partition": 1}]}
        answer = self._client.request("GET", f"{self._path}/offsets", json=asked)
        assert answer.status_code == 200, answer.text
        return max(0, answer.json()["offsets"][0]["offset"])

    def _post(self, path: str, body: object) -> httpx.Response:
        return self._client.post(self._path + path, json=body)


def metric(client: httpx.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_a_server_whose_disk_was_sick_acknowledges_again_by_itself_and_keeps_every_promise(tmp_path: Path, code: int):
    root, file, ledger = tmp_path / "root", tmp_path / "sick", HttpLedger()
    with serving(root, program=sick(file), **SETTINGS) as server:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            assert client.put("/topics/orders", json={"partitions": 3}).status_code == 201
            group = Group(client)
            with produced_to(server, ledger):
                wait_for(lambda: end_of(client) >= len(FAULTS), "something to commit")
                for number, (name, calls) in enumerate(FAULTS.items(), 1):
                    be_sick(client, group, file, name, calls, code, number)
                    ledger.wait_for_answers(20)
        promised = ledger.answers
        server.kill()
    assert promised > 0
    assert "restart" not in server.stderr
    with serving(root, **SETTINGS) as server:
        ledger.check(read_lines(server.url, TOPICS))
        with httpx.Client(base_url=server.url, timeout=60) as client:
            asked = client.get("/groups/g/offsets").json()
            assert [(each["partition"], each["next_offset"]) for each in asked["offsets"]] == [(1, len(FAULTS))]
    ledger.check(read_tables(root, TOPICS))


def be_sick(
    client: httpx.Client, group: Group, file: Path, name: str, calls: tuple[str, ...], code: int, number: int
) -> None:
    """One trouble from its beginning to its end, among clients that produce all the time."""
    mended = metric(client, "lakelog_journal_mended_total")
    fall_ill(file, *calls, code=code)
    wait_for(lambda: is_in_doubt(client) or (code in NO_ROOM and is_full(client)), "that a write is in doubt")
    assert metric(client, "lakelog_writes_refused") == 1
    refused = group.commit(number)
    assert refused.status_code in (503, 504), refused.text
    assert group.committed == number - 1 or refused.status_code == 504
    made = client.put(f"/topics/made-by-{name}", json={"partitions": 1})
    assert made.status_code in (201, 503, 504), made.text
    query = {"offset": 0, "max_records": 5, "decode": "base64"}
    assert client.get("/topics/orders/partitions/1/records", params=query).status_code == 200
    recover(file)
    wait_for(lambda: client.get("/readyz").status_code == 200, "that it is ready again")
    assert metric(client, "lakelog_journal_mended_total") > mended or code in NO_ROOM
    assert group.commit(number).status_code in (200, 204)
    assert group.committed == number
    again = client.put(f"/topics/made-by-{name}", json={"partitions": 1})
    assert again.status_code in (200, 201, 409), again.text
    stored = client.post(f"/topics/made-by-{name}", json={"records": [{"value": 1}]})
    assert stored.status_code == 200, stored.text
    assert stored.json()["offsets"][0]["offset"] == 0


def end_of(client: httpx.Client) -> int:
    return int(client.get("/topics/orders/partitions/1/offsets").json()["end_offset"])


def is_in_doubt(client: httpx.Client) -> bool:
    return "in doubt" in client.get("/readyz").text


def is_full(client: httpx.Client) -> bool:
    return "the disk is full" in client.get("/readyz").text
