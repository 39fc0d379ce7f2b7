"""No web page of another origin changes anything: raw requests with the fields that a browser was seen to send.

Recorded with Chromium 156 from a page of another port of this machine (same-site) and of another name (cross-site), for
a server on this machine and for one by its name over plain http, to which browsers send no `Sec-Fetch-*`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from ingest_api.web.admission import UNTYPED
from ingest_api.web.cross_site import FOREIGN_PAGE
from ingest_api.web.route_spec import Operation
from tests.support.every_route import ask, cluster_of, code_of, every_operation, path_of, read_everything
from tests.support.raw_http import RawClient
from tests.support.serving import Server, serving

Fields = list[tuple[str, str]]

FRIEND: Final = "https://board.example"
BROWSER: Final = ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0")
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = ("Content-Type", "application/json")
RECORDS: Final = b'{"records": [{"value": 1}]}'
SAME_SITE: Final[Fields] = [BROWSER, ("Sec-Fetch-Site", "same-site"), ("Referer", "http://localhost:3000/")]
CROSS_SITE: Final[Fields] = [BROWSER, ("Sec-Fetch-Site", "cross-site"), ("Referer", "http://evil.example/")]
FOREIGN: Final[dict[str, Fields]] = {
    "an image on this machine": SAME_SITE,
    "an image of another name": CROSS_SITE,
    "an image without a referrer": [BROWSER, ("Sec-Fetch-Site", "cross-site")],
    "an image by name, over http": [BROWSER, ("Referer", "http://evil.example/")],
    "an image by name, over http, without a referrer": [BROWSER],
    "a script on this machine": [*SAME_SITE, ("Origin", "http://localhost:3000")],
    "a script of another name": [*CROSS_SITE, ("Origin", "http://evil.example")],
    "a script by name, over http": [BROWSER, ("Origin", "http://evil.example")],
    "a sandboxed frame": [BROWSER, ("Sec-Fetch-Site", "cross-site"), ("Origin", "null")],
    "an old browser": [("Origin", "http://evil.example")],
    "a port that begins like ours": [BROWSER, ("Origin", "http://127.0.0.1:1")],
    "a name that begins like ours": [BROWSER, ("Origin", "http://127.0.0.1.evil.example")],
    "two origins": [("Origin", "http://evil.example"), ("Origin", "http://evil.example")],
    "a site that nobody knows": [("Sec-Fetch-Site", "near")],
    "two sites": [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")],
}
OPERATIONS: Final = every_operation()
CHANGING: Final = [each for each in OPERATIONS if not each.reads]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(None, auto_create_topics=True, cors_origins=FRIEND) as made:
        assert ask(made.port, "PUT", "/topics/orders").status == 201
        assert ask(made.port, "POST", "/topics/orders", [JSON], RECORDS).status == 200
        made_of = ask(
            made.port, "POST", "/consumers/billing", [JSON], b'{"name": "till", "auto.offset.reset": "earliest"}'
        )
        assert made_of.status == 200
        subscription = "/consumers/billing/instances/till/subscription"
        assert ask(made.port, "POST", subscription, [JSON], b'{"topics": ["orders"]}').status == 204
        yield made


def asked_of_all(
    server: Server, operations: list[Operation], fields: Fields, body: bytes = b""
) -> dict[str, tuple[int, int]]:
    """The status and code that each answers; all of them together must have left everything as it was."""
    cluster = cluster_of(server.port)
    before = read_everything(server.port, OPERATIONS, cluster)
    found: dict[str, tuple[int, int]] = {}
    for each in operations:
        answer = ask(server.port, each.method, path_of(each, cluster), fields, body)
        found[f"{each.method} {each.path}"] = answer.status, code_of(answer)
    assert read_everything(server.port, OPERATIONS, cluster) == before
    return found


@pytest.mark.parametrize("fields", FOREIGN.values(), ids=FOREIGN)
def test_no_page_of_another_origin_reaches_a_route_that_changes_anything(server: Server, fields: Fields):
    says_it = any(name in ("Origin", "Sec-Fetch-Site") for name, _ in fields)
    # Without either a browser sends no other methods: it asks first, and says for whom.
    sent = [each for each in CHANGING if says_it or each.method in ("GET", "POST")]
    found = asked_of_all(server, sent, fields)
    assert {route for route, answer in found.items() if answer != (403, FOREIGN_PAGE)} == set()


@pytest.mark.parametrize(
    "media", [None, FORM, "text/plain;charset=UTF-8", "multipart/form-data; boundary=x", "text/ping"]
)
def test_a_body_of_which_a_browser_does_not_ask_first_is_refused_by_every_route(server: Server, media: str | None):
    """Whatever else it says: so no page sends one that any route would take."""
    fields = [] if media is None else [("Content-Type", media)]
    found = asked_of_all(server, [each for each in CHANGING if each.method != "GET"], fields, RECORDS)
    code = 415 if media else UNTYPED
    assert {route for route, answer in found.items() if answer != (415, code)} == set()


def test_a_poll_of_another_page_moves_nothing(server: Server):
    """The next poll would commit what that one was given."""
    poll = "/consumers/billing/instances/till/records?timeout=100"
    for fields in FOREIGN.values():
        assert ask(server.port, "GET", poll, fields).status == 403
        assert ask(server.port, "HEAD", poll, fields).status == 403
    values = [each["value"] for each in json.loads(ask(server.port, "GET", poll).body)]
    assert values, "it is given to who may poll, and only now"


@pytest.mark.parametrize(
    "fields",
    [
        [BROWSER, ("Sec-Fetch-Site", "cross-site"), ("Origin", FRIEND)],
        [("Origin", FRIEND.upper())],
        [BROWSER, ("Sec-Fetch-Site", "same-origin")],
        [BROWSER, ("Sec-Fetch-Site", "none")],
        [BROWSER, ("X-Requested-With", "docs")],
        [("User-Agent", "curl/8.5.0")],
        [],
    ],
    ids=["a page that is named", "its name in capitals", "its own page", "an address that was typed",
         "a page of its own by name", "curl", "a program"],
)  # fmt: skip
def test_who_may_change_things_still_does(server: Server, fields: Fields):
    assert ask(server.port, "POST", "/topics/orders", [JSON, *fields], RECORDS).status == 200
    assert ask(server.port, "POST", "/producers", fields).status == 200
    assert ask(server.port, "GET", "/consumers/billing/instances/till/records?timeout=0", fields).status == 200


def test_its_own_page_is_known_by_the_name_that_was_called(server: Server):
    port = server.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", "localhost"):
        fields = [("Host", host), ("Origin", f"http://{host.lower()}"), BROWSER]
        assert ask(port, "POST", "/topics/orders", [JSON, *fields], RECORDS).status == 200
        fields[1] = ("Origin", f"https://{host.lower()}")
        assert ask(port, "POST", "/topics/orders", [JSON, *fields], RECORDS).status == 403
        fields.append(("Sec-Fetch-Site", "same-origin"))  # a proxy ended TLS, and did not say so
        assert ask(port, "POST", "/topics/orders", [JSON, *fields], RECORDS).status == 200


def test_a_page_may_lead_its_reader_to_what_only_reads(server: Server):
    for path in ("/docs", "/topics", "/topics/orders/records"):
        assert ask(server.port, "GET", path, [*CROSS_SITE, ("Sec-Fetch-Mode", "navigate")]).status == 200


def test_an_empty_body_of_curl_is_one_and_that_of_a_form_is_not(server: Server):
    empty = ("Content-Type", FORM)
    assert ask(server.port, "POST", "/producers", [empty, ("User-Agent", "curl/8.5.0")]).status == 200
    assert ask(server.port, "POST", "/producers", [empty, BROWSER, ("Sec-Fetch-Site", "same-origin")]).status == 415
    assert ask(server.port, "POST", "/producers", [("Content-Type", "text/plain")]).status == 415


def test_a_chunked_body_needs_a_type_as_well(server: Server):
    fields = [("Transfer-Encoding", "chunked"), ("Host", "localhost")]
    lines = ["POST /topics/orders HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
    with RawClient(server.port) as client:
        answer = client.ask("\r\n".join(lines).encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(RECORDS), RECORDS))
    assert (answer.status, code_of(answer)) == (415, UNTYPED)
    assert "application/x-ndjson" in json.loads(answer.body)["message"]


def test_a_repeated_head_is_judged_as_the_first_was(server: Server):
    """The wire remembers heads, and the door what it decided of them."""
    typed = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 27\r\n"
    head = f"POST /topics/orders HTTP/1.1\r\n{typed}%s\r\n"
    with RawClient(server.port) as client:
        for _ in range(3):
            assert client.ask((head % "").encode() + RECORDS).status == 200
            assert client.ask((head % "Origin: http://evil.example\r\n").encode() + RECORDS).status == 403
            assert client.ask((head % "Origin: http://evil.example\r\n").encode() + RECORDS).status == 403


def test_every_origin_may_where_the_setting_says_so(tmp_path):
    with serving(None, auto_create_topics=True, cors_origins="*") as server:
        fields = [JSON, *CROSS_SITE, ("Origin", "null")]
        assert ask(server.port, "POST", "/topics/orders", fields, RECORDS).status == 200
        assert ask(server.port, "POST", "/topics/orders", CROSS_SITE, RECORDS).status == 415


def test_what_only_reads_is_said_of_gets_alone_and_of_no_route_of_an_instance():
    assert {each.method for each in OPERATIONS if each.reads} == {"GET"}
    assert not [each.path for each in OPERATIONS if each.reads and each.path.startswith("/consumers")]

    async def act(_): ...

    with pytest.raises(ValueError, match="only reads"):
        Operation("POST", "/x", "x", "X", act, "x", (), reads=True)
    assert not Operation("GET", "/x", "x", "X", act, "x", ()).reads, "a new route is guarded until it says otherwise"
