"""Ids for idempotent producers."""

from __future__ import annotations

import pytest

from tests.support.http_app import HttpApp, error_code


def test_an_id_is_handed_out_that_nobody_has(app: HttpApp):
    one, other = app.post("/producers").json(), app.post("/producers", json={}).json()
    assert one["epoch"] == other["epoch"] == 0
    assert one["producer_id"] != other["producer_id"]


def test_under_a_name_the_epoch_goes_up(app: HttpApp):
    given = [app.post("/producers", json={"transactional_id": "loader"}).json() for _ in range(3)]
    assert len({each["producer_id"] for each in given}) == 1
    assert [each["epoch"] - given[0]["epoch"] for each in given] == [0, 1, 2]


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"transactional_id": 1}', b'{"transactional_id": ""}', b'{"id": "a"}', b'"loader"']
)
def test_a_malformed_request_is_refused(app: HttpApp, body: bytes):
    assert error_code(app.post("/producers", content=body)) == (422, 422)


def test_a_name_that_cannot_be_an_id_is_refused(app: HttpApp):
    for name in ("x" * 256, "a\nb", "e\u0301"):
        assert error_code(app.post("/producers", json={"transactional_id": name})) == (422, 422)


def test_only_json_is_taken_and_given(app: HttpApp):
    assert error_code(app.post("/producers", content=b"{}", headers={"content-type": "text/plain"})) == (415, 415)
    assert error_code(app.post("/producers", headers={"accept": "text/html"})) == (406, 406)
    assert error_code(app.post("/producers?name=a")) == (422, 422)
