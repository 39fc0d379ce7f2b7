"""What is counted, by plain objects: no server, no log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from delta_log.maintenance.retention import measure_overdue, plan_retention
from delta_log.model.types import DataFile
from delta_log.runtime.meters import JOBS, CommitMeter, Histogram, JobMeter, JournalMeter
from ingest_api.observe.exposition import Sheet
from ingest_api.observe.metric_names import BUILD, JOURNAL_SECONDS, METRICS, REQUESTS
from ingest_api.observe.readiness import reasons_not_ready
from ingest_api.web.access_log import Access, AccessLog, as_record, open_access_log, readable
from ingest_api.web.counters import RequestCounters
from ingest_api.web.request import Reply
from tests.support.logs import Clock, eventually

SCOPE = {"method": "GET", "raw_path": b"/topics", "query_string": b"", "client": ("127.0.0.1", 5000)}
NOW = 1_800_000_000_000


def answer(watch: RequestCounters, status: int = 200, seconds: float = 0.001, **scope: object) -> None:
    watch.answered("list_topics", {**SCOPE, **scope}, Reply(status, b"[]"), b"id-1", seconds)


class Lines(logging.Handler):
    """What reached the logger of the access log."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("lakelog.access")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


class TestHistogram:
    def test_a_value_counts_under_the_first_bound_that_is_not_below_it(self):
        histogram = Histogram((1.0, 2.0))
        for value in (0.5, 1.0, 1.5, 2.0, 99.0):
            histogram.add(value)
        frozen = histogram.freeze()
        assert (frozen.counts, frozen.total, frozen.count) == ((2, 2, 1), 104.0, 5)

    def test_a_frozen_one_does_not_change_any_more(self):
        histogram = Histogram((1.0,))
        frozen = histogram.freeze()
        histogram.add(0.5)
        assert frozen.count == 0


class TestJournalMeter:
    def test_a_failure_counts_until_a_write_succeeds(self):
        meter = JournalMeter()
        meter.failed("no space", now=100.0)
        assert meter.failing(101.0, within_s=10.0) == "no space"
        meter.wrote(0.001, 3)
        assert meter.failing(101.0, within_s=10.0) is None
        assert meter.failures == 1

    def test_a_failure_that_nobody_tried_to_overcome_counts_for_a_while_alone(self):
        meter = JournalMeter()
        meter.failed("no space", now=100.0)
        assert meter.failing(109.9, within_s=10.0) == "no space"
        assert meter.failing(110.0, within_s=10.0) is None


class TestJobs:
    def test_a_run_that_raises_and_one_that_says_so_have_failed(self):
        clock = Clock(NOW)
        meter = JobMeter(clock)
        with meter.run("fold"):
            pass
        clock.turn(5)
        with pytest.raises(ZeroDivisionError), meter.run("fold"):
            raise ZeroDivisionError
        clock.turn(5)
        with meter.run("fold") as run:
            run.failed = True
        fold = next(job for job in meter.freeze() if job.job == "fold")
        assert (fold.succeeded, fold.failed) == (1, 2)
        assert (fold.last_success_ms, fold.last_failure_ms) == (NOW, NOW + 10)
        assert fold.last_seconds is not None

    def test_a_job_that_never_ran_is_named_all_the_same(self):
        assert [job.job for job in JobMeter(Clock()).freeze()] == list(JOBS)
        assert all(job.last_seconds is None for job in JobMeter(Clock()).freeze())

    def test_a_commit_that_fails_is_counted_apart(self):
        meter = CommitMeter()
        with meter.commit():
            pass
        with pytest.raises(ZeroDivisionError), meter.commit():
            raise ZeroDivisionError
        assert (meter.seconds.freeze().count, meter.failures) == (1, 1)


@st.composite
def partitions(draw: st.DrawFn) -> list[DataFile]:
    files: list[DataFile] = []
    base, at = draw(st.integers(0, 5)), NOW - 1000
    for size in draw(st.lists(st.integers(1, 50), max_size=8)):
        last, at = base + draw(st.integers(0, 5)), at + draw(st.integers(0, 300))
        newest = NOW + draw(st.integers(-2000, 500))
        files.append(DataFile(f"{base}.parquet", 0, base, last, last - base + 1, size, newest - 1, newest, at))
        base = last + 1 + draw(st.integers(0, 2))
    return files


limits = st.one_of(st.none(), st.integers(0, 1500))


@example(
    [
        DataFile("0.parquet", 0, 0, 0, 1, 1, NOW - 1, NOW, NOW - 1000),
        DataFile("1.parquet", 0, 1, 1, 1, 1, NOW - 1002, NOW - 1001, NOW - 1000),
    ],
    0,
    0,
    None,
    1,
)
@given(partitions(), st.integers(0, 40), limits, st.one_of(st.none(), st.integers(0, 200)), st.integers(1, 500))
def test_what_is_overdue_is_what_retention_would_remove(files, log_start, retention_ms, retention_bytes, segment_ms):
    asked = {
        "log_start": log_start,
        "retention_ms": retention_ms,
        "retention_bytes": retention_bytes,
        "segment_ms": segment_ms,
        "now_ms": NOW,
    }
    found, plan = measure_overdue(files, **asked), plan_retention(files, end=100, **asked)
    assert found.size == (plan.size if plan is not None else 0)
    # Its age is by how much more time the limits would have to give, so that nothing but what is below the start went.
    reasons = {removal.why for removal in plan.removals} if plan is not None else set()
    assert found.age_ms == 0 or reasons & {"time", "bytes"}
    if retention_bytes is None and retention_ms is not None:
        patient = plan_retention(files, end=100, **asked | {"retention_ms": retention_ms + found.age_ms})
        assert patient is None or {removal.why for removal in patient.removals} == {"below the log start"}
        if found.age_ms:
            assert plan_retention(files, end=100, **asked | {"retention_ms": retention_ms + found.age_ms - 1})


class TestWatch:
    def test_requests_are_counted_by_route_and_status(self):
        watch = RequestCounters()
        answer(watch)
        answer(watch)
        answer(watch, status=404, seconds=0.7)
        watch.gone("produce")
        assert watch.routes["list_topics"].statuses == {200: 2, 404: 1}
        assert watch.routes["list_topics"].seconds.freeze().count == 3
        assert watch.routes["list_topics"].seconds.freeze().total == pytest.approx(0.702)
        assert watch.routes["produce"].gone == 1

    def test_topics_beyond_the_bound_are_counted_as_one(self):
        watch = RequestCounters(most_topics=2)
        for topic in ("a", "b", "c", "d", "a"):
            watch.produced(topic, 1, 10)
        watch.consumed("d", 5, 50)
        assert {name: counts.records_in for name, counts in watch.topics.items()} == {"a": 2, "b": 1}
        assert (watch.other_topics.records_in, watch.other_topics.bytes_in) == (2, 20)
        assert (watch.other_topics.records_out, watch.other_topics.bytes_out) == (5, 50)

    def test_a_topic_that_is_gone_leaves_its_place_to_another(self):
        watch = RequestCounters(most_topics=1)
        watch.produced("a", 1, 10)
        watch.forget_topics(["a", "never-there"])
        watch.produced("b", 1, 10)
        assert list(watch.topics) == ["b"]

    def test_open_polls_are_those_that_have_not_ended_however_they_do(self):
        watch = RequestCounters()
        with watch.polling, watch.polling:
            assert watch.polling.open == 2
        with pytest.raises(ZeroDivisionError), watch.polling:
            raise ZeroDivisionError
        assert watch.polling.open == 0


class TestAccessLog:
    def test_off_means_that_nothing_is_kept(self):
        assert open_access_log("off") is None
        answer(RequestCounters(access=None), status=500)

    def test_errors_are_answers_from_400_on_and_what_took_longer_than_a_second(self, lines: Lines):
        access = AccessLog("errors")
        watch = RequestCounters(access=access)
        answer(watch)
        answer(watch, status=399, seconds=1.0)
        answer(watch, status=400)
        answer(watch, seconds=1.5)
        access.stop()
        assert [record.facts["status"] for record in lines.records] == [400, 200]

    def test_a_reader_that_asked_to_wait_was_not_slow(self, lines: Lines):
        access = AccessLog("errors")
        watch = RequestCounters(access=access)
        answer(watch, seconds=30.0, query_string=b"offset=3&timeout=30000")
        stream = Reply(200, b"", b"text/event-stream")
        watch.answered("fetch", SCOPE, stream, b"id", 3000.0)
        answer(watch, status=404, seconds=30.0, query_string=b"timeout=30000")
        access.stop()
        assert [record.facts["status"] for record in lines.records] == [404]

    def test_all_are_written_while_it_runs_with_the_time_of_the_request(self, lines: Lines):
        access = AccessLog("all")
        access.start()
        try:
            answer(RequestCounters(access=access), query_string=b"a=b")
            eventually(lambda: lines.records, "the line")
        finally:
            access.stop()
        (record,) = lines.records
        assert record.getMessage() == '127.0.0.1:5000 "GET /topics?a=b" 200 2 bytes 1.0 ms'
        assert record.request_id == "id-1"
        assert record.facts["route"] == "list_topics"
        assert record.facts["client"] == "127.0.0.1:5000"

    def test_a_stop_writes_what_is_left(self, lines: Lines):
        access = AccessLog("all")
        access.start()
        for _ in range(500):
            answer(RequestCounters(access=access))
        access.stop()
        assert len(lines.records) == 500

    def test_what_comes_too_fast_drops_the_oldest_and_is_counted(self, lines: Lines):
        access = AccessLog("all", room=3)
        watch = RequestCounters(access=access)
        for status in (201, 202, 203, 204, 205):
            answer(watch, status=status)
        access.stop()
        assert [record.facts["status"] for record in lines.records] == [203, 204, 205]
        assert access.dropped == 2

    def test_a_client_cannot_write_a_line_of_its_own(self):
        hostile = b'/a\r\nINFO forged "x" \x1b[31m\x00\xff%s' + b"y" * 5000
        access = Access(1.25, "GET", hostile, b"", 400, 0.1, None, "-", "none", b"id")
        record = as_record(access, "lakelog.access")
        message = record.getMessage()
        assert message.isprintable()
        assert message.count('"') == 2
        assert len(message) < 1200
        assert (record.created, record.msecs) == (1.25, 250.0)

    @given(st.binary(max_size=50))
    def test_whatever_a_url_is_it_becomes_one_printable_line(self, raw: bytes):
        assert readable(raw).isprintable() or not raw
        assert '"' not in readable(raw)


class TestText:
    def test_every_metric_of_the_list_is_there_in_both_forms_even_without_a_value(self):
        stems = [metric.name.removesuffix("_total") for metric in METRICS]
        assert [family.name for family in parse_text(Sheet().render(open_metrics=False).decode())] == stems
        form = Sheet().render(open_metrics=True).decode() + "# EOF\n"
        assert [family.name for family in parse_openmetrics(form)] == stems

    def test_values_labels_and_distributions_are_read_back_as_they_were(self):
        sheet, histogram = Sheet(), Histogram((0.0001, 1.0))
        odd = 'a"b\\c\nd'
        sheet.put(BUILD, 1, version=odd)
        sheet.put(REQUESTS, 7, route="fetch", status="200")
        for value in (0.00005, 0.5, 2.0):
            histogram.add(value)
        sheet.put_distribution(JOURNAL_SECONDS, histogram.freeze())
        text, form = sheet.render(open_metrics=False).decode(), sheet.render(open_metrics=True).decode() + "# EOF\n"
        for families in (list(parse_text(text)), list(parse_openmetrics(form))):
            samples = {(s.name, *s.labels.items()): s.value for family in families for s in family.samples}
            assert samples[("lakelog_build_info", ("version", odd))] == 1
            assert samples[("lakelog_http_requests_total", ("route", "fetch"), ("status", "200"))] == 7
            buckets = [value for key, value in samples.items() if key[0] == "lakelog_journal_sync_seconds_bucket"]
            assert buckets == [1, 2, 3]
            assert samples[("lakelog_journal_sync_seconds_count",)] == 3
            assert samples[("lakelog_journal_sync_seconds_sum",)] == pytest.approx(2.50005)


class TestReadiness:
    def test_a_server_that_serves_and_can_write_is_ready(self):
        assert reasons_not_ready("serving", None) == []

    @pytest.mark.parametrize("state", ["recovering", "draining"])
    def test_one_that_recovers_or_drains_is_not(self, state):
        assert len(reasons_not_ready(state, None)) == 1

    def test_every_reason_is_said(self):
        assert reasons_not_ready("draining", "no space") == ["the server is about to stop", "no space"]
