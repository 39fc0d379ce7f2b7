"""The table of a server's settings: the rule, the default and the purpose of each.

It knows no source of a value: `sources` does. Each field of `ServerSettings` is a row of the table, and so is each
setting of a topic, as `topic.` and Kafka's name. Only the plain text of a value is converted; nothing else is coerced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from consumer_groups.decisions.idle_groups import OFFSETS_RETENTION_MS
from delta_log.model import topic_settings
from delta_log.model.topic_settings import INT64_MAX, OneOf, Whole
from ingest_api.config.checks import (
    Check,
    Flag,
    Functions,
    Hosts,
    Networks,
    Options,
    Origins,
    SocketPath,
    Text,
)

_MIB: Final = 1024 * 1024
_DAY_MS: Final = 86_400_000
_MOST_MS: Final = 2**31 - 1
_MOST_SHOWN: Final = 200
#: Prefix of the settings of topics.
TOPIC: Final = "topic."


class UnusableSetting(Exception):
    """An invalid value of a setting, or an unknown setting."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table. `metavar` stands for its value in the help; a `secret` value is never shown."""

    name: str
    default: Any
    check: Check
    doc: str
    group: str
    metavar: str
    secret: bool = False

    @property
    def field(self) -> str:
        """Name of its attribute of `ServerSettings`."""
        return self.name.replace(".", "_")

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-").replace(".", "-")

    @property
    def variable(self) -> str:
        return "LAKELOG_" + self.name.replace(".", "_").upper()

    def parse(self, given: object, source: str) -> Any:
        """Convert a value to its own type; `source` names its origin in errors."""
        value = self.check(given)
        if value is not None:
            return value
        shown = "what is given" if self.secret else repr(given)
        shown = shown if len(shown) <= _MOST_SHOWN else shown[:_MOST_SHOWN] + "…"
        raise UnusableSetting(f"{source}: {self.name} cannot be {shown}: it must be {self.check}")


def _row(
    default: Any,
    check: Check,
    doc: str,
    *,
    group: str,
    metavar: str = "N",
    secret: bool = False,
    name: str | None = None,
) -> Any:
    """Declare a row; `name` if it differs from the field's, as Kafka's names have dots."""
    row = {"check": check, "doc": doc, "group": group, "metavar": metavar, "secret": secret}
    return field(default=default, metadata={"row": row, "name": name})


_PLACE, _TOPICS, _GROUPS, _LIMITS, _LOG = "Place", "Topics", "Consumer groups", "Limits", "The log"
_CONNECTIONS, _LOGGING, _TOPIC_DEFAULTS = "Connections", "Logging", "Defaults of topics"


# fmt: off
# Two lines a setting, so that the table is read as one.
@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server. `topic_defaults` holds the given settings `topic.*`, under Kafka's names."""

    data: str = _row("./lakelog-data", Text("a directory, or s3://, gs:// or az:// and a place in a bucket"),
        group=_PLACE, metavar="PLACE",
        doc="The directory that holds the log, made when it is not there; or a place in a bucket that is there.")
    memory: bool = _row(False, Flag(), group=_PLACE, metavar="true|false",  # noqa: FBT003
        doc="Keep everything in memory and nothing on disk: `data` is not used, and all is gone at the end.")
    store_option: tuple[tuple[str, str], ...] = _row((), Options(), group=_PLACE, metavar="K=V", secret=True,
        doc="What the store of a bucket has to be told beyond its own environment variables; may be given many times.")
    host: str = _row("127.0.0.1", Text("a host name or an address"), group=_PLACE, metavar="HOST",
        doc="The address to listen on. There is no authentication yet: whoever reaches it may do everything.")
    port: int = _row(8082, Whole(0, 65_535), group=_PLACE, metavar="PORT",
        doc="The port to listen on; 0 takes a free one and says which.")
    unix_socket: str = _row("", SocketPath(), group=_PLACE, metavar="PATH",
        doc="A Unix socket to listen on instead of host and port, with the mode 0600: for the server's own user alone.")

    auto_create_topics: bool = _row(False, Flag(), group=_TOPICS, metavar="true|false",  # noqa: FBT003
        doc="Make a topic when somebody produces to one that is not there.")
    default_partitions: int = _row(1, Whole(1, 10_000), group=_TOPICS,
        doc="How many partitions a topic gets when its maker does not say.")
    max_partitions_per_topic: int = _row(10_000, Whole(1, 10_000), group=_TOPICS,
        doc="The most partitions that a topic may be given; `default_partitions` or more.")
    max_partitions: int = _row(50_000, Whole(1, 1_000_000), group=_TOPICS,
        doc="The most partitions that all topics together may be given. What is there already stays, whatever it has.")
    broker_id: int = _row(1, Whole(0, 2**31 - 1), group=_TOPICS,
        doc="The id under which this server is listed as the one broker.")

    offsets_retention_ms: int = _row(OFFSETS_RETENTION_MS, Whole(1000, INT64_MAX), group=_GROUPS,
        doc="How long offsets of a group without members, or of topics that it no longer reads, are kept.")
    assignors: tuple[str, ...] = _row((), Functions(), group=_GROUPS, metavar="FUNCTIONS",
        doc="The functions that `partition.assignment.strategy` may name beside the assignors that there are.")

    max_body_bytes: int = _row(64 * _MIB, Whole(1024, 2**31 - 1), group=_LIMITS,
        doc="The largest body of a request, also after it was decompressed.")
    max_bodies_bytes: int = _row(128 * _MIB, Whole(1024), group=_LIMITS,
        doc="How much of the bodies of all requests may be in memory at once; `max_body_bytes` or more.")
    max_reads_bytes: int = _row(256 * _MIB, Whole(_MIB), group=_LIMITS,
        doc="How much of what readers asked for may be in memory at once.")
    max_records: int = _row(100_000, Whole(1, 10_000_000), group=_LIMITS,
        doc="The most records in one request.")
    max_poll_ms: int = _row(60_000, Whole(0, _MOST_MS), group=_LIMITS,
        doc="The longest that a read may wait for records; a longer wish is cut to it.")
    request_timeout_ms: int = _row(30_000, Whole(1, _MOST_MS), group=_LIMITS,
        doc="How long a request may take in all before its outcome is reported as unknown.")

    max_connections: int = _row(10_000, Whole(1, 1_000_000), group=_CONNECTIONS,
        doc="The most connections at once; further ones are turned away.")
    max_head_bytes: int = _row(32 * 1024, Whole(1024, _MIB), group=_CONNECTIONS,
        doc="The largest request head: its first line and all its fields.")
    max_head_fields: int = _row(100, Whole(8, 1000), group=_CONNECTIONS,
        doc="The most fields in a request head.")
    head_timeout_ms: int = _row(10_000, Whole(1, _MOST_MS), group=_CONNECTIONS,
        doc="How long a client may take to send a request head.")
    body_timeout_ms: int = _row(20_000, Whole(1, _MOST_MS), group=_CONNECTIONS,
        doc="How long a request body may stop, or come more slowly than `min_body_bytes_per_second`.")
    min_body_bytes_per_second: int = _row(4096, Whole(0, 2**31 - 1), group=_CONNECTIONS,
        doc="The least that must come of a request body, as an average of `body_timeout_ms`; 0: any byte will do.")
    body_deadline_ms: int = _row(600_000, Whole(1, _MOST_MS), group=_CONNECTIONS,
        doc="How long a request body may take in all.")
    first_request_timeout_ms: int = _row(20_000, Whole(1, _MOST_MS), group=_CONNECTIONS,
        doc="How long a new connection may stay silent.")
    keep_alive_timeout_ms: int = _row(75_000, Whole(1, _MOST_MS), group=_CONNECTIONS,
        doc="How long a connection may stay silent between two requests.")
    write_timeout_ms: int = _row(60_000, Whole(1, _MOST_MS), group=_CONNECTIONS,
        doc="How long a client may take nothing of its answer.")
    drain_timeout_ms: int = _row(10_000, Whole(0, _MOST_MS), group=_CONNECTIONS,
        doc="How long a stop may take, for the requests under way and for the tables together.")
    cors_origins: tuple[str, ...] = _row((), Origins(), group=_CONNECTIONS, metavar="ORIGINS",
        doc="The web pages whose scripts may call this server, with commas between them, or *; none by default.")
    advertised_hosts: tuple[str, ...] = _row((), Hosts(), group=_CONNECTIONS, metavar="HOSTS",
        doc="The names by which clients call this server, beside addresses, localhost and this machine's own name; * "
        "lets every name pass. Requests by another name are refused.")
    trusted_proxies: tuple[str, ...] = _row((), Networks(), group=_CONNECTIONS, metavar="ADDRESSES",
        doc="The proxies that are believed what Forwarded and X-Forwarded-* say of the address that a client called.")

    untabled_memory_bytes: int = _row(256 * _MIB, Whole(_MIB), group=_LOG,
        doc="How much of what is not yet in the tables stays in memory; the rest is read back from the journal.")
    untabled_topic_bytes: int = _row(256 * _MIB, Whole(_MIB), group=_LOG,
        doc="How much of one topic may be in the journal and not yet in its table, with the kilobyte of memory that "
        "each request takes meanwhile; above it requests are refused.")
    untabled_total_bytes: int = _row(1024 * _MIB, Whole(_MIB), group=_LOG,
        doc="The same for all topics together.")
    tail_bytes: int = _row(128 * _MIB, Whole(0), group=_LOG,
        doc="How much of the newest records stays in memory for readers that follow.")
    table_workers: int = _row(2, Whole(1, 64), group=_LOG,
        doc="How many threads write tables.")
    files_per_second: int = _row(500, Whole(1, 1_000_000), group=_LOG,
        doc="How many files a second all tables together may gain; above it commits are spread out.")
    ballast_bytes: int = _row(64 * _MIB, Whole(0), group=_LOG,
        doc="How much room a directory holds in reserve, to be given back when its disk is full; at most a 32nd of the "
        "disk, and 0 holds none.")
    journal_linger_ms: int = _row(50, Whole(0, 60_000), group=_LOG,
        doc="In a bucket, the least time from one write of the journal to the next: each is a request to be paid for.")
    producer_id_expiration_ms: int = _row(_DAY_MS, Whole(1000, INT64_MAX), group=_LOG, name="producer.id.expiration.ms",
        doc="How long an idempotent producer is remembered after its last request: longer than it repeats one.")
    transactional_id_expiration_ms: int = _row(7 * _DAY_MS, Whole(1000, INT64_MAX), group=_LOG,
        name="transactional.id.expiration.ms",
        doc="How long it can be asked what became of a transaction.")
    transaction_max_timeout_ms: int = _row(900_000, Whole(1, INT64_MAX), group=_LOG, name="transaction.max.timeout.ms",
        doc="How long a transaction may take at most; one that does not say takes a minute, or this where it is less.")
    transaction_max_bytes: int = _row(128 * _MIB, Whole(1024), group=_LOG, name="transaction.max.bytes",
        doc="How much a transaction may hold: about what its records take in the"
        " journal, and 500 bytes and its metadata for each offset of a group.")

    log_format: str = _row("auto", OneOf(("auto", "text", "json")), group=_LOGGING, metavar="FORMAT",
        doc="`text` for people, `json` for programs; `auto` is text on a terminal and JSON elsewhere.")
    log_level: str = _row("info", OneOf(("debug", "info", "warning", "error")), group=_LOGGING, metavar="LEVEL",
        doc="The least that is logged.")
    access_log: Literal["off", "errors", "all"] = _row("errors", OneOf(("off", "errors", "all")), group=_LOGGING,
        metavar="WHICH",
        doc="Which requests get a line in the log: none, those answered with a status of 400 and above, or all.")

    topic_defaults: Mapping[str, object] = field(default_factory=dict[str, object])
# fmt: on


SETTINGS: Final[tuple[Setting, ...]] = (
    *(
        Setting(each.metadata["name"] or each.name, each.default, **each.metadata["row"])
        for each in fields(ServerSettings)
        if each.metadata
    ),
    *(
        Setting(TOPIC + each.name, each.default, each.check, each.doc, _TOPIC_DEFAULTS, "VALUE")
        for each in topic_settings.SETTINGS
    ),
)
GROUPS: Final[tuple[str, ...]] = tuple(dict.fromkeys(setting.group for setting in SETTINGS))
