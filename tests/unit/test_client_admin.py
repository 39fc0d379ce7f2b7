"""What an admin makes of answers that are lost: the echo of its own first attempt is a success."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from lakelog import Admin
from lakelog.foundation import errors
from lakelog.transport.exchange import Answer, AnswerLost, Outcome, Request
from tests.support.client_wire import SETTINGS, Wire

CUT = AnswerLost("cut")
TOPIC = {"name": "t", "configs": {}, "partitions": [{"partition": 0}, {"partition": 1}]}
CLUSTERS = {"data": [{"cluster_id": "c"}]}


def answer(status: int, body: Any = None) -> Answer:
    return Answer(status, {}, b"" if body is None else json.dumps(body).encode())


def admin(*outcomes: Outcome) -> tuple[Admin, list[Request]]:
    coming = iter(outcomes)
    wire = Wire(lambda _: next(coming))
    return Admin(SETTINGS, transport=wire), wire.requests


def paths(requests: Sequence[Request]) -> list[str]:
    return [f"{request.method} {request.path}" for request in requests]


def test_a_topic_that_is_there_after_a_lost_answer_was_made_by_us():
    client, _ = admin(CUT, answer(200, TOPIC))
    assert client.create_topic("t").partitions == 2


def test_a_topic_that_was_there_before_is_an_error_unless_that_is_fine():
    client, _ = admin(answer(200, TOPIC), answer(200, TOPIC))
    with pytest.raises(errors.TopicExists):
        client.create_topic("t")
    assert client.create_topic("t", exist_ok=True).name == "t"


def test_a_topic_that_is_gone_after_a_lost_answer_was_deleted_by_us():
    absent = answer(404, {"error_code": 40403, "message": "there is no topic"})
    client, _ = admin(CUT, absent, absent)
    client.delete_topic("t")
    with pytest.raises(errors.UnknownTopic):
        client.delete_topic("t")


def test_partitions_that_are_there_after_a_lost_answer_were_added_by_us():
    refusal = answer(400, {"error_code": 40002, "message": "it has 2"})
    client, requests = admin(answer(200, CLUSTERS), CUT, refusal, answer(200, TOPIC))
    client.add_partitions("t", 2)
    assert paths(requests)[1:] == ["PATCH /v3/clusters/c/topics/t"] * 2 + ["GET /topics/t"]
    client, _ = admin(answer(200, CLUSTERS), refusal)
    with pytest.raises(errors.InvalidConfig):
        client.add_partitions("t", 2)


def test_deleting_up_to_an_offset_is_repeated_and_up_to_the_end_is_not():
    client, _ = admin(CUT, answer(200, {"log_start_offset": 5}))
    assert client.delete_records("t", 0, 5) == 5
    client, requests = admin(CUT)
    with pytest.raises(errors.OutcomeUnknown):
        client.delete_records("t", 0, -1)
    assert len(requests) == 1


def test_the_cluster_is_asked_for_once():
    configs = {"data": [{"name": "a", "value": "1", "source": "DEFAULT_CONFIG", "is_default": True}]}
    client, requests = admin(answer(200, CLUSTERS), answer(200, configs), answer(204))
    assert client.describe_configs("t")["a"].is_default
    client.alter_configs("t", {"a": None, "b": True, "c": 1})
    assert paths(requests) == [
        "GET /v3/clusters",
        "GET /v3/clusters/c/topics/t/configs",
        "POST /v3/clusters/c/topics/t/configs:alter",
    ]
    assert json.loads(requests[2].body) == {
        "data": [{"name": "a", "operation": "DELETE"}, {"name": "b", "value": "true"}, {"name": "c", "value": 1}]
    }


def test_batches_are_asked_for_until_a_page_is_not_full():
    def page(first: int, count: int):
        rows = [
            {
                "base_offset": at,
                "last_offset": at,
                "count": 1,
                "size": 2,
                "position": 2 * at,
                "created_ms": 3,
                "file": "f",
            }
            for at in range(first, first + count)
        ]
        return answer(200, {"batches": rows})

    client, requests = admin(page(5, 10_000), page(10_005, 1))
    assert [each.base_offset for each in client.batches("t", 1, offset=5)] == list(range(5, 10_006))
    assert paths(requests) == [
        "GET /topics/t/partitions/1/batches?offset=5&max_batches=10000",
        "GET /topics/t/partitions/1/batches?offset=10005&max_batches=10000",
    ]


def test_an_answer_that_cannot_be_read_is_unknown():
    client, _ = admin(answer(200, {"nonsense": 1}))
    with pytest.raises(errors.OutcomeUnknown, match="cannot be read"):
        client.list_topics()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b"])
def test_a_name_that_cannot_be_a_topics_is_asked_of_nobody(name: str):
    client, requests = admin()
    for act in (client.describe_topic, client.create_topic, client.delete_topic, client.describe_configs):
        with pytest.raises(errors.InvalidName):
            act(name)
    assert requests == []


def test_an_offset_out_of_range_knows_the_range():
    refusal = {"error_code": 41601, "message": "out of range", "log_start_offset": 2, "end_offset": 9}
    client, _ = admin(answer(416, refusal))
    with pytest.raises(errors.OffsetOutOfRange) as caught:
        client.delete_records("t", 0, 99)
    assert (caught.value.log_start_offset, caught.value.end_offset) == (2, 9)
