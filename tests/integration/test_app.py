"""What holds for every route, and for what is none."""

import threading

import pytest

from ingest_api.server.app import list_operations
from ingest_api.web.request import Call, Reply
from ingest_api.web.route_spec import Operation
from tests.support.http_app import HttpApp, error_code

PAGE = "https://shop.example"


def test_what_is_no_route_is_said_to_be_none(app: HttpApp):
    answer = app.get("/nothing/here")
    assert error_code(answer) == (404, 404)
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/brokers", "GET, HEAD"),
        ("PATCH", "/topics/orders", "DELETE, GET, HEAD, POST, PUT"),
        ("POST", "/topics/orders/partitions/0/records", "GET, HEAD"),
        ("OPTIONS", "/topics/orders", "DELETE, GET, HEAD, POST, PUT"),
    ],
)
def test_a_method_that_a_route_does_not_have_is_refused_with_those_it_has(app: HttpApp, method, path, allowed):
    answer = app.request(method, path)
    assert error_code(answer) == (405, 405)
    assert answer.headers["allow"] == allowed


def test_no_two_routes_share_a_name_or_a_place(app: HttpApp):
    operations = list_operations(app.tier)
    assert len({operation.name for operation in operations}) == len(operations)
    assert len({(operation.method, operation.path) for operation in operations}) == len(operations)


def test_a_trailing_slash_changes_nothing(app: HttpApp):
    assert app.put("/topics/orders/").status_code == 201
    assert app.post("/topics/orders/", json={"records": [{"value": 1}]}).status_code == 200
    assert app.get("/topics/orders/partitions/0/records/").json()["value"] == 1
    assert app.get("/topics/").json() == ["orders"]


def test_a_head_has_the_headers_of_a_get(app: HttpApp):
    app.put("/topics/orders")
    for path in ("/topics", "/topics/orders/partitions/0/records"):
        answer = app.request("HEAD", path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == app.get(path).headers["content-type"]


class TestPagesOfOthers:
    @pytest.fixture
    def open_app(self, http_place):
        with HttpApp(http_place.open(), cors_origins=(PAGE,)) as made:
            yield made

    def test_a_page_that_is_named_may_call_every_route(self, open_app: HttpApp):
        asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
        answer = open_app.request("OPTIONS", "/topics/orders", headers=asked)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        open_app.put("/topics/orders", headers={"Origin": PAGE})
        produced = open_app.post("/topics/orders", json={"records": [{"value": 1}]}, headers={"Origin": PAGE})
        assert produced.headers["access-control-allow-origin"] == PAGE
        assert "lakelog-next-offset" in produced.headers["access-control-expose-headers"].lower()

    def test_another_page_may_not(self, open_app: HttpApp):
        answer = open_app.request(
            "OPTIONS",
            "/topics/orders",
            headers={"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"},
        )
        assert answer.status_code == 400
        assert "access-control-allow-origin" not in answer.headers

    def test_without_the_setting_no_page_may(self, app: HttpApp):
        answer = app.get("/topics", headers={"Origin": PAGE})
        assert "access-control-allow-origin" not in answer.headers


def test_an_encoded_colon_in_a_route_is_a_colon(app: HttpApp):
    app.put("/topics/orders")
    app.post("/topics/orders", json={"records": [{"value": 1}, {"value": 2}]})
    answer = app.post("/topics/orders/partitions/0/records%3Adelete", json={"before_offset": 1})
    assert answer.json() == {"log_start_offset": 1}


def test_what_the_disk_does_not_let_end_is_answered_at_the_deadline_as_unknown(http_place):
    held = threading.Event()
    with HttpApp(http_place.open(), request_timeout_ms=100) as app:

        async def act(_call: Call) -> Reply:
            await app.tier.in_thread(held.wait, 20)
            return Reply(204)

        app.asgi.add_route(
            "/held", app.asgi._endpoint(Operation("GET", "/held", "held", "Hold", act, "tests", ())), ["GET"]
        )
        answer = app.get("/held")
        held.set()
    assert error_code(answer) == (504, 50401)
    assert answer.json()["outcome"] == "unknown"
