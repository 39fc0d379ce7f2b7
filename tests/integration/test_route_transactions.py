"""Transactions over HTTP: in every format, with groups, and asked again."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import httpx
import pyarrow as pa
import pytest

from delta_log.model.transaction_bounds import Bounds
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import Place, replace_settings, values_of

BINARY = "application/vnd.kafka.binary.v2+json"
STREAM = {"content-type": "application/octet-stream"}


@pytest.fixture
def topics(app: HttpApp) -> HttpApp:
    for name, partitions in (("t", 2), ("u", 1)):
        assert app.put(f"/topics/{name}", json={"partitions": partitions}).is_success
    return app


def begin(app: HttpApp, name: str = "copier", **more: Any) -> dict[str, Any]:
    answer = app.post("/transactions", json={"transactional_id": name, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def send(app: HttpApp, transaction: str, value: bytes, topic: str = "u", **headers: str) -> httpx.Response:
    return app.post(f"/topics/{topic}", content=value, headers=STREAM | {"Transaction-Id": transaction} | headers)


def commit(app: HttpApp, transaction: str) -> httpx.Response:
    return app.post(f"/transactions/{transaction}/commit")


def state(app: HttpApp, transaction: str) -> str:
    return app.get(f"/transactions/{transaction}").json()["state"]


def arrow(*values: bytes) -> bytes:
    sink, table = io.BytesIO(), pa.table({"value": pa.array(values, pa.binary())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


BODIES = {
    BINARY: b'{"records": [{"value": "YQ==", "partition": 0}, {"value": "Yg==", "partition": 1}]}',
    "application/vnd.kafka.json.v2+json": b'{"records": [{"value": 1, "partition": 0}, {"value": 2, "partition": 1}]}',
    "application/x-ndjson": b'{"a": 1}\n{"a": 2}\n',
    "application/octet-stream": b"one",
    "application/vnd.apache.arrow.stream": arrow(b"x", b"y"),
}


@pytest.mark.parametrize("media", BODIES)
def test_records_of_every_format_wait_for_the_commit(topics: HttpApp, media: str):
    begun = begin(topics)
    headers = {"content-type": media, "Transaction-Id": begun["id"]}
    answer = topics.post("/topics/t", content=BODIES[media], headers=headers)
    assert answer.status_code == 202
    if "arrow" in media:
        assert answer.json() == {"ranges": None}
    else:
        places = answer.json()["offsets"]
        assert [each["offset"] for each in places] == [None] * len(places)
        assert {each["partition"] for each in places} <= {0, 1}
    assert values_of(topics.log, "t", 0) + values_of(topics.log, "t", 1) == []
    assert state(topics, begun["id"]) == "open"
    first, again = commit(topics, begun["id"]), commit(topics, begun["id"])
    assert first.status_code == 200
    assert first.json() == again.json() == topics.get(f"/transactions/{begun['id']}").json()
    (told,) = first.json()["requests"]
    assert sum(each["count"] for each in told["ranges"]) == len(values_of(topics.log, "t", 0)) + len(
        values_of(topics.log, "t", 1)
    )


def test_a_partition_may_be_named_by_the_path(topics: HttpApp):
    begun = begin(topics)
    headers = STREAM | {"Transaction-Id": begun["id"]}
    answer = topics.post("/topics/t/partitions/1", content=b"x", headers=headers)
    assert answer.json()["offsets"][0]["partition"] == 1
    commit(topics, begun["id"])
    assert values_of(topics.log, "t", 1) == [b"x"]


def test_what_is_aborted_is_never_seen(topics: HttpApp):
    begun = begin(topics)
    send(topics, begun["id"], b"x")
    for _ in range(2):
        assert topics.post(f"/transactions/{begun['id']}/abort").json()["state"] == "aborted"
    assert error_code(commit(topics, begun["id"])) == (409, 40916)
    assert error_code(send(topics, begun["id"], b"y")) == (409, 40916)
    assert state(topics, begun["id"]) == "aborted"
    assert values_of(topics.log, "u") == []


def test_what_is_committed_cannot_be_changed(topics: HttpApp):
    begun = begin(topics)
    commit(topics, begun["id"])
    assert error_code(topics.post(f"/transactions/{begun['id']}/abort")) == (409, 40917)
    assert error_code(send(topics, begun["id"], b"y")) == (409, 40917)


def test_a_later_holder_shuts_the_older_one_out(topics: HttpApp):
    old, new = begin(topics), begin(topics)
    assert (old["producer_id"], old["epoch"], new["epoch"]) == ("copier", 0, 1)
    answer = commit(topics, old["id"])
    assert error_code(answer) == (409, 40914)
    assert answer.json()["current"] == 1
    assert error_code(send(topics, old["id"], b"y")) == (409, 40914)


def test_its_time_aborts_it(topics: HttpApp, http_place: Place):
    begun = begin(topics, timeout_ms=5000)
    assert begun["timeout_ms"] == 5000
    send(topics, begun["id"], b"x")
    http_place.clock.turn(5000)
    assert error_code(commit(topics, begun["id"])) == (409, 40915)
    assert error_code(topics.post("/transactions", json={"transactional_id": "x", "timeout_ms": 900_001})) == (
        422,
        42208,
    )


def test_a_repeated_request_is_taken_once(topics: HttpApp):
    begun = begin(topics)
    stamp = {"Producer-Id": begun["producer_id"], "Producer-Epoch": str(begun["epoch"]), "Producer-Seq": "0"}
    for _ in range(2):
        assert send(topics, begun["id"], b"x", **stamp).status_code == 202
    assert error_code(send(topics, begun["id"], b"y", **stamp)) == (409, 40913)
    commit(topics, begun["id"])
    assert values_of(topics.log, "u") == [b"x"]


def test_a_version_is_joined_while_it_is_open_and_committed_once(topics: HttpApp):
    begun = begin(topics, version=3)
    assert begin(topics, version=3)["id"] == begun["id"]
    send(topics, begun["id"], b"x")
    commit(topics, begun["id"])
    for version in (0, 3):
        answer = topics.post("/transactions", json={"transactional_id": "copier", "version": version})
        assert error_code(answer) == (409, 40918)
        assert (answer.json()["version"], answer.json()["decided"]) == (version, 3)
    assert begin(topics, version=4)["epoch"] == begun["epoch"] + 1
    assert error_code(topics.post("/transactions", json={"transactional_id": "x", "version": -1})) == (422, 422)


def test_the_commit_says_which_stages_count(topics: HttpApp):
    begun = begin(topics)
    stamp = {"Producer-Id": begun["producer_id"], "Producer-Epoch": str(begun["epoch"]), "Producer-Seq": "0"}
    for stage in ("killed", "b", "a", "a"):
        named = {"Transaction-Stage": stage} | stamp
        assert send(topics, begun["id"], stage.encode(), **named).status_code == 202
    path = f"/transactions/{begun['id']}/commit"
    assert error_code(topics.post(path, json={"stages": ["a", "c"]})) == (422, 42209)
    assert error_code(topics.post(path, json={"stages": "a"})) == (422, 422)
    first = topics.post(path, json={"stages": ["a", "b"]})
    assert first.status_code == 200
    assert topics.post(path, json={"stages": ["killed"]}).json() == first.json() == commit(topics, begun["id"]).json()
    assert values_of(topics.log, "u") == [b"a", b"b"]


def test_what_cannot_be_part_of_a_transaction_is_refused(topics: HttpApp):
    begun = begin(topics)
    named = STREAM | {"Transaction-Id": begun["id"]}
    assert error_code(topics.post("/topics/u?acks=0", content=b"x", headers=named)) == (422, 422)
    assert error_code(topics.post("/topics/u?wait=table", content=b"x", headers=named)) == (422, 422)
    alone = topics.post("/topics/u", content=b"x", headers=STREAM | {"Transaction-Stage": "a"})
    assert error_code(alone) == (422, 422)
    assert error_code(send(topics, begun["id"], b"x", **{"Transaction-Stage": ""})) == (422, 422)
    twice = [("content-type", "application/octet-stream"), ("transaction-id", "a"), ("transaction-id", "b")]
    assert error_code(topics.post("/topics/u", content=b"x", headers=twice)) == (400, 400)
    assert error_code(send(topics, begun["id"], b"x", "absent")) == (404, 40401)
    assert error_code(send(topics, "nobody", b"x"))[0] == 404
    cluster = topics.get("/v3/clusters").json()["data"][0]["cluster_id"]
    answer = topics.post(
        f"/v3/clusters/{cluster}/topics/u/records:batch", json={"entries": []}, headers={"Transaction-Id": begun["id"]}
    )
    assert answer.status_code == 400
    commit(topics, begun["id"])
    assert values_of(topics.log, "u") == []


@pytest.mark.parametrize("route", ["", "/commit", "/abort", "/offsets"])
def test_of_one_that_never_was_nothing_is_known(topics: HttpApp, route: str):
    for name in ("nobody", "YQ.0.00", "a%2Fb"):
        path = f"/transactions/{name}{route}"
        body = {"group": "g", "offsets": [{"topic": "t", "partition": 0, "next_offset": 0}]}
        answer = (
            topics.post(path, json=body) if route == "/offsets" else topics.post(path) if route else topics.get(path)
        )
        assert error_code(answer) == (404, 40405)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"transactional_id": ""}', b'{"transactional_id": "a", "timeout_ms": 0}', b'{"x": 1}']
)
def test_a_malformed_request_is_refused(topics: HttpApp, body: bytes):
    assert error_code(topics.post("/transactions", content=body)) == (422, 422)


# --- with groups


@pytest.fixture
def member(topics: HttpApp) -> str:
    """An instance that owns t, which has three records in each partition."""
    for partition in range(2):
        for number in range(3):
            topics.post(f"/topics/t/partitions/{partition}", content=b"%d" % number, headers=STREAM)
    made = {"name": "ann", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
    assert topics.post("/consumers/g", json=made).status_code == 200
    topics.post("/consumers/g/instances/ann/subscription", json={"topics": ["t"]})
    topics.get("/consumers/g/instances/ann/records", headers={"accept": f"{BINARY}"})
    return "ann"


def offsets(next_offset: int, **more: Any) -> dict[str, Any]:
    given = [{"topic": "t", "partition": partition, "next_offset": next_offset} for partition in range(2)]
    return {"group": "g", "offsets": given, **more}


def committed(app: HttpApp) -> list[int]:
    return [each["next_offset"] for each in app.get("/groups/g/offsets").json()["offsets"]]


def generation(app: HttpApp) -> int:
    return app.get("/groups/g").json()["generation"]


@pytest.mark.usefixtures("member")
def test_a_groups_offsets_move_with_the_transaction(topics: HttpApp):
    begun = begin(topics)
    send(topics, begun["id"], b"copy")
    asked = offsets(2, instance="ann", generation=generation(topics))
    assert topics.post(f"/transactions/{begun['id']}/offsets", json=asked).status_code == 204
    later = offsets(3, instance="ann", generation=generation(topics))
    assert topics.post(f"/transactions/{begun['id']}/offsets", json=later).status_code == 204
    assert committed(topics) == []
    told = commit(topics, begun["id"]).json()["offsets"]
    assert told == [{"group": "g", "topic": "t", "partition": number, "next_offset": 3} for number in range(2)]
    assert committed(topics) == [3, 3]
    assert values_of(topics.log, "u") == [b"copy"]


@pytest.mark.usefixtures("member")
def test_a_stale_member_is_refused_at_once_and_inside_the_commit(topics: HttpApp):
    begun, now = begin(topics), generation(topics)
    assert error_code(topics.post(f"/transactions/{begun['id']}/offsets", json=offsets(2, instance="bob"))) == (
        404,
        40403,
    )
    stale = offsets(2, instance="ann", generation=now + 5)
    assert error_code(topics.post(f"/transactions/{begun['id']}/offsets", json=stale)) == (409, 40904)
    send(topics, begun["id"], b"copy")
    good = offsets(2, instance="ann", generation=now)
    assert topics.post(f"/transactions/{begun['id']}/offsets", json=good).status_code == 204
    assert topics.delete("/consumers/g/instances/ann").status_code == 204
    first = commit(topics, begun["id"])
    assert error_code(first) == (409, 40904)
    assert (first.json()["topic"], first.json()["outcome"]) == ("t", "not_attempted")
    assert commit(topics, begun["id"]).json() == first.json()
    assert state(topics, begun["id"]) == "aborted"
    assert (committed(topics), values_of(topics.log, "u")) == ([], [])


def test_offsets_of_a_group_in_which_nobody_reads_move_too(topics: HttpApp):
    topics.post("/topics/t/partitions/0", content=b"x", headers=STREAM)
    begun = begin(topics)
    asked = {"group": "alone", "offsets": [{"topic": "t", "partition": 0, "offset": 0}]}
    assert topics.post(f"/transactions/{begun['id']}/offsets", json=asked).status_code == 204
    commit(topics, begun["id"])
    assert topics.get("/groups/alone/offsets").json()["offsets"][0]["next_offset"] == 1
    wrong = {"group": "alone", "generation": 1, "offsets": [{"topic": "t", "partition": 0, "offset": 0}]}
    assert error_code(topics.post(f"/transactions/{begin(topics)['id']}/offsets", json=wrong)) == (422, 422)


def test_offsets_take_room_in_a_transaction_and_those_of_before_take_none(http_place: Place):
    log = http_place.open(replace_settings(transactions=replace(Bounds(), most_bytes=100_000, most_open=1)))
    log.create_topic("t", 2)
    with HttpApp(log) as app:
        begun = begin(app)
        path = f"/transactions/{begun['id']}/offsets"
        assert app.post(path, json=offsets(0)).status_code == 204
        once = log.transactions.held_bytes
        for _ in range(20):
            assert app.post(path, json=offsets(0)).status_code == 204
        assert log.transactions.held_bytes == once > 0
        metadata = {"topic": "t", "partition": 0, "next_offset": 0, "metadata": "x" * 4096}
        answers = [app.post(path, json={"group": f"g{number}", "offsets": [metadata]}) for number in range(30)]
        codes = [each.status_code for each in answers]
        assert codes == sorted(codes)
        assert 15 < codes.count(204) < 25
        assert error_code(answers[-1]) == (413, 41301)
        told = commit(app, begun["id"]).json()["offsets"]
        assert [each["group"] for each in told] == ["g", "g", *(f"g{number}" for number in range(codes.count(204)))]
        assert log.transactions.held_bytes == 0


@pytest.mark.usefixtures("member")
def test_a_transaction_has_offsets_of_one_member_of_a_group(topics: HttpApp):
    begun = begin(topics)
    path = f"/transactions/{begun['id']}/offsets"
    assert topics.post(path, json=offsets(1, instance="ann", generation=generation(topics))).status_code == 204
    assert error_code(topics.post(path, json=offsets(2, instance="ann"))) == (409, 40903)
    assert [each["next_offset"] for each in commit(topics, begun["id"]).json()["offsets"]] == [1, 1]


def test_answers_stand_after_a_restart(http_place: Place):
    log = http_place.open()
    log.create_topic("t", 2)
    log.create_topic("u")
    with HttpApp(log) as app:
        done, left = begin(app, "done"), begin(app, "left")
        for each in (done, left):
            send(app, each["id"], each["producer_id"].encode())
        asked = {"group": "alone", "offsets": [{"topic": "u", "partition": 0, "next_offset": 0}]}
        app.post(f"/transactions/{done['id']}/offsets", json=asked)
        first = commit(app, done["id"]).json()
    http_place.crash()
    with HttpApp(http_place.open()) as app:
        assert commit(app, done["id"]).json() == first
        assert error_code(commit(app, left["id"])) == (409, 40916)
        assert values_of(app.log, "u") == [b"done"]
        assert app.get("/groups/alone/offsets").json()["offsets"][0]["next_offset"] == 0
        assert begin(app, "done")["epoch"] == 1
