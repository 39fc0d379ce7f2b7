"""Groups outlive their server: it is killed, and the next owner of the root, another process, goes on with them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.in_time import in_time
from tests.support.serving import DEADLINE_S, Server, serve_in_vain, serving, wait_for

GROUPS = {
    "shared": ("ann", "bob"),
    "pattern": ("cid",),
    "static": ("dan",),
    "manual": ("eve",),
}


class Client:
    """Who asks a server; its address may be another in each life."""

    def __init__(self, server: Server) -> None:
        self.url = server.url
        self._http = httpx.Client(base_url=server.url, timeout=30)

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        return self._http.request(method, path, **given)

    def ask(self, group: str, name: str, method: str, path: str, **given: Any) -> httpx.Response:
        return self(method, f"/consumers/{group}/instances/{name}{path}", **given)

    def join(self, group: str, name: str, **options: Any) -> None:
        given = {"auto_commit_enable": "false", "format": "json", "session_timeout_ms": "60000"} | options
        named = {key.replace("_", "."): value for key, value in given.items()} | {"name": name}
        assert self("POST", f"/consumers/{group}", json=named).status_code == 200

    def put(self, topic: str, **values: list[int]) -> None:
        """`p0=[1, 2]`: two records in partition 0."""
        records = [{"value": value, "partition": int(key[1:])} for key, its in values.items() for value in its]
        assert self("POST", f"/topics/{topic}", json={"records": records}).status_code == 200

    def poll(self, group: str, name: str, query: str = "timeout=0") -> list[tuple[str, int, Any]]:
        answer = self.ask(group, name, "GET", f"/records?{query}")
        assert answer.status_code == 200, answer.text
        return sorted((each["topic"], each["partition"], each["value"]) for each in answer.json())

    def commit(self, group: str, name: str, *offsets: dict[str, Any], **given: Any) -> httpx.Response:
        return self.ask(group, name, "POST", "/offsets", json={"offsets": offsets} if offsets else {}, **given)

    def close(self) -> None:
        self._http.close()


def done(answer: httpx.Response) -> httpx.Response:
    assert answer.status_code in (200, 201, 204), answer.text
    return answer


def at(topic: str, partition: int, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, **more}


@contextmanager
def talking(server: Server) -> Iterator[Client]:
    client = Client(server)
    try:
        yield client
    finally:
        client.close()


def live_through_much(client: Client) -> None:
    """Each kind of member, and each way in which a position came to be."""
    for topic, partitions in (("orders", 4), ("bills", 1), ("quiet", 1)):
        done(client("PUT", f"/topics/{topic}", json={"partitions": partitions}))
    client.put("orders", p0=[1, 2, 3], p1=[4, 5], p2=[6, 7], p3=[8])
    client.put("bills", p0=[10, 11])
    client.join("shared", "ann")
    client.join("shared", "bob", auto_offset_reset="latest")
    for name in ("ann", "bob"):
        done(client.ask("shared", name, "POST", "/subscription", json={"topics": ["orders"]}))
    assert client.poll("shared", "ann", "timeout=0&max_records=1") == [("orders", 0, 1)]
    assert client.poll("shared", "bob") == [], "latest begins at the end"
    done(client.commit("shared", "ann", at("orders", 0, next_offset=1, metadata="tea")))
    done(client.ask("shared", "ann", "POST", "/positions", json={"offsets": [at("orders", 1, offset=1)]}))
    client.join("pattern", "cid", auto_offset_reset="latest")
    done(client.ask("pattern", "cid", "POST", "/subscription", json={"topic_pattern": "bil.*|qui.*"}))
    assert client.poll("pattern", "cid") == []
    client.join("static", "dan", group_instance_id="till")
    done(client.ask("static", "dan", "POST", "/subscription", json={"topics": ["bills"]}))
    assert client.poll("static", "dan") == [("bills", 0, 10), ("bills", 0, 11)]
    done(client.commit("static", "dan"))
    done(client.ask("static", "dan", "POST", "/positions/beginning", json={"partitions": [at("bills", 0)]}))
    client.join("manual", "eve")
    done(client.ask("manual", "eve", "POST", "/assignments", json={"partitions": [at("orders", 2)]}))
    done(client.ask("manual", "eve", "POST", "/positions/end", json={"partitions": [at("orders", 2)]}))
    done(client.ask("manual", "eve", "POST", "/heartbeat"))
    done(client("PUT", "/groups/outside/offsets", json={"offsets": [at("orders", 3, next_offset=1)]}))


def known(client: Client) -> dict[str, Any]:
    """Everything that can be asked of groups."""
    found: dict[str, Any] = {"groups": done(client("GET", "/groups")).json()}
    for group in (*GROUPS, "outside"):
        found[group] = done(client("GET", f"/groups/{group}")).json()
        for name in [member["instance_id"] for member in found[group]["members"]]:
            for what in ("subscription", "assignments"):
                answer = done(client.ask(group, name, "GET", f"/{what}"))
                found[group, name, what] = answer.json(), answer.headers["lakelog-generation"]
    return found


def go_on(client: Client) -> None:
    """From positions that skip nothing, though records came while nobody was there to look."""
    client.put("quiet", p0=[20])
    client.put("orders", p2=[30], p3=[31])
    assert client.poll("shared", "ann") == [("orders", 0, 2), ("orders", 0, 3), ("orders", 1, 5)]
    assert client.poll("shared", "bob") == [("orders", 2, 30), ("orders", 3, 31)], "where latest began is kept"
    assert client.poll("pattern", "cid") == [("quiet", 0, 20)]
    assert client.poll("static", "dan") == [("bills", 0, 10), ("bills", 0, 11)], "it sought the beginning"
    assert client.poll("manual", "eve") == [("orders", 2, 30)]
    for group, names in GROUPS.items():
        for name in names:
            done(client.commit(group, name))
            assert client.poll(group, name) == []
    taken = client("POST", "/consumers/shared", json={"name": "ann"})
    assert (taken.status_code, taken.json()["error_code"]) == (409, 40902)
    client.join("static", "dan-again", group_instance_id="till")
    assert client.ask("static", "dan", "POST", "/heartbeat").json()["error_code"] == 40403
    assert client.ask("static", "dan-again", "GET", "/assignments").json()["partitions"] == [at("bills", 0)]


def kill(server: Server) -> None:
    server.kill()


def stop_and_kill(server: Server) -> None:
    server.process.send_signal(signal.SIGSTOP)
    server.kill()


@pytest.mark.parametrize("end", [kill, Server.terminate, stop_and_kill], ids=["killed", "stopped", "paused and killed"])
def test_the_next_owner_of_a_root_knows_every_group_and_its_members_go_on(tmp_path: Path, end: Callable[[Server], Any]):
    root = tmp_path / "data"
    with serving(root) as first, talking(first) as client:
        live_through_much(client)
        before = known(client)
        end(first)
    with serving(root) as second, talking(second) as client:
        assert known(client) == before
        go_on(client)
        before = known(client)
        second.kill()
    with serving(root) as third, talking(third) as client:
        assert known(client) == before
        assert client.poll("shared", "ann") == []


def test_a_server_that_was_paused_keeps_its_root_and_its_groups(tmp_path: Path):
    """Nobody takes a root from a process that lives: so no commit of an owner that slept can undo another's."""
    root = tmp_path / "data"
    with serving(root) as first, talking(first) as client:
        live_through_much(client)
        before = known(client)
        first.process.send_signal(signal.SIGSTOP)
        try:
            refused = serve_in_vain(root)
        finally:
            first.process.send_signal(signal.SIGCONT)
        assert refused.returncode != 0
        assert str(first.pid) in refused.stderr + refused.stdout
        assert known(client) == before
        done(client.commit("shared", "ann", at("orders", 0, next_offset=2)))
        done(client.ask("shared", "bob", "POST", "/heartbeat"))


def test_a_server_that_was_paused_longer_than_a_session_expires_nobody_who_could_not_be_heard(tmp_path: Path):
    def live_on(turn: int) -> str:
        """In time, but for the pause; the group."""
        group = f"g{turn}"
        client.join(group, "ann", session_timeout_ms="1500")
        done(client.ask(group, "ann", "POST", "/subscription", json={"topics": ["orders"]}))
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        done(client.ask(group, "ann", "POST", "/heartbeat"))
        return group

    with serving(tmp_path / "data") as server, talking(server) as client:
        done(client("PUT", "/topics/orders"))
        group = in_time(2.5 + 1.5, live_on)
        wait_for(lambda: not done(client("GET", f"/groups/{group}")).json()["members"], "the end of who is silent")


def kill_amid(server: Server, enough: threading.Event) -> None:
    enough.wait(DEADLINE_S)
    server.kill()


def test_commits_are_as_they_were_answered_wherever_the_server_is_killed(tmp_path: Path):
    """The next one knows the last commit that was answered, or the one on its way; generations never go back."""
    root, answered, generation = tmp_path / "data", 0, 0
    with serving(root) as server, talking(server) as client:
        done(client("PUT", "/topics/orders"))
        client.put("orders", p0=list(range(5000)))
        client.join("g", "ann")
        done(client.ask("g", "ann", "POST", "/subscription", json={"topics": ["orders"]}))
        server.kill()
    for life in range(3):
        with serving(root) as server, talking(server) as client:
            found = client("GET", "/groups/g").json()
            (only,) = found["partitions"]
            assert (only["next_offset"] or 0) in (answered, answered + 1)
            assert found["generation"] >= generation
            generation, answered = found["generation"], only["next_offset"] or 0
            last, enough = answered + 20 + 15 * life, threading.Event()
            killing = threading.Thread(target=kill_amid, args=(server, enough))
            killing.start()
            with suppress(httpx.TransportError):
                while answered < 4999:
                    done(client.commit("g", "ann", at("orders", 0, next_offset=answered + 1)))
                    answered += 1
                    if answered == last:
                        enough.set()
            killing.join(DEADLINE_S)


def test_the_retention_of_offsets_is_a_setting_and_touches_nobody_who_reads(tmp_path: Path):
    root = tmp_path / "data"
    with serving(root, offsets_retention_ms=1000) as server, talking(server) as client:
        done(client("PUT", "/topics/orders", json={"partitions": 2}))
        client.put("orders", p0=[1, 2])
        client.join("live", "ann")
        done(client.ask("live", "ann", "POST", "/subscription", json={"topics": ["orders"]}))
        done(client.commit("live", "ann", at("orders", 0, next_offset=1)))
        for group in ("dead", "left"):
            done(client("PUT", f"/groups/{group}/offsets", json={"offsets": [at("orders", 0, next_offset=1)]}))
        client.join("left", "bob")
        server.kill()
    time.sleep(1.1)
    with serving(root, offsets_retention_ms=1000) as server, talking(server) as client:
        wait_for(lambda: client("GET", "/groups/dead").status_code == 404, "the end of what nobody used")
        assert client("GET", "/groups/live/offsets").json()["offsets"][0]["next_offset"] == 1
        assert client.poll("live", "ann") == [("orders", 0, 2)]
