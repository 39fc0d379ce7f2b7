"""The metrics of a server, made at each scrape: counters of requests, the log and the groups, by their names.

Knows Prometheus' formats. It only reads plain numbers, so that a scrape never waits, and no topic can make it fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from consumer_groups.coordinator.metrics import GroupStatistics
from consumer_groups.coordinator.topic_watch import LogOffsets
from delta_log import JobStatistics, LogStatistics, TopicStatistics
from ingest_api.observe import metric_names as names
from ingest_api.observe.exposition import Sheet, label_text
from ingest_api.observe.group_metrics import OffsetsInUse, fill_groups
from ingest_api.observe.readiness import reasons_not_ready
from ingest_api.web.context import ServerContext
from ingest_api.web.counters import RequestCounters, TopicCounts

#: Stands for all topics without a series of their own; no topic can have this name.
OTHERS: Final = "(other)"
_OPENMETRICS: Final = "application/openmetrics-text"


class Exposition:
    """Answers /metrics of a server."""

    def __init__(self, tier: ServerContext, version: str) -> None:
        self._tier = tier
        self._version = version
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    def text(self, accept: str, groups: GroupStatistics) -> tuple[bytes, str]:
        """Render all metrics; returns them with their media type: OpenMetrics if `accept` has it, else plain text.

        Runs in a thread, so the loop must have sampled `groups` before.
        """
        open_metrics = _OPENMETRICS in (asked.partition(";")[0].strip().lower() for asked in accept.split(","))
        encode, content_type = choose_encoder(_OPENMETRICS if open_metrics else "")
        return self._fill(groups).render(open_metrics=open_metrics) + encode(self._process), content_type

    def _fill(self, groups: GroupStatistics) -> Sheet:
        tier, sheet = self._tier, Sheet()
        counted = list(tier.watch.topics)
        statistics = tier.log.statistics()
        there_are = {topic.topic for topic in statistics.topics}
        tier.watch.forget_topics(topic for topic in counted if topic not in there_are)
        sheet.put(names.BODIES, tier.bodies.held)
        sheet.put(names.READS, tier.read_room.held)
        sheet.put(names.READY, not reasons_not_ready(tier.watch.state, statistics.refuses))
        sheet.put(names.BUILD, 1, version=self._version)
        fill_requests(sheet, tier.watch)
        fill_topics(sheet, tier.watch, statistics)
        fill_log(sheet, statistics)
        fill_groups(sheet, groups, OffsetsInUse(LogOffsets(tier.log), there_are))
        for job in statistics.jobs:
            fill_job(sheet, job)
        return sheet


def fill_requests(sheet: Sheet, watch: RequestCounters) -> None:
    for name, route in list(watch.routes.items()):
        for status, count in list(route.statuses.items()):
            sheet.put(names.REQUESTS, count, route=name, status=str(status))
        sheet.put_distribution(names.REQUEST_SECONDS, route.seconds.freeze(), route=name)
        sheet.put(names.ABANDONED, route.gone, route=name)
    sheet.put(names.OPEN_POLLS, watch.polling.open)
    sheet.put(names.ACCESS_DROPPED, watch.access.dropped if watch.access is not None else 0)
    wire = watch.wire
    if wire is None:
        return
    for metric, value in (
        (names.CONNECTIONS, wire.open),
        (names.ACCEPTED, wire.accepted),
        (names.RECEIVED, wire.bytes_in),
        (names.SENT, wire.bytes_out),
        (names.FAILED, wire.failed),
    ):
        sheet.put(metric, value)
    for metric, reasons in ((names.REFUSED, wire.refused), (names.CUT, wire.cut)):
        for reason, count in list(reasons.items()):
            sheet.put(metric, count, reason=reason)


def fill_topics(sheet: Sheet, watch: RequestCounters, statistics: LogStatistics) -> None:
    """Add a series for each topic, up to `most_topics`; one for the rest, with sums or maxima."""
    shown, rest = _split(statistics.topics, watch.most_topics)
    for topic in shown:
        _fill_topic(sheet, topic)
    if rest:
        _fill_topic(sheet, _together(rest))
    for name, counts in list(watch.topics.items()):
        _fill_counts(sheet, name, counts)
    _fill_counts(sheet, OTHERS, watch.other_topics)
    for name in sorted(statistics.closed)[: watch.most_topics]:
        sheet.put(names.TOPIC_CLOSED, 1, topic=name)


def fill_log(sheet: Sheet, statistics: LogStatistics) -> None:
    for metric, value in (
        (names.TOPICS, len(statistics.topics)),
        (names.QUEUE, statistics.waiting),
        (names.UNTABLED, statistics.untabled_bytes),
        (names.TAIL, statistics.tail_bytes),
        (names.PRODUCERS, statistics.producers),
        (names.OPEN_TRANSACTIONS, statistics.transactions.open),
        (names.TRANSACTION_BYTES, statistics.transactions.held_bytes),
        (names.TRANSACTION_AGE, statistics.transactions.oldest_s),
        (names.JOURNAL_FAILURES, statistics.journal_failures),
        (names.JOURNAL_MENDED, statistics.journal_mended),
        (names.COMMIT_FAILURES, statistics.commit_failures),
        (names.EPOCH, statistics.epoch),
        (names.OWNERSHIP_LOST, statistics.ownership_lost),
        (names.WRITES_REFUSED, statistics.refuses is not None),
        (names.DISK_FULL, statistics.disk_full),
        (names.BALLAST, statistics.ballast_bytes),
    ):
        sheet.put(metric, value)
    for outcome, count in statistics.transactions.ended:
        sheet.put(names.TRANSACTIONS_ENDED, count, outcome=outcome)
    sheet.put_distribution(names.JOURNAL_SECONDS, statistics.journal_seconds)
    sheet.put_distribution(names.JOURNAL_GROUP, statistics.group_requests)
    sheet.put_distribution(names.COMMIT_SECONDS, statistics.commit_seconds)


def fill_job(sheet: Sheet, job: JobStatistics) -> None:
    for outcome, runs, at in (
        ("succeeded", job.succeeded, job.last_success_ms),
        ("failed", job.failed, job.last_failure_ms),
    ):
        sheet.put(names.JOB_RUNS, runs, task=job.job, outcome=outcome)
        if at is not None:
            sheet.put(names.JOB_LAST, at / 1000, task=job.job, outcome=outcome)
    if job.last_seconds is not None:
        sheet.put(names.JOB_SECONDS, job.last_seconds, task=job.job)


def _split(topics: Iterable[TopicStatistics], most: int) -> tuple[list[TopicStatistics], list[TopicStatistics]]:
    ordered = sorted(topics, key=lambda topic: topic.topic)
    return ordered[:most], ordered[most:]


def _together(topics: list[TopicStatistics]) -> TopicStatistics:
    return TopicStatistics(
        topic=OTHERS,
        partitions=sum(topic.partitions for topic in topics),
        files=sum(topic.files for topic in topics),
        untabled_bytes=sum(topic.untabled_bytes for topic in topics),
        lag_s=max(topic.lag_s for topic in topics),
        overdue_bytes=sum(topic.overdue_bytes for topic in topics),
        overdue_ms=max(topic.overdue_ms for topic in topics),
    )


def _fill_topic(sheet: Sheet, topic: TopicStatistics) -> None:
    labels = label_text({"topic": topic.topic})
    for metric, value in (
        (names.TOPIC_LAG, topic.lag_s),
        (names.TOPIC_UNTABLED, topic.untabled_bytes),
        (names.TOPIC_FILES, topic.files),
        (names.TOPIC_PARTITIONS, topic.partitions),
        (names.TOPIC_OVERDUE_BYTES, topic.overdue_bytes),
        (names.TOPIC_OVERDUE_SECONDS, topic.overdue_ms / 1000),
    ):
        sheet.put_labelled(metric, labels, value)


def _fill_counts(sheet: Sheet, topic: str, counts: TopicCounts) -> None:
    labels = label_text({"topic": topic})
    for metric, value in (
        (names.TOPIC_PRODUCED_RECORDS, counts.records_in),
        (names.TOPIC_PRODUCED_BYTES, counts.bytes_in),
        (names.TOPIC_CONSUMED_RECORDS, counts.records_out),
        (names.TOPIC_CONSUMED_BYTES, counts.bytes_out),
    ):
        sheet.put_labelled(metric, labels, value)
