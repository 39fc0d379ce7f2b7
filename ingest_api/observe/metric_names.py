"""The only list of all metrics that a server exposes of its own. Pure; must not know how they are measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Type = Literal["counter", "gauge", "histogram"]
Unit = Literal["seconds", "bytes", ""]


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric by Prometheus' rules: a counter ends in `_total`, a unit is a base unit and part of the name."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> Unit:
        stem = self.name.removesuffix("_total")
        return "seconds" if stem.endswith("_seconds") else "bytes" if stem.endswith("_bytes") else ""


_TOPIC: Final = ("topic",)
_GROUP: Final = ("group",)

# fmt: off
# HTTP requests.
REQUESTS: Final = MetricName("lakelog_http_requests_total", "counter",
    "Requests that were answered, by route and status.", ("route", "status"))
REQUEST_SECONDS: Final = MetricName("lakelog_http_request_duration_seconds", "histogram",
    "From the head of a request to the last byte of its answer; long-polls and streams last as long as asked.",
    ("route",))
ABANDONED: Final = MetricName("lakelog_http_requests_abandoned_total", "counter",
    "Requests whose client went away before it had sent all of its body; nothing of them was stored.", ("route",))
FAILED: Final = MetricName("lakelog_http_requests_failed_total", "counter",
    "Requests that ended without an answer of their route, by a fault of the server.")
REFUSED: Final = MetricName("lakelog_http_refused_total", "counter",
    "Requests and connections that were refused before any route saw them, by reason.", ("reason",))
CONNECTIONS: Final = MetricName("lakelog_http_connections", "gauge", "Connections that are open.")
ACCEPTED: Final = MetricName("lakelog_http_connections_accepted_total", "counter", "Connections that were accepted.")
CUT: Final = MetricName("lakelog_http_connections_cut_total", "counter",
    "Connections that the server ended early, by reason.", ("reason",))
RECEIVED: Final = MetricName("lakelog_http_received_bytes_total", "counter", "What clients sent, heads and bodies.")
SENT: Final = MetricName("lakelog_http_sent_bytes_total", "counter", "What clients were sent, heads and bodies.")
OPEN_POLLS: Final = MetricName("lakelog_http_open_polls", "gauge",
    "Readers that wait for records: long-polls and event streams.")
BODIES: Final = MetricName("lakelog_http_bodies_bytes", "gauge", "Memory that large request bodies take.")
READS: Final = MetricName("lakelog_http_reads_bytes", "gauge", "Memory that answers with records may take.")
ACCESS_DROPPED: Final = MetricName("lakelog_access_log_dropped_total", "counter",
    "Lines of the access log that were dropped because they came faster than they could be written.")

# Each topic.
TOPIC_PRODUCED_RECORDS: Final = MetricName("lakelog_topic_produced_records_total", "counter",
    "Records that were acknowledged.", _TOPIC)
TOPIC_PRODUCED_BYTES: Final = MetricName("lakelog_topic_produced_bytes_total", "counter",
    "Bytes of the request bodies whose records were acknowledged.", _TOPIC)
TOPIC_CONSUMED_RECORDS: Final = MetricName("lakelog_topic_consumed_records_total", "counter",
    "Records that were given to readers.", _TOPIC)
TOPIC_CONSUMED_BYTES: Final = MetricName("lakelog_topic_consumed_bytes_total", "counter",
    "Bytes of records that were given to readers, before they were put into a format.", _TOPIC)
TOPIC_LAG: Final = MetricName("lakelog_topic_table_lag_seconds", "gauge",
    "Age of the oldest acknowledged record that is not in the Delta table yet; 0 when it has all.", _TOPIC)
TOPIC_UNTABLED: Final = MetricName("lakelog_topic_untabled_bytes", "gauge",
    "Acknowledged and not in the Delta table yet, with the memory that it takes meanwhile.", _TOPIC)
TOPIC_FILES: Final = MetricName("lakelog_topic_live_files", "gauge", "Data files of the Delta table.", _TOPIC)
TOPIC_PARTITIONS: Final = MetricName("lakelog_topic_partitions", "gauge", "Partitions.", _TOPIC)
TOPIC_OVERDUE_BYTES: Final = MetricName("lakelog_topic_retention_overdue_bytes", "gauge",
    "Files that retention should have removed by now.", _TOPIC)
TOPIC_OVERDUE_SECONDS: Final = MetricName("lakelog_topic_retention_overdue_seconds", "gauge",
    "For how long the oldest of these files should have been gone, by retention.ms or retention.bytes.", _TOPIC)
TOPIC_CLOSED: Final = MetricName("lakelog_topic_closed", "gauge",
    "1 for a topic that refuses requests because it is damaged; the log says why.", _TOPIC)

# Progress and activity of groups.
GROUP_LAG: Final = MetricName("lakelog_consumer_group_lag", "gauge",
    "Records between what the group has committed and the end; where it has committed nothing, what it will read.",
    ("group", "topic", "partition"))
GROUP_MEMBERS: Final = MetricName("lakelog_consumer_group_members", "gauge", "Members, also those that do not read.",
    _GROUP)
GROUP_GENERATION: Final = MetricName("lakelog_consumer_group_generation", "gauge",
    "The number of its assignment: each rebalance begins the next.", _GROUP)
GROUP_STATE: Final = MetricName("lakelog_consumer_group_state", "gauge",
    "1 for the state that the group is in: Empty, Reconciling or Stable.", ("group", "state"))
GROUPS: Final = MetricName("lakelog_consumer_groups", "gauge", "Groups there are.")
GROUPS_NOT_MEASURED: Final = MetricName("lakelog_consumer_groups_not_measured", "gauge",
    "Groups whose lag is not shown, as there are too many or they read too many partitions.")
GROUP_COMMITS: Final = MetricName("lakelog_consumer_group_commits_total", "counter",
    "Changes that stored offsets: commits of members, auto-commits, and what was set from outside.")
GROUP_COMMIT_SECONDS: Final = MetricName("lakelog_consumer_group_commit_seconds", "histogram",
    "Commits that members asked for: until they were durable.")
GROUP_REBALANCES: Final = MetricName("lakelog_consumer_group_rebalances_total", "counter",
    "Generations that were begun, of all groups.")
GROUP_GIVEN_UP: Final = MetricName("lakelog_consumer_group_given_up_total", "counter",
    "Records that became dead letters as members went too often without having come back from them.")

# The log as a whole.
TOPICS: Final = MetricName("lakelog_topics", "gauge", "Tables that are in use, the server's own among them.")
QUEUE: Final = MetricName("lakelog_queue_requests", "gauge", "Requests that wait for the journal.")
UNTABLED: Final = MetricName("lakelog_untabled_bytes", "gauge",
    "Acknowledged and not in the Delta tables yet, of all topics, with the memory that it takes meanwhile; at its "
    "limit requests are refused.")
TAIL: Final = MetricName("lakelog_tail_bytes", "gauge", "Memory that the newest records take, for readers that follow.")
PRODUCERS: Final = MetricName("lakelog_producers", "gauge", "Idempotent producers that are remembered.")
OPEN_TRANSACTIONS: Final = MetricName("lakelog_transactions_open", "gauge",
    "Transactions that are begun, and neither committed nor aborted.")
TRANSACTION_BYTES: Final = MetricName("lakelog_transactions_open_bytes", "gauge",
    "Records of open transactions, in memory and in files, with what they take of memory; at 1 GiB more "
    "are refused.")
TRANSACTION_AGE: Final = MetricName("lakelog_transactions_oldest_seconds", "gauge",
    "The age of the oldest open transaction; its time aborts it.")
TRANSACTIONS_ENDED: Final = MetricName("lakelog_transactions_ended_total", "counter",
    "Transactions by how they ended: committed, aborted, fenced by a later holder of their id, or timed_out.",
    ("outcome",))
JOURNAL_SECONDS: Final = MetricName("lakelog_journal_sync_seconds", "histogram",
    "Writing and syncing one group of requests to the journal.")
JOURNAL_GROUP: Final = MetricName("lakelog_journal_group_requests", "histogram",
    "Requests that shared one write and one sync.")
JOURNAL_FAILURES: Final = MetricName("lakelog_journal_failures_total", "counter",
    "Groups that could not be written to the journal.")
JOURNAL_MENDED: Final = MetricName("lakelog_journal_mended_total", "counter",
    "Writes of the journal whose outcome was open at first, and that were settled when the disk or bucket was well.")
COMMIT_SECONDS: Final = MetricName("lakelog_table_commit_seconds", "histogram",
    "Bringing records into a Delta table: its files and its commit.")
COMMIT_FAILURES: Final = MetricName("lakelog_table_commit_failures_total", "counter",
    "Commits of a Delta table that failed or are in doubt; they are tried again.")
EPOCH: Final = MetricName("lakelog_epoch", "gauge", "The number of this ownership of the data.")
OWNERSHIP_LOST: Final = MetricName("lakelog_ownership_lost", "gauge", "1 when another process owns the data now.")
WRITES_REFUSED: Final = MetricName("lakelog_writes_refused", "gauge", "1 while nothing can be written.")
DISK_FULL: Final = MetricName("lakelog_disk_full", "gauge",
    "1 while no records are taken as the disk of the data is full.")
BALLAST: Final = MetricName("lakelog_ballast_bytes", "gauge",
    "Room that is held in reserve on the disk of the data, to be given back when that is full.")
READY: Final = MetricName("lakelog_ready", "gauge", "1 while /readyz answers 200.")
BUILD: Final = MetricName("lakelog_build_info", "gauge", "1, with the version that is running.", ("version",))

# Background tasks. The label is not `job`: Prometheus uses that for its target.
JOB_RUNS: Final = MetricName("lakelog_job_runs_total", "counter",
    "Runs of each job of the upkeep; a fold, checkpoint or cleanup that found nothing to do is no run.",
    ("task", "outcome"))
JOB_LAST: Final = MetricName("lakelog_job_last_run_timestamp_seconds", "gauge",
    "When the last run ended, for each outcome that there was.", ("task", "outcome"))
JOB_SECONDS: Final = MetricName("lakelog_job_last_run_duration_seconds", "gauge", "How long the last run took.",
    ("task",))
# fmt: on

METRICS: Final = tuple(found for found in tuple(globals().values()) if isinstance(found, MetricName))
