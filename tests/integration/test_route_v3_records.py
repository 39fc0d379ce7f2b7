"""Producing by v3: objects in, receipts out, each for itself.

It is long, as every type of key and value has its receipts and refusals in one table.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx
import pytest

from delta_log.model.types import Record
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW, Place, everything

DEADLINE_S = 20


def records(app: HttpApp, topic: str = "orders") -> str:
    return f"/v3/clusters/{app.log.cluster_id}/topics/{topic}/records"


def value(data: Any, kind: str = "JSON") -> dict[str, Any]:
    return {"value": {"type": kind, "data": data}}


def receipts(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200
    return [json.loads(line) for line in response.text.splitlines()]


@pytest.fixture(autouse=True)
def orders(app: HttpApp) -> None:
    app.log.create_topic("orders", 2)


def test_a_record_has_a_receipt(app: HttpApp):
    sent = {
        "partition_id": 1,
        "headers": [{"name": "a", "value": base64.b64encode(b"\x00\xff").decode()}, {"name": "b", "value": None}],
        "key": {"type": "STRING", "data": "kä"},
        "value": {"type": "BINARY", "data": "AAEC"},
        "timestamp": "2020-02-05T19:14:42.5Z",
    }
    (receipt,) = receipts(app.post(records(app), json=sent))
    assert receipt == {
        "error_code": 200,
        "cluster_id": app.log.cluster_id,
        "topic_name": "orders",
        "partition_id": 1,
        "offset": 0,
        "timestamp": "2020-02-05T19:14:42.500Z",
        "key": {"type": "STRING", "size": 3},
        "value": {"type": "BINARY", "size": 3},
    }
    (stored,) = everything(app.log, "orders", 1)
    assert (stored.key, stored.value) == ("kä".encode(), b"\x00\x01\x02")
    assert stored.headers == (("a", b"\x00\xff"), ("b", None))
    assert stored.timestamp == 1_580_930_082_500


@pytest.mark.parametrize(
    ("datum", "stored"),
    [
        ('{"type": "JSON", "data": {"b": 1.0, "a": [1e3, "\\u00e4"]}}', b'{"b": 1.0, "a": [1e3, "\\u00e4"]}'),
        ('{"type": "JSON", "data": {"a": 1, "a": 2}}', b'{"a": 1, "a": 2}'),
        ('{"type": "JSON", "data": "x"}', b'"x"'),
        ('{"type": "JSON", "data": false}', b"false"),
        ('{"type": "JSON", "data": null}', None),
        ('{"type": "JSON"}', None),
        ('{"type": "STRING", "data": "\\ud83d\\ude00"}', "😀".encode()),
        ('{"type": "STRING", "data": ""}', b""),
        ('{"type": "BINARY", "data": ""}', b""),
        ('{"type": "BINARY", "data": null}', None),
        ("null", None),
    ],
)
def test_content_is_stored_as_it_was_sent(app: HttpApp, datum: str, stored: bytes | None):
    sent = f'{{"partition_id": 0, "value": {datum}, "key": {datum}}}'.encode()
    (receipt,) = receipts(app.post(records(app), content=sent))
    (record,) = everything(app.log, "orders")
    assert (record.key, record.value) == (stored, stored)
    if datum != "null":
        assert receipt["value"]["size"] == len(stored or b"")


def test_a_record_may_have_nothing_at_all(app: HttpApp):
    (receipt,) = receipts(app.post(records(app), json={}))
    assert "key" not in receipt
    assert "value" not in receipt


@pytest.mark.parametrize(
    ("timestamp", "milliseconds", "told"),
    [
        (1000, 1000, "1970-01-01T00:00:01Z"),
        ("1970-01-01T01:00:00.001999+01:00", 1, "1970-01-01T00:00:00.001Z"),
        ("2024-02-29t00:00:00z", 1_709_164_800_000, "2024-02-29T00:00:00Z"),
    ],
)
def test_a_timestamp_is_a_date_or_milliseconds(app: HttpApp, timestamp: object, milliseconds: int, told: str):
    (receipt,) = receipts(app.post(records(app), json={"partition_id": 0, "timestamp": timestamp}))
    assert receipt["timestamp"] == told
    assert everything(app.log, "orders")[0].timestamp == milliseconds


def test_without_a_timestamp_it_is_the_time_of_the_append(app: HttpApp):
    assert receipts(app.post(records(app), json={}))[0]["timestamp"] == "2027-01-15T08:00:00Z"
    app.log.alter_topic("orders", {"message.timestamp.type": "LogAppendTime"})
    given = receipts(app.post(records(app), json={"timestamp": NOW - 1000}))
    assert given[0]["timestamp"] == "2027-01-15T08:00:00Z"


def test_objects_have_receipts_in_their_order(app: HttpApp):
    for gap in ("", "\n", " \r\n\t"):
        body = gap.join(json.dumps(value(number) | {"partition_id": 0}) for number in range(1200))
        given = receipts(app.post(records(app), content=body))
        assert [each["error_code"] for each in given] == [200] * 1200
        offsets = [each["offset"] for each in given]
        assert offsets == list(range(offsets[0], offsets[0] + 1200))
    assert [record.value for record in everything(app.log, "orders")] == [b"%d" % n for n in range(1200)] * 3


BAD = [
    (value("%%%", "BINARY"), 422),
    (value("QR==", "BINARY"), 422),
    (value(1, "STRING"), 422),
    (value({"a": 1}, "BINARY"), 422),
    (value(1, "AVRO"), 422),
    ({"value": {"data": 1}}, 422),
    ({"value": {"type": "JSON", "data": 1, "schema_id": 1}}, 422),
    ({"value": 1}, 422),
    ({"other": 1}, 422),
    ({"partition_id": "1"}, 422),
    ({"partition_id": True}, 422),
    ({"partition_id": 2}, 40402),
    ({"partition_id": -1}, 40402),
    ({"partition_id": 99_999_999_999}, 422),
    ({"timestamp": "yesterday"}, 422),
    ({"timestamp": "2021-02-30T00:00:00Z"}, 422),
    ({"timestamp": "2021-02-05T19:14:42"}, 422),
    ({"timestamp": 1.5}, 422),
    ({"timestamp": -1}, 40002),
    ({"timestamp": NOW * 1000}, 40002),
    ({"headers": [{"name": "a", "value": "x"}]}, 422),
    ({"headers": [{"value": "QQ=="}]}, 422),
    ({"headers": [{"name": "a"}] * 101}, 422),
    ({"headers": {"a": "QQ=="}}, 422),
    (value("x" * 1_100_000), 40002),
]


@pytest.mark.parametrize(("bad", "code"), BAD, ids=range(len(BAD)))
def test_one_bad_record_alone_is_told_by_the_status(app: HttpApp, bad: dict[str, Any], code: int):
    assert error_code(app.post(records(app), json=bad)) == (int(str(code)[:3]), code)
    assert everything(app.log, "orders") == []


def test_a_bad_record_keeps_none_of_the_others_back(app: HttpApp):
    sent: list[dict[str, Any]] = []
    for number, (bad, _) in enumerate(BAD):
        sent += [value(number) | {"partition_id": 0}, bad]
    given = receipts(app.post(records(app), content="".join(map(json.dumps, sent))))
    assert [each["error_code"] for each in given] == [code for _, bad in BAD for code in (200, bad)]
    assert all(each["message"] for each in given[1::2])
    assert [record.value for record in everything(app.log, "orders")] == [b"%d" % n for n in range(len(BAD))]


@pytest.mark.parametrize(
    "bad",
    [
        b'{"value": {"type": "JSON", "data": NaN}}',
        b'{"value": {"type": "JSON", "data": "\\ud800"}}',
        b'{"value": {"type": "JSON", "data": "\xff"}}',
        b'{"partition_id": 0, "partition_id": 1}',
        b'{"value": {"type": "JSON", "type": "STRING", "data": "x"}}',
        b'{"headers": [{"name": "a", "name": "b"}]}',
        b'{"value": {"type": "JSON", "data": ' + b"[" * 200 + b"]" * 200 + b"}}",
        b"{]",
    ],
)
def test_what_is_not_strictly_json_is_refused_and_the_stream_goes_on(app: HttpApp, bad: bytes):
    assert error_code(app.post(records(app), content=bad)) == (422, 422)
    good = json.dumps(value(1)).encode()
    assert [each["error_code"] for each in receipts(app.post(records(app), content=good + bad + good))] == [
        200,
        422,
        200,
    ]


@pytest.mark.parametrize("body", [b"", b" \n", b"[]", b"null", b"x", b'{"value"'])
def test_a_body_without_a_record_is_refused(app: HttpApp, body: bytes):
    assert error_code(app.post(records(app), content=body)) == (422, 422)


@pytest.mark.parametrize("rest", [b",", b"]", b"x", b"{", b'{"value"'])
def test_a_stream_ends_where_it_is_no_more_objects(app: HttpApp, rest: bytes):
    good = json.dumps(value(1)).encode()
    given = receipts(app.post(records(app), content=good + rest + (good if rest != b"{" else b"")))
    assert [each["error_code"] for each in given] == [200, 422]


def test_an_unknown_topic_is_not_found_and_not_made(app: HttpApp):
    assert error_code(app.post(records(app, "none"), json=value(1))) == (404, 40403)
    assert app.log.topics() == ["orders"]


def test_a_body_that_is_not_json_is_refused(app: HttpApp):
    refused = app.post(records(app), content=b"{}", headers={"content-type": "application/x-ndjson"})
    assert error_code(refused) == (415, 415)


def test_a_topic_is_made_where_a_setting_says_so(http_place: Place, app: HttpApp):
    with HttpApp(app.log, auto_create_topics=True, default_partitions=3) as creating:
        assert len(receipts(creating.post(records(creating, "new"), json=value(1)))) == 1
    assert app.log.describe_topic("new").partitions == 3


class Talk:
    """A request whose body is sent while its answer is read."""

    def __init__(self, app: HttpApp) -> None:
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        path = records(app)
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                (b"transfer-encoding", b"chunked"),
            ],
            "scheme": "http",
            "server": ("x", 80),
            "http_version": "1.1",
        }
        self._task = asyncio.create_task(app.asgi(scope, self._sent.get, self._got.put))

    def say(self, body: bytes, *, more: bool = True) -> None:
        self._sent.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        self._sent.put_nowait({"type": "http.disconnect"})

    async def hear(self) -> dict[str, Any] | None:
        """The next receipt; None when there are no more."""
        message = await asyncio.wait_for(self._got.get(), DEADLINE_S)
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            return await self.hear()
        return json.loads(message["body"]) if message["body"] else None

    async def over(self) -> None:
        await asyncio.wait_for(self._task, DEADLINE_S)


def test_each_record_is_answered_before_the_next_one_is_sent(app: HttpApp):
    async def talk() -> None:
        call = Talk(app)
        for number in range(3):
            text = json.dumps(value(number) | {"partition_id": 0}).encode()
            call.say(text[:10])
            call.say(text[10:])
            receipt = await call.hear()
            assert receipt is not None
            assert receipt["offset"] == number
            assert app.log.offsets("orders", 0).end_offset == number + 1
        call.say(b"", more=False)
        assert await call.hear() is None
        await call.over()

    app.run(talk())


def test_a_client_that_leaves_has_what_it_sent_whole(app: HttpApp):
    async def talk() -> None:
        call = Talk(app)
        call.say(json.dumps(value(1) | {"partition_id": 0}).encode() + b'{"partition_id": 0, ')
        assert await call.hear() is not None
        call.leave()
        await call.over()

    app.run(talk())
    assert [record.value for record in everything(app.log, "orders")] == [b"1"]


def test_a_stop_ends_a_stream(app: HttpApp):
    async def talk() -> None:
        call = Talk(app)
        call.say(json.dumps(value(1)).encode())
        assert await call.hear() is not None
        app.tier.closing.set()
        last = await call.hear()
        assert last is not None
        assert (last["error_code"], last["outcome"]) == (50307, "not_attempted")
        assert await call.hear() is None
        await call.over()

    app.run(talk())


def test_a_stream_without_a_record_says_so(app: HttpApp):
    async def talk() -> None:
        call = Talk(app)
        call.say(b" ", more=False)
        last = await call.hear()
        assert last is not None
        assert last["error_code"] == 422
        await call.over()

    app.run(talk())


def test_an_object_that_never_ends_is_refused(app: HttpApp):
    async def talk() -> None:
        call = Talk(app)
        call.say(b'{"value": {"type": "STRING", "data": "')
        for _ in range(9):
            call.say(b"x" * 1024 * 1024)
        last = await call.hear()
        assert last is not None
        assert last["error_code"] == 422
        await call.over()

    app.run(talk())
    assert app.log.read("orders", 0, 0).count == 0


def batch(app: HttpApp, entries: Any) -> httpx.Response:
    return app.post(records(app) + ":batch", json={"entries": entries})


def test_a_batch_tells_successes_and_failures_by_their_ids(app: HttpApp):
    entries = [
        {"id": "a", "partition_id": 0} | value(1),
        {"id": "b", "partition_id": 7} | value(2),
        {"id": "c", "partition_id": 0, "key": {"type": "STRING", "data": "k"}} | value(3),
        {"id": "d"} | value("!", "BINARY"),
        {"id": "e", "timestamp": -1},
        {"id": "f"} | value("x" * 1_100_000, "STRING"),
    ]
    answer = batch(app, entries)
    assert answer.status_code == 207
    successes, failures = answer.json()["successes"], answer.json()["failures"]
    assert [(each["id"], each["offset"]) for each in successes] == [("a", 0), ("c", 1)]
    assert successes[1]["key"] == {"type": "STRING", "size": 1}
    assert "error_code" not in successes[0]
    told = [(each["id"], each["error_code"]) for each in failures]
    assert told == [("b", 40402), ("d", 422), ("e", 40002), ("f", 40002)]
    assert [record.value for record in everything(app.log, "orders")] == [b"1", b"3"]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        {},
        [{"id": "a"}, {"id": "a"}],
        [{}],
        [{"id": ""}],
        [{"id": "a b"}],
        [{"id": "x" * 81}],
        [{"id": 1}],
        [{"id": "a", "value": 1}],
        [{"id": "a", "other": 1}],
        [{"id": "a"}] * 2,
        [{"id": str(number)} for number in range(100_001)],
    ],
    ids=range(12),
)
def test_a_malformed_batch_stores_nothing(app: HttpApp, entries: Any):
    assert error_code(batch(app, entries)) == (422, 422)
    assert app.log.offsets("orders", 0).end_offset + app.log.offsets("orders", 1).end_offset == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"entries": [{"id": "a", "id": "b"}]}',
        b'{"entries": [], "entries": [{"id": "a"}]}',
        b'{"entries": [{"id": "a", "value": {"type": "JSON", "data": ' + b"[" * 200 + b"]" * 200 + b"}}]}",
        b'{"entries": [{"id": "a", "value": {"type": "JSON", "data": "\xff"}}]}',
    ],
)
def test_a_batch_that_is_not_strictly_json_stores_nothing(app: HttpApp, body: bytes):
    assert error_code(app.post(records(app) + ":batch", content=body)) == (422, 422)
    assert app.log.offsets("orders", 0).end_offset + app.log.offsets("orders", 1).end_offset == 0


def test_a_large_batch_is_stored(app: HttpApp):
    answer = batch(app, [{"id": str(number), "partition_id": 0} | value(number) for number in range(5000)])
    assert [each["offset"] for each in answer.json()["successes"]] == list(range(5000))
    assert answer.json()["failures"] == []


def test_what_is_stored_beside_it_does_not_disturb_a_stream(app: HttpApp):
    app.log.append("orders", [Record(b"before", partition=0)])
    (receipt,) = receipts(app.post(records(app), json=value(1) | {"partition_id": 0}))
    assert receipt["offset"] == 1
