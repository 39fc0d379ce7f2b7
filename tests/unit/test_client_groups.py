"""What an admin asks of groups, and what it makes of answers that are lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelog import Admin, OffsetAndMetadata, OffsetReset, TopicPartition
from lakelog.foundation import errors
from lakelog.transport.exchange import Answer, AnswerLost, NotSent, Outcome, Request
from tests.support.client_wire import SETTINGS, Wire

CUT = AnswerLost("cut")
T0 = TopicPartition("t", 0)
RESET = {"group": "g", "dry_run": False, "partitions": [{"topic": "t", "partition": 0, "before": None, "after": 3}]}


def answer(status: int, body: Any = None) -> Answer:
    return Answer(status, {}, b"" if body is None else json.dumps(body).encode())


def refusal(status: int, code: int) -> Answer:
    return answer(status, {"error_code": code, "message": "no"})


def admin(*outcomes: Outcome) -> tuple[Admin, list[Request]]:
    coming = iter(outcomes)
    wire = Wire(lambda _: next(coming))
    return Admin(SETTINGS, transport=wire), wire.requests


def test_a_group_that_is_gone_after_a_lost_answer_was_deleted_by_us():
    client, _ = admin(CUT, refusal(404, 40404), refusal(404, 40404))
    client.delete_group("g")
    with pytest.raises(errors.UnknownGroup):
        client.delete_group("g")


def test_offsets_are_set_again_when_the_answer_is_lost():
    client, requests = admin(CUT, answer(204))
    client.alter_group_offsets("g", {T0: 3, ("t", 1): OffsetAndMetadata(4, "note")})
    assert [(request.method, request.path) for request in requests] == [("PUT", "/groups/g/offsets")] * 2
    assert json.loads(requests[1].body) == {
        "offsets": [
            {"topic": "t", "partition": 0, "next_offset": 3, "metadata": ""},
            {"topic": "t", "partition": 1, "next_offset": 4, "metadata": "note"},
        ]
    }


def test_nothing_to_set_is_asked_of_nobody():
    client, requests = admin()
    client.alter_group_offsets("g", {})
    assert requests == []


def test_a_reset_is_not_repeated_when_its_answer_is_lost_and_a_dry_run_is():
    client, requests = admin(CUT)
    with pytest.raises(errors.OutcomeUnknown):
        client.reset_group_offsets("g", to="earliest")
    assert len(requests) == 1
    client, requests = admin(CUT, answer(200, RESET))
    assert client.reset_group_offsets("g", to="earliest", dry_run=True) == {T0: OffsetReset(None, 3)}
    assert len(requests) == 2


def test_a_reset_that_was_not_sent_is_sent_again():
    client, requests = admin(NotSent("refused"), answer(200, RESET))
    client.reset_group_offsets("g", shift=-2)
    assert len(requests) == 2


def test_a_reset_says_what_it_is_told_and_nothing_else():
    client, requests = admin(*[answer(200, RESET)] * 4)
    client.reset_group_offsets("g", offset=0)
    client.reset_group_offsets("g", timestamp=5, topics=["t", "u"], dry_run=True)
    client.reset_group_offsets("g", to="latest", partitions=[T0, ("u", 1)])
    client.reset_group_offsets("g", to="latest", topics="orders")
    places = [{"topic": "t", "partition": 0}, {"topic": "u", "partition": 1}]
    assert [json.loads(request.body) for request in requests] == [
        {"offset": 0, "dry_run": False},
        {"timestamp": 5, "topics": ["t", "u"], "dry_run": True},
        {"to": "latest", "partitions": places, "dry_run": False},
        {"to": "latest", "topics": ["orders"], "dry_run": False},
    ]


@pytest.mark.parametrize(
    ("group", "path"),
    [
        ("a/b", "/groups/a%2Fb"),
        ("..", "/groups/%2E%2E"),
        (".", "/groups/%2E"),
        ("...", "/groups/..."),
        ("a b?#%", "/groups/a%20b%3F%23%25"),
        ("ü", "/groups/%C3%BC"),
    ],
)
def test_a_group_with_any_name_is_one_part_of_a_path(group: str, path: str):
    client, requests = admin(answer(204))
    client.delete_group(group)
    assert requests[0].path == path


@pytest.mark.parametrize("group", ["", "x" * 256, "ü" * 128, "\ud800", None, 7, b"g"])
def test_a_name_that_cannot_be_a_groups_is_asked_of_nobody(group: Any):
    client, requests = admin()
    for act in (client.describe_group, client.group_offsets, client.lag, client.delete_group):
        with pytest.raises(errors.InvalidGroup):
            act(group)
    with pytest.raises(errors.InvalidGroup):
        client.alter_group_offsets(group, {T0: 1})
    with pytest.raises(errors.InvalidGroup):
        client.reset_group_offsets(group, to="latest")
    assert requests == []


@pytest.mark.parametrize("metadata", ["\ud800", object()])
def test_what_cannot_be_written_is_refused_before_it_is_sent(metadata: Any):
    client, requests = admin()
    with pytest.raises(errors.Refused, match="cannot be written"):
        client.alter_group_offsets("g", {T0: OffsetAndMetadata(1, metadata)})
    assert requests == []


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (404, 40404, errors.UnknownGroup),
        (404, 40401, errors.UnknownTopic),
        (404, 40402, errors.UnknownPartition),
        (409, 40906, errors.GroupNotEmpty),
        (422, 42206, errors.OffsetOutOfRange),
        (422, 42207, errors.Refused),
        (422, 422, errors.Refused),
    ],
)
def test_what_the_server_refuses_is_an_error_of_its_kind(status: int, code: int, error: type[errors.LakelogError]):
    client, _ = admin(refusal(status, code))
    with pytest.raises(error) as caught:
        client.alter_group_offsets("g", {T0: 1})
    assert type(caught.value) is error
    assert caught.value.outcome == "not_attempted"


def test_an_answer_that_cannot_be_read_is_unknown():
    for act in ("list_groups", "describe_group", "group_offsets"):
        client, _ = admin(answer(200, {"nonsense": 1}))
        with pytest.raises(errors.OutcomeUnknown, match="cannot be read"):
            getattr(client, act)(*(["g"] if act != "list_groups" else []))


def test_what_a_later_server_adds_to_its_answers_is_passed_over():
    listing = {"group": "g", "state": "Empty", "generation": 0, "assignor": None, "members": 0, "more": [1]}
    client, _ = admin(answer(200, {"groups": [listing], "next": None}))
    assert client.list_groups()[0].group == "g"
