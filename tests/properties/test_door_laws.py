"""What the door decides of a request does not depend on the requests before it."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from ingest_api.config.settings import ServerSettings
from ingest_api.web.admission import Door
from ingest_api.web.errors import Refusal
from ingest_api.web.hosts import Hosts
from ingest_api.web.route_spec import Content, Operation

SETTINGS: Final = ServerSettings(cors_origins=("https://board.example",), advertised_hosts=("lake.example",))


async def act(_: Any) -> Any: ...


BODY: Final = Content({"application/json": {}})
OPERATIONS: Final = (
    Operation("POST", "/takes", "takes", "X", act, "x", (), body=BODY),
    Operation("POST", "/bare", "bare", "X", act, "x", ()),
    Operation("DELETE", "/gone", "gone", "X", act, "x", ()),
    Operation("GET", "/poll", "poll", "X", act, "x", ()),
    Operation("GET", "/reads", "reads", "X", act, "x", (), reads=True),
    Operation("GET", "/lives", "lives", "X", act, "x", (), reads=True, under_any_name=True),
)
VALUES: Final = {
    b"host": [b"localhost", b"127.0.0.1:8082", b"lake.example", b"evil.example", b""],
    b"origin": [b"http://localhost", b"https://board.example", b"http://evil.example", b"null"],
    b"sec-fetch-site": [b"same-origin", b"none", b"same-site", b"cross-site"],
    b"referer": [b"http://localhost/docs", b"http://evil.example/"],
    b"user-agent": [b"curl/8.5.0", b"Mozilla/5.0"],
    b"x-requested-with": [b"docs"],
    b"content-type": [b"application/json", b"text/plain", b"application/x-www-form-urlencoded", b"text/ping"],
    b"content-length": [b"0", b"12"],
    b"accept": [b"*/*"],
}
FIELD: Final = st.sampled_from([(name, value) for name, values in VALUES.items() for value in values])
REQUEST: Final = st.tuples(st.sampled_from(OPERATIONS), st.lists(FIELD, max_size=6))


def decide(door: Door, operation: Operation, headers: list[tuple[bytes, bytes]]) -> int | None:
    scope = {"type": "http", "http_version": "1.1", "method": operation.method, "scheme": "http", "headers": headers}
    try:
        door.admit(operation, scope)
    except Refusal as refusal:
        return refusal.code
    return None


def new_door() -> Door:
    return Door(SETTINGS, Hosts((), SETTINGS.advertised_hosts))


@given(st.lists(REQUEST, min_size=1, max_size=12))
def test_a_door_that_has_met_others_decides_as_a_new_one(requests):
    door = new_door()
    for operation, headers in requests:
        for _ in range(2):
            assert decide(door, operation, headers) == decide(new_door(), operation, headers)


@given(REQUEST)
def test_what_changes_something_is_admitted_from_no_page_that_is_not_known(request):
    operation, headers = request
    door = new_door()
    decide(door, OPERATIONS[0], [(b"host", b"localhost"), (b"content-type", b"application/json")])
    foreign = any(value in (b"null", b"http://evil.example") for name, value in headers if name == b"origin")
    far = any(value in (b"same-site", b"cross-site") for name, value in headers if name == b"sec-fetch-site")
    known = any(value in {b"https://board.example", b"http://localhost"} for _, value in headers)
    if decide(door, operation, headers) is None and not operation.reads:
        assert not foreign
        assert known or not far
