"""Members of groups behind an HTTP app, without the routes of consumer instances: for tests of what is around them."""

from __future__ import annotations

from typing import Any

from consumer_groups.decisions.commits import Commit, Commitment
from consumer_groups.decisions.membership import Join, Leave
from consumer_groups.decisions.subscription import Assign, Subscribe
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.options import parse_options
from delta_log import Record
from tests.support import coordinating
from tests.support.http_app import HttpApp

#: Valid names of groups that a path, a link, a header or a metric could trip over.
HOSTILE = [
    "a/b",
    "..",
    ".",
    "a b+c",
    "%2F",
    "a?b#c;d&e=f",
    "offsets:reset",
    "ünï-😀",
    'quote"back\\slash',
    "<script>",
    "x" * 255,
    "-",
    "__consumer_offsets",
    "{group}",
]


def orders(app: HttpApp, partitions: int = 2, records: int = 10) -> None:
    """A topic `orders` with so many records in each partition."""
    assert app.put("/topics/orders", json={"partitions": partitions}).status_code == 201
    for number in range(partitions):
        more(app, number, records)


def more(app: HttpApp, partition: int, records: int) -> None:
    app.log.append(
        "orders", [Record(b"%d" % each, partition=partition, timestamp=1000 + each) for each in range(records)]
    )


def join(app: HttpApp, group: str, member: str, *topics: str, client_id: str = "", **options: Any) -> None:
    """A member; subscribed if topics are named."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    app.run(app.tier.groups.join(group, Join(member, parse_options(given)[1], client_id)))
    if topics:
        app.run(app.tier.groups.subscribe(group, Subscribe(member, topics)))


def assign(app: HttpApp, group: str, member: str, *partitions: int) -> None:
    chosen = tuple(TopicPartition("orders", each) for each in partitions)
    app.run(app.tier.groups.assign(group, Assign(member, chosen)))


def poll(app: HttpApp, group: str, member: str) -> None:
    app.run(coordinating.poll(app.tier.groups, member, group=group))


def commit(app: HttpApp, group: str, member: str, metadata: str = "", **offsets: int) -> None:
    """`p0=3`: of partition 0 the next to read is 3."""
    given = {TopicPartition("orders", int(name[1:])): Commitment(offset, metadata) for name, offset in offsets.items()}
    app.run(app.tier.groups.commit(group, Commit(member, given)))


def leave(app: HttpApp, group: str, member: str) -> None:
    app.run(app.tier.groups.leave(group, Leave(member)))
