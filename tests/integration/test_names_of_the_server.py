"""A server answers under its own names alone: a page whose name was led to it (DNS rebinding) gets nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Final

import pytest

from ingest_api.web.admission import UNKNOWN_HOST
from tests.support.every_route import ask, cluster_of, code_of, every_operation, path_of
from tests.support.raw_http import Answer, RawClient
from tests.support.serving import Server, serving

NAME: Final = "lake.example"
OPERATIONS: Final = every_operation()
JSON: Final = ("Content-Type", "application/json")
REFUSED: Final = (421, UNKNOWN_HOST)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One that knows two names and a page."""
    with serving(None, advertised_hosts=f"{NAME},other.example", cors_origins="https://board.example") as made:
        yield made


@pytest.fixture(scope="module")
def behind_a_proxy() -> Iterator[Server]:
    with serving(None, advertised_hosts=NAME, trusted_proxies="10.0.0.0/8,127.0.0.1") as made:
        yield made


def get(server: Server, host: str, *fields: tuple[str, str], path: str = "/topics") -> Answer:
    return ask(server.port, "GET", path, [("Host", host), *fields])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:8082", "[::FFFF:127.0.0.1]", "10.1.2.3", "203.0.113.7:80", "0.0.0.0",
     "localhost", "LocalHost:8082", "localhost.", "api.localhost", "a.b.localhost.:1", NAME, f"{NAME.upper()}.:443",
     "other.example", socket.gethostname(), socket.gethostname().partition(".")[0].upper()],
)  # fmt: skip
def test_it_answers_to_its_addresses_and_names(server: Server, host: str):
    assert get(server, host).status == 200


@pytest.mark.parametrize(
    "host",
    ["attacker.example", "attacker.example:8082", "localhost.attacker.example", "127.0.0.1.attacker.example",
     "attackerlocalhost", "attacker", "localhost..", f"x{NAME}", f"{NAME}.attacker.example", "127.1",
     "0x7f.0.0.1", "2130706433", "127.0.0.01", "%6cocalhost", "*", "", ":8082", "[::1%25lo]", "[1.2.3.4]"],
)  # fmt: skip
def test_it_does_not_answer_to_others(server: Server, host: str):
    answer = get(server, host)
    assert answer.status in (400, 421), "what can be no host at all is refused before it is looked at"
    if answer.status == 421:
        assert code_of(answer) == UNKNOWN_HOST
        assert "advertised_hosts" in json.loads(answer.body)["message"]
        assert answer.headers["x-request-id"]


def test_no_route_answers_to_others_but_the_one_that_says_no_more_than_that_it_lives(server: Server):
    found = {}
    cluster = cluster_of(server.port)
    pages = [("GET", path) for path in ("/docs", "/docs/", "/openapi.json", "/nothing", "/docs/oauth2-redirect")]
    for method, path in [*((each.method, path_of(each, cluster)) for each in OPERATIONS), *pages]:
        answer = ask(server.port, method, path, [("Host", "attacker.example"), JSON])
        found[f"{method} {path}"] = answer.status, code_of(answer)
    assert {route for route, answer in found.items() if answer != REFUSED} == {"GET /healthz"}
    assert get(server, "attacker.example", path="/healthz").body == b'{"status":"ok"}\n'


def test_a_method_that_there_is_not_and_a_browser_that_asks_first_learn_nothing_either(server: Server):
    asked = [("Origin", "https://board.example"), ("Access-Control-Request-Method", "DELETE")]
    for method in ("OPTIONS", "HEAD", "PATCH"):
        answer = ask(server.port, method, "/topics/orders", [("Host", "attacker.example"), *asked])
        assert answer.status == 421
        assert "access-control-allow-methods" not in answer.headers
    assert ask(server.port, "OPTIONS", "/topics/orders", [("Host", NAME), *asked]).status == 200


@pytest.mark.parametrize(
    ("request_line", "host", "status"),
    [
        ("GET /topics HTTP/1.0", None, 200),
        ("GET /topics HTTP/1.0", "attacker.example", 421),
        ("GET http://attacker.example/topics HTTP/1.1", "localhost", 421),
        ("GET http://attacker.example/topics HTTP/1.0", None, 421),
        ("GET http://localhost:8082/topics HTTP/1.1", "attacker.example", 200),
        ("GET /topics HTTP/1.1", None, 400),
    ],
)
def test_the_name_that_counts_is_the_one_of_the_target_and_old_clients_need_none(server, request_line, host, status):
    lines = [request_line, *([] if host is None else [f"Host: {host}"]), "", ""]
    with RawClient(server.port) as client:
        assert client.ask("\r\n".join(lines).encode()).status == status


def test_two_names_are_none(server: Server):
    assert get(server, "localhost", ("Host", "localhost")).status == 400


def test_a_name_is_looked_at_again_with_every_other_head(server: Server):
    """On one connection, as a page would be that was led here after its first request."""
    head = "GET /topics HTTP/1.1\r\nHost: %s\r\n\r\n"
    with RawClient(server.port) as client:
        for host, status in (("localhost", 200), ("attacker.example", 421), ("localhost", 200), (NAME, 200)) * 2:
            assert client.ask((head % host).encode()).status == status


def test_every_name_passes_where_the_setting_says_so():
    with serving(None, advertised_hosts="*") as server:
        assert get(server, "attacker.example").status == 200
        assert get(server, "").status == 200


def link(server: Server, *fields: tuple[str, str]) -> str:
    answer = get(server, "localhost:8082", *fields, path="/v3/clusters")
    return json.loads(answer.body).get("metadata", {}).get("self", answer.status)


SPOOFS: Final = (
    ("X-Forwarded-Host", "evil.example"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Port", "99"),
    ("X-Forwarded-Prefix", "/evil"),
    ("Forwarded", "host=evil.example;proto=https"),
)


@pytest.mark.parametrize("spoof", SPOOFS, ids=lambda each: each[0])
def test_nobody_but_a_trusted_proxy_says_under_which_address_a_client_called(server: Server, spoof: tuple[str, str]):
    assert link(server, spoof) == "http://localhost:8082/v3/clusters"
    created = ask(server.port, "POST", "/consumers/spoofed", [("Host", "localhost:8082"), spoof, JSON])
    assert json.loads(created.body)["base_uri"].startswith("http://localhost:8082/consumers/spoofed/")


def test_a_trusted_proxy_says_it(behind_a_proxy: Server):
    said = [("X-Forwarded-Host", NAME), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Prefix", "/kafka")]
    assert link(behind_a_proxy, *said) == f"https://{NAME}/kafka/v3/clusters"
    assert link(behind_a_proxy, ("Forwarded", f"host={NAME};proto=https")) == f"https://{NAME}/v3/clusters"


def test_what_a_trusted_proxy_says_must_be_a_name_of_the_server_too(behind_a_proxy: Server):
    """A page that was led to the proxy has its own name passed on."""
    for spoof in (("X-Forwarded-Host", "evil.example"), ("Forwarded", "host=evil.example")):
        assert link(behind_a_proxy, spoof) == 421


def test_a_page_of_a_server_behind_a_proxy_is_its_own(behind_a_proxy: Server):
    said = [("X-Forwarded-Host", NAME), ("X-Forwarded-Proto", "https"), ("Origin", f"https://{NAME}")]
    assert ask(behind_a_proxy.port, "POST", "/producers", said).status == 200
    said[1] = ("X-Forwarded-Proto", "http")
    assert ask(behind_a_proxy.port, "POST", "/producers", said).status == 403
