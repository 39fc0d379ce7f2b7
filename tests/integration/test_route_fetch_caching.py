"""How long the answer to a read by offset may be kept, and that a client which has it is not sent it again."""

from __future__ import annotations

import httpx
import pytest

from delta_log import Record
from tests.support.http_app import HttpApp

RECORDS = "/topics/orders/partitions/0/records"


def made(app: HttpApp, count: int, **config: object) -> HttpApp:
    app.log.create_topic("orders", 2, config)  # type: ignore[arg-type]
    app.log.append("orders", [Record(b"%d" % n, key=b"k%d" % n, partition=0) for n in range(count)])
    return app


def cache_of(app: HttpApp, query: str) -> str:
    return app.get(f"{RECORDS}?{query}").headers["cache-control"]


def test_only_a_range_that_nothing_can_change_is_kept(app: HttpApp):
    made(app, 10, **{"file.delete.delay.ms": 60_000})
    assert cache_of(app, "offset=2&max_records=3") == "private, max-age=60"
    assert cache_of(app, "offset=2&max_bytes=1") == "private, max-age=60"
    for changing in (
        "offset=2",
        "offset=2&max_records=8",
        "offset=10",
        "offset=earliest&max_records=3",
        "max_records=3",
        "timestamp=0&max_records=3",
    ):
        assert cache_of(app, changing) == "no-cache", changing


@pytest.mark.parametrize(
    "config", [{"cleanup.policy": "compact"}, {"file.delete.delay.ms": 0}, {"cleanup.policy": "compact,delete"}]
)
def test_what_may_go_away_is_not_kept(app: HttpApp, config: dict[str, object]):
    made(app, 10, **config)
    assert cache_of(app, "offset=2&max_records=3") == "no-cache"


def test_the_name_of_an_answer_is_of_these_records_in_this_shape(app: HttpApp):
    made(app, 10)
    paths = [
        f"{RECORDS}?offset=2", f"{RECORDS}?offset=3", f"{RECORDS}?offset=2&max_records=3",
        f"{RECORDS}?offset=2&decode=base64", "/topics/orders/partitions/1/records",
    ]  # fmt: skip
    names = [app.get(path).headers["etag"] for path in paths]
    names += [
        app.get(paths[0], headers={"accept": media}).headers["etag"]
        for media in ("application/vnd.kafka.json.v2+json", "application/vnd.apache.arrow.stream")
    ]
    assert len(set(names)) == len(names)
    assert all(name[0] == name[-1] == '"' for name in names)
    assert [app.get(path).headers["etag"] for path in paths] == names[:5]
    assert app.get(paths[0]).headers["vary"] == "accept"
    app.log.append("orders", [Record(b"10", partition=0)])
    assert app.get(paths[0]).headers["etag"] != names[0]
    assert app.get(paths[2]).headers["etag"] == names[2]


def test_a_topic_that_is_made_anew_has_other_names(app: HttpApp):
    made(app, 10)
    before = app.get(f"{RECORDS}?offset=0&max_records=1").headers["etag"]
    app.log.delete_topic("orders")
    made(app, 10)
    assert app.get(f"{RECORDS}?offset=0&max_records=1").headers["etag"] != before


def asked(app: HttpApp, *etags: str) -> httpx.Response:
    return app.get(f"{RECORDS}?offset=0", headers=[("if-none-match", etag) for etag in etags])


def test_a_client_that_has_the_records_is_not_sent_them(app: HttpApp):
    made(app, 3)
    whole = app.get(f"{RECORDS}?offset=0")
    etag = whole.headers["etag"]
    for given in ((etag,), (f'"x", {etag}',), (f"W/{etag}",), ('"x"', etag), ("*",), (f" {etag} ",)):
        known = asked(app, *given)
        assert known.status_code == 304, given
        assert known.content == b""
        assert "content-length" not in known.headers
        assert "content-type" not in known.headers
        for name in ("etag", "cache-control", "vary", "lakelog-next-offset", "lakelog-end-offset"):
            assert known.headers[name] == whole.headers[name]
    for given in (('"x"',), (etag.strip('"'),), ("",), ("*, *",)):
        assert asked(app, *given).status_code == 200, given
    assert app.tier.read_room.held == 0
