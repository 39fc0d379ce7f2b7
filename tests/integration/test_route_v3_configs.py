"""v3's settings of a topic."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_app import BASE, HttpApp, error_code


def configs(app: HttpApp, path: str = "") -> str:
    return f"/v3/clusters/{app.log.cluster_id}/topics/orders/configs{path}"


@pytest.fixture(autouse=True)
def orders(app: HttpApp) -> None:
    app.log.create_topic("orders", 1, {"retention.ms": 1000})


def explicit(app: HttpApp) -> dict[str, Any]:
    return dict(app.log.describe_topic("orders").config.explicit)


def test_every_setting_is_listed_with_its_source(app: HttpApp):
    listed = app.get(configs(app)).json()
    assert listed["kind"] == "KafkaTopicConfigList"
    by_name = {each["name"]: each for each in listed["data"]}
    assert set(by_name) == {each.name for each in app.log.describe_topic("orders").config.describe()}
    assert by_name["retention.ms"] == app.get(configs(app, "/retention.ms")).json()
    assert by_name["segment.ms"]["source"] == "DEFAULT_CONFIG"
    assert by_name["segment.ms"]["is_default"] is True


def test_a_setting_says_its_value_and_what_it_stands_before(app: HttpApp):
    setting = app.get(configs(app, "/retention.ms")).json()
    assert (setting["value"], setting["source"], setting["is_default"]) == ("1000", "DYNAMIC_TOPIC_CONFIG", False)
    assert (setting["is_read_only"], setting["is_sensitive"]) == (False, False)
    assert setting["synonyms"] == [
        {"name": "retention.ms", "value": "1000", "source": "DYNAMIC_TOPIC_CONFIG"},
        {"name": "retention.ms", "value": "604800000", "source": "DEFAULT_CONFIG"},
    ]
    assert setting["metadata"]["self"] == f"{BASE}{configs(app, '/retention.ms')}"
    assert setting["metadata"]["resource_name"].endswith("/topic=orders/config=retention.ms")


@pytest.mark.parametrize("value", ["5000", 5000], ids=["text", "number"])
def test_a_value_may_be_a_number_or_its_text(app: HttpApp, value: str | int):
    changed = app.put(configs(app, "/retention.ms"), json={"value": value})
    assert (changed.status_code, changed.content) == (204, b"")
    assert explicit(app) == {"retention.ms": 5000}


def test_a_setting_goes_back_to_its_default(app: HttpApp):
    assert app.delete(configs(app, "/retention.ms")).status_code == 204
    assert explicit(app) == {}
    assert app.delete(configs(app, "/retention.ms")).status_code == 204


def test_several_settings_are_changed_at_once(app: HttpApp):
    data = [
        {"name": "retention.ms", "operation": "DELETE"},
        {"name": "segment.ms", "value": "77"},
        {"name": "cleanup.policy", "value": "compact", "operation": "SET"},
    ]
    assert app.post(configs(app, ":alter"), json={"data": data}).status_code == 204
    assert explicit(app) == {"segment.ms": 77, "cleanup.policy": "compact"}


def test_what_is_only_validated_is_not_changed(app: HttpApp):
    data = [{"name": "segment.ms", "value": "77"}]
    assert app.post(configs(app, ":alter"), json={"data": data, "validate_only": True}).status_code == 204
    wrong = [{"name": "segment.ms", "value": "x"}]
    refused = app.post(configs(app, ":alter"), json={"data": wrong, "validate_only": True})
    assert error_code(refused) == (400, 40002)
    assert explicit(app) == {"retention.ms": 1000}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "segment.ms", "value": "x"},
        {"name": "segment.ms"},
        {"name": "segment.ms", "operation": "SET"},
        {"name": "segment.ms", "value": "1", "operation": "DELETE"},
        {"name": "retention.ms", "value": "7"},
        {"name": "min.compaction.lag.ms", "value": 9_223_372_036_854_775_807},
    ],
)
def test_where_one_change_is_wrong_none_is_made(app: HttpApp, wrong: dict[str, Any]):
    data = [{"name": "retention.ms", "value": "5"}, wrong, {"name": "max.compaction.lag.ms", "value": 5}]
    assert error_code(app.post(configs(app, ":alter"), json={"data": data})) == (400, 40002)
    assert explicit(app) == {"retention.ms": 1000}


def test_an_unknown_setting_is_not_found(app: HttpApp):
    for name in ("no.such", "Retention.ms", "lakelog.retention.ms", "%20"):
        assert error_code(app.get(configs(app, f"/{name}"))) == (404, 404)
        assert error_code(app.put(configs(app, f"/{name}"), json={"value": "1"})) == (404, 404)
        assert error_code(app.delete(configs(app, f"/{name}"))) == (404, 404)
    data = [{"name": "segment.ms", "value": "77"}, {"name": "no.such", "value": "1"}]
    assert error_code(app.post(configs(app, ":alter"), json={"data": data})) == (404, 404)
    assert explicit(app) == {"retention.ms": 1000}


@pytest.mark.parametrize("value", ["-2", "", "1e3", " 5", 1.5, -3])
def test_a_value_that_a_setting_cannot_have_is_a_bad_request(app: HttpApp, value: object):
    assert error_code(app.put(configs(app, "/retention.ms"), json={"value": value})) == (400, 40002)
    assert explicit(app) == {"retention.ms": 1000}


@pytest.mark.parametrize("body", [b"", b"{}", b'{"value": null}', b'{"value": true}', b'{"value": "1", "value": "2"}'])
def test_a_malformed_value_is_refused(app: HttpApp, body: bytes):
    assert error_code(app.put(configs(app, "/retention.ms"), content=body)) == (422, 422)
    assert explicit(app) == {"retention.ms": 1000}


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"data": {}}',
        b'{"data": [{"name": "segment.ms", "value": "1", "operation": "APPEND"}]}',
        b'{"data": [{"name": "segment.ms", "value": "1", "x": 1}]}',
        b'{"data": [{"value": "1"}]}',
        b'{"data": [], "validate_only": 1}',
    ],
)
def test_malformed_changes_are_refused(app: HttpApp, body: bytes):
    assert error_code(app.post(configs(app, ":alter"), content=body)) == (422, 422)
    assert explicit(app) == {"retention.ms": 1000}


def test_a_setting_that_is_mistyped_is_told_the_nearest(app: HttpApp):
    said = app.get(configs(app, "/retention.mss")).json()["message"]
    assert said == "topic orders has no setting 'retention.mss'; the nearest is retention.ms"
    assert app.get(configs(app, "/zzz")).json()["message"] == "topic orders has no setting 'zzz'"
