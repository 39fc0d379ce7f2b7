"""A server for the deciding part of consumers: the group's own decisions behind the routes that consumers ask.

No socket, no clock, no disk: a record's value says where it is, and an answer comes at once, a poll's too.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from consumer_groups.decisions.commits import Commit, Commitment, Seek, decide_commit, decide_seek
from consumer_groups.decisions.dead_lettering import GiveUp, Spot, decide_giving_up, plan_giving_up
from consumer_groups.decisions.last_attempt import PoisonRecord
from consumer_groups.decisions.membership import Heartbeat, Join, Leave, decide_heartbeat, decide_join, decide_leave
from consumer_groups.decisions.polling import (
    Fetch,
    Poll,
    Taken,
    decide_delivery,
    decide_fetch,
    decide_idle,
    decide_poll,
)
from consumer_groups.decisions.subscription import (
    Assign,
    Subscribe,
    Unsubscribe,
    decide_assign,
    decide_subscribe,
    decide_unsubscribe,
)
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.options import parse_options
from consumer_groups.model.reset_policy import At
from consumer_groups.state.decision import begin
from consumer_groups.state.state import Groups
from delta_log.model.errors import LakelogError
from ingest_api.routes.groups.poll import parse_paused
from ingest_api.web.errors import answer_error
from lakelog.transport.exchange import Answer, Request
from tests.support.group_stage import Stage

PATH = re.compile(r"/consumers/(?P<group>[^/]+)(?:/instances/(?P<name>[^/]+)(?P<rest>/.*)?)?")
BINARY = "application/vnd.kafka.binary.v2+json"


def value_at(partition: TopicPartition, offset: int, life: str) -> bytes:
    return f"{partition}@{offset} of {life}".encode()


class ModelServer(Stage):
    """One group. `commits` are those that were accepted, as they came."""

    def __init__(self, most: int = 4, **partitions: int) -> None:
        super().__init__(**partitions)
        self.most = most
        self.lives = 0
        self.commits: list[dict[TopicPartition, int]] = []
        self.letters: list[tuple[TopicPartition, int]] = []

    def restart(self) -> None:
        self.lives += 1
        self.groups = Groups(self.groups.records())
        begin(self.groups, self.now, self.lives)

    def receive(self, request: Request) -> Answer:
        url = urlsplit(request.path)
        found = PATH.fullmatch(url.path)
        assert found is not None, request
        name, rest = unquote(found["name"] or ""), found["rest"] or ""
        given: dict[str, Any] = json.loads(request.body) if request.body else {}
        said = {
            key: int(request.headers[header])
            for key, header in (
                ("generation", "Lakelog-Generation"), ("received", "Lakelog-Received"), ("done", "Lakelog-Done"),
            )
            if header in request.headers
        }  # fmt: skip
        try:
            if not name:
                return self._join(given)
            act: Callable[..., Answer] = self._ROUTES[request.method, rest]
            return act(self, name, given, said, dict(parse_qsl(url.query)))
        except LakelogError as error:
            status, body, headers = answer_error(error)
            shown = {key.decode(): value.decode() for key, value in headers}
            return Answer(status, shown, body)

    def _told(self, body: Any = None, **headers: str) -> Answer:
        headers = {"lakelog-generation": str(self.group.generation)} | headers
        return Answer(204 if body is None else 200, headers, b"" if body is None else json.dumps(body).encode())

    def _join(self, given: dict[str, Any]) -> Answer:
        name, options = parse_options(given)
        self.do(decide_join(self.group, Join(name or "", options), self.cluster, self.now))
        return self._told({"instance_id": name, "base_uri": ""})

    def _leave(self, name: str, _given: Any, said: dict[str, int], query: dict[str, str]) -> Answer:
        command = Leave(name, failed=query.get("failed") == "true", **said)
        self.do(decide_leave(self.group, command, self.cluster, self.now))
        return self._told()

    def _subscribe(self, name: str, given: dict[str, Any], said: dict[str, int], _query: Any) -> Answer:
        command = Subscribe(name, tuple(given.get("topics", ())), given.get("topic_pattern"), **said)
        self.do(decide_subscribe(self.group, command, self.cluster, self.now))
        return self._told()

    def _unsubscribe(self, name: str, _given: Any, said: dict[str, int], _query: Any) -> Answer:
        self.do(decide_unsubscribe(self.group, Unsubscribe(name, **said), self.cluster, self.now))
        return self._told()

    def _assign(self, name: str, given: dict[str, Any], said: dict[str, int], _query: Any) -> Answer:
        command = Assign(name, tuple(_named(given["partitions"])), **said)
        self.do(decide_assign(self.group, command, self.cluster, self.now))
        return self._told()

    def _beat(self, name: str, given: dict[str, Any], said: dict[str, int], _query: Any) -> Answer:
        owned = frozenset(_named(given["owned"])) if "owned" in given else None
        beaten = self.do(decide_heartbeat(self.group, Heartbeat(name, owned=owned, **said), self.cluster, self.now))
        shown = {
            key: [{"topic": topic, "partition": partition} for topic, partition in several]
            for key, several in (("assigned", beaten.assigned), ("revoking", beaten.revoking))
        }
        since: dict[str, dict[int, int]] = {}
        for (topic, partition), generation in beaten.since.items():
            since.setdefault(topic, {})[partition] = generation
        return self._told({"generation": self.group.generation, "since": since} | shown)

    def _commit(self, name: str, given: dict[str, Any], said: dict[str, int], query: dict[str, str]) -> Answer:
        offsets = {
            TopicPartition(each["topic"], each["partition"]): Commitment(each["next_offset"], each["metadata"])
            for each in given["offsets"]
        }
        command = Commit(name, offsets, keeps=query["keep"] == "true", **said)
        self.do(decide_commit(self.group, command, self.cluster, self.ends, self.now))
        self.commits.append({partition: each.next_offset for partition, each in offsets.items()})
        return self._told()

    def _seek(self, name: str, given: dict[str, Any], said: dict[str, int], _query: Any) -> Answer:
        places = {TopicPartition(each["topic"], each["partition"]): each["offset"] for each in given["offsets"]}
        self.do(decide_seek(self.group, Seek(name, places, **said), self.cluster, self.ends, self.now))
        return self._told()

    def _records(self, name: str, _given: Any, said: dict[str, int], query: dict[str, str]) -> Answer:
        command = Poll(name, self.now, paused=parse_paused(query.get("paused")), keeps=query["keep"] == "true", **said)
        self.do(decide_poll(self.group, command, self.cluster, self.now))
        fetch = Fetch(name, command.paused)
        plan = self.do(decide_fetch(self.group, fetch, self.cluster, self.ends, self.now))
        while plan.spoiled:
            self._give_up(name, plan.spoiled)
            plan = self.do(decide_fetch(self.group, fetch, self.cluster, self.ends, self.now))
        assert not any(isinstance(each, At) for each in plan.lookups)
        room, taken = self.most, list[Taken]()
        for read in plan.reads:
            until = min(self.ends[read.partition].end_offset, read.offset + room, read.limit or 2**63)
            if until > read.offset:
                taken.append(Taken(read, until))
                room -= until - read.offset
        delivery = self.do(decide_delivery(self.group, name, tuple(taken), self.cluster, self.now))
        if not delivery.accepted:
            self.do(decide_idle(self.group, name, self.now))
        shown = [
            {
                "topic": each.read.partition.topic,
                "partition": each.read.partition.partition,
                "offset": offset,
                "timestamp": offset,
                "key": None,
                "value": base64.b64encode(value_at(each.read.partition, offset, each.read.topic_id)).decode(),
                "headers": [],
            }
            for each in delivery.accepted
            for offset in range(each.read.offset, each.next_offset)
        ]
        more = {"lakelog-last-try": "true"} if plan.last_try else {}
        return self._told(shown, **{"lakelog-answer": str(delivery.answer), "content-type": BINARY, **more})

    def _give_up(self, name: str, spoiled: tuple[PoisonRecord, ...]) -> None:
        reasons = {Spot(each.partition, each.offset): "" for each in spoiled}
        command = GiveUp(name, reasons, spoiled=True)
        planned = plan_giving_up(self.group, command, self.cluster, self.ends)
        self.do(decide_giving_up(self.group, command, planned, self.cluster, self.ends, self.now))
        self.letters += [(spot.partition, spot.offset) for spot in reasons]

    _ROUTES: ClassVar[dict[tuple[str, str], Callable[..., Answer]]] = {
        ("DELETE", ""): _leave,
        ("POST", "/subscription"): _subscribe,
        ("DELETE", "/subscription"): _unsubscribe,
        ("POST", "/assignments"): _assign,
        ("POST", "/heartbeat"): _beat,
        ("POST", "/offsets"): _commit,
        ("POST", "/positions"): _seek,
        ("GET", "/records"): _records,
    }


def _named(given: list[dict[str, Any]]) -> list[TopicPartition]:
    return [TopicPartition(each["topic"], each["partition"]) for each in given]
