"""What an operator asks: /healthz, /readyz, /metrics, /_health and the root of the server.

It is long by the metrics, which are checked name by name.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from delta_log import ProducerStamp, Record
from delta_log.model.errors import NotOwner, StorageRefused, TopicClosed
from ingest_api.config.settings import ServerSettings
from ingest_api.http1.counts import WireCounts
from ingest_api.observe.health import place_of
from ingest_api.observe.metric_names import METRICS
from ingest_api.observe.metrics import OTHERS
from ingest_api.web.access_log import AccessLog
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW, Place, damage_next_commit, eventually, hold_tables

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Samples = dict[tuple[str, ...], float]


def scrape(app: HttpApp) -> Samples:
    """Every sample by its name and the values of its labels."""
    answer = app.get("/metrics")
    assert answer.status_code == 200
    families = list(parse_text(answer.text))
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


@pytest.fixture
def local_app(tmp_path: Path) -> Iterator[tuple[Place, HttpApp]]:
    place = Place(tmp_path / "root")
    with HttpApp(place.open()) as app:
        yield place, app
    place.close()


class TestHealth:
    def test_a_server_that_answers_lives(self, app: HttpApp):
        answer = app.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})

    def test_it_lives_also_when_nothing_can_be_written(self, app: HttpApp):
        app.log._running.writer.close(NotOwner("a test"))
        app.tier.watch.state = "draining"
        assert app.get("/healthz").status_code == 200

    def test_the_root_says_what_this_is(self, app: HttpApp):
        said = app.get("/").json()
        assert said["name"] == "lakelog"
        assert said["cluster_id"] == app.log.cluster_id
        assert said["data"] == place_of(app.tier.settings)
        assert app.get(said["docs"]).status_code == 200
        assert app.get(said["openapi"]).status_code == 200

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            (ServerSettings(data="/srv/shop"), "/srv/shop"),
            (ServerSettings(data="shop"), str(Path("shop").absolute())),
            (ServerSettings(data="s3://shop/log"), "s3://shop/log"),
            (ServerSettings(data="s3://id:secret@shop/log?token=secret#secret"), "s3://shop/log"),
            (
                ServerSettings(data="s3://shop/log", store_option=(("aws_secret_access_key", "secret"),)),
                "s3://shop/log",
            ),
            (ServerSettings(data="/srv/shop", memory=True), None),
        ],
    )
    def test_the_root_says_where_its_tables_are_and_nothing_that_opens_a_bucket(
        self, settings: ServerSettings, said: str | None
    ):
        assert place_of(settings) == said

    def test_karapace_s_health_check_has_its_fields(self, app: HttpApp):
        answer = app.get("/_health")
        assert answer.status_code == 200
        assert type(answer.json()["process_uptime_sec"]) is int
        assert answer.json()["karapace_version"].startswith("lakelog ")
        app.tier.watch.state = "draining"
        assert app.get("/_health").status_code == 503

    def test_a_parameter_that_there_is_not_is_refused(self, app: HttpApp):
        for path in ("/", "/healthz", "/readyz", "/metrics", "/_health"):
            assert error_code(app.get(path + "?verbose=1")) == (422, 422)


class TestReadiness:
    def test_a_server_over_an_open_log_is_ready(self, app: HttpApp):
        answer = app.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})
        assert scrape(app)[("lakelog_ready",)] == 1

    def test_it_is_not_ready_while_it_drains(self, app: HttpApp):
        app.tier.watch.state = "draining"
        answer = app.get("/readyz")
        assert error_code(answer) == (503, 503)
        assert answer.json()["ready"] is False
        assert answer.json()["reasons"] == ["the server is about to stop"]
        assert scrape(app)[("lakelog_ready",)] == 0

    def test_it_is_not_ready_once_another_process_owns_the_data(self, app: HttpApp):
        app.log._running.writer.close(NotOwner("epoch 7 took it"))
        assert "epoch 7 took it" in app.get("/readyz").json()["message"]
        found = scrape(app)
        assert found[("lakelog_ownership_lost",)] == 1
        assert found[("lakelog_writes_refused",)] == 1

    def test_it_is_not_ready_from_a_failed_write_of_the_journal_until_one_succeeds(self, app: HttpApp):
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"1")])
        journal = app.log._running.writer.journal
        real, journal.append = journal.append, _refuse
        with pytest.raises(StorageRefused):
            app.log.append("orders", [Record(b"2")])
        assert "no space" in app.get("/readyz").json()["message"]
        assert scrape(app)[("lakelog_journal_failures_total",)] == 1
        journal.append = real
        app.log.append("orders", [Record(b"2")])
        assert app.get("/readyz").status_code == 200

    def test_it_is_not_ready_once_the_log_is_closed(self, app: HttpApp):
        app.log.close()
        assert app.get("/readyz").status_code == 503
        assert scrape(app)[("lakelog_writes_refused",)] == 1


def _refuse(*_: object) -> None:
    raise StorageRefused("the journal", "no space left")


class TestMetrics:
    def test_every_name_of_the_list_has_a_value_and_no_other_is_exposed(self, local_app: tuple[Place, HttpApp]):
        _, app = local_app
        app.tier.watch.wire = WireCounts(open=3, accepted=5, bytes_in=7, bytes_out=11, failed=13)
        app.tier.watch.wire.refused["head"] = app.tier.watch.wire.cut["idle"] = 1
        app.tier.watch.access = AccessLog("all")
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"1")], producer=ProducerStamp("p", 0, 0))
        app.log.flush()
        app.log.run_upkeep()
        app.log.run_retention("orders")
        app.run(app.tier.groups.topics_changed())
        offsets = [{"topic": "orders", "partition": 0, "next_offset": 0}]
        assert app.put("/groups/billing/offsets", json={"offsets": offsets}).status_code == 204
        app.log.create_topic("broken")
        app.log._running.catalog.live("broken").close(TopicClosed("broken", "a test"))
        app.get("/topics")
        families = parse_text(app.get("/metrics").text)
        exposed = {family.name: family for family in families if family.name.startswith("lakelog_")}
        stems = {metric.name.removesuffix("_total"): metric for metric in METRICS}
        assert exposed.keys() == stems.keys()
        for stem, metric in stems.items():
            assert exposed[stem].samples, metric.name
            assert exposed[stem].type == metric.type
            assert exposed[stem].documentation == metric.help
            for sample in exposed[stem].samples:
                assert tuple(label for label in sample.labels if label != "le") == metric.labels

    def test_the_same_can_be_had_as_openmetrics(self, app: HttpApp):
        app.get("/topics")
        wanted = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3"
        answer = app.get("/metrics", headers={"accept": wanted})
        assert answer.headers["content-type"] == OPENMETRICS
        names = {family.name for family in parse_openmetrics(answer.text)}
        assert {metric.name.removesuffix("_total") for metric in METRICS} < names

    @pytest.mark.parametrize("accept", ["*/*", "", "image/png", ";;,,=", "text/plain;version=x.y", "\xff"])
    def test_whatever_else_is_asked_for_is_answered_as_plain_text(self, app: HttpApp, accept: str):
        answer = app.get("/metrics", headers={"accept": accept.encode("latin-1")})
        assert (answer.status_code, answer.headers["content-type"]) == (200, TEXT)

    def test_the_process_is_measured_too(self, app: HttpApp):
        names = {key[0] for key in scrape(app)}
        assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "python_info"} <= names
        assert "python_gc_collections_total" in names

    def test_requests_are_counted_by_route_and_status(self, app: HttpApp):
        app.get("/topics")
        app.get("/topics/nowhere")
        found = scrape(app)
        assert found[("lakelog_http_requests_total", "list_topics", "200")] == 1
        assert found[("lakelog_http_requests_total", "describe_topic", "404")] == 1
        assert found[("lakelog_http_request_duration_seconds_count", "list_topics")] == 1

    def test_records_are_counted_by_topic_when_they_come_and_go(self, app: HttpApp):
        app.log.create_topic("orders")
        app.post("/topics/orders", json={"records": [{"value": 1}, {"value": 2}]})
        app.get("/topics/orders/partitions/0/records?offset=0")
        found = scrape(app)
        assert found[("lakelog_topic_produced_records_total", "orders")] == 2
        assert found[("lakelog_topic_consumed_records_total", "orders")] == 2
        assert found[("lakelog_topic_produced_bytes_total", "orders")] > 0
        assert found[("lakelog_topic_consumed_bytes_total", "orders")] > 0

    def test_a_deleted_topic_s_series_go(self, app: HttpApp):
        for topic in ("orders", "clicks"):
            app.log.create_topic(topic)
            app.log.append(topic, [Record(b"1")])
            app.tier.watch.produced(topic, 1, 1)
        assert ("lakelog_topic_live_files", "orders") in scrape(app)
        app.log.delete_topic("orders")
        assert not [key for key in scrape(app) if "orders" in key]
        assert ("lakelog_topic_produced_records_total", "clicks") in scrape(app)

    def test_topics_beyond_the_bound_share_one_series(self, app: HttpApp):
        hold_tables(app.log)
        for topic in ("a", "b", "c"):
            app.log.create_topic(topic, 2)
            app.log.append(topic, [Record(b"1")])
        app.tier.watch.most_topics = 1
        found = scrape(app)
        assert {key[1] for key in found if key[0] == "lakelog_topic_partitions"} == {"a", OTHERS}
        assert found[("lakelog_topic_partitions", OTHERS)] == 4
        untabled = found[("lakelog_topic_untabled_bytes", "a")] + found[("lakelog_topic_untabled_bytes", OTHERS)]
        assert untabled == found[("lakelog_untabled_bytes",)] > 0

    def test_the_lag_of_a_table_is_the_age_of_what_it_does_not_have(self, app: HttpApp):
        hold_tables(app.log)
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"1")])
        app.log.flush()
        assert scrape(app)[("lakelog_topic_table_lag_seconds", "orders")] == 0
        app.log.append("orders", [Record(b"2")])
        first = scrape(app)[("lakelog_topic_table_lag_seconds", "orders")]
        app.log.append("orders", [Record(b"3")])
        second = scrape(app)[("lakelog_topic_table_lag_seconds", "orders")]
        assert 0 < first < second
        app.log.flush()
        assert scrape(app)[("lakelog_topic_table_lag_seconds", "orders")] == 0
        assert scrape(app)[("lakelog_topic_untabled_bytes", "orders")] == 0

    def test_what_retention_should_have_removed_is_seen_until_it_does(self, http_place: Place):
        with HttpApp(http_place.open()) as app:
            app.log.create_topic("orders", config={"retention.ms": 60_000, "segment.ms": 1000})
            app.log.append("orders", [Record(b"1", timestamp=NOW)])
            app.log.flush()
            assert scrape(app)[("lakelog_topic_retention_overdue_bytes", "orders")] == 0
            http_place.clock.turn(65_000)
            found = scrape(app)
            assert found[("lakelog_topic_retention_overdue_bytes", "orders")] > 0
            assert found[("lakelog_topic_retention_overdue_seconds", "orders")] == pytest.approx(5.0)
            app.log.run_retention("orders")
            found = scrape(app)
            assert found[("lakelog_topic_retention_overdue_bytes", "orders")] == 0
            assert found[("lakelog_topic_retention_overdue_seconds", "orders")] == 0
            assert found[("lakelog_job_runs_total", "retention", "succeeded")] == 1
            last = found[("lakelog_job_last_run_timestamp_seconds", "retention", "succeeded")]
            assert last == (NOW + 65_000) / 1000

    def test_producers_writes_and_commits_are_counted(self, app: HttpApp):
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"1")], producer=ProducerStamp("p", 0, 0))
        app.log.append("orders", [Record(b"2")], producer=ProducerStamp("q", 0, 0))
        app.log.flush()
        found = scrape(app)
        assert found[("lakelog_producers",)] == 2
        assert found[("lakelog_journal_sync_seconds_count",)] == 2
        assert found[("lakelog_journal_group_requests_sum",)] == 2
        assert found[("lakelog_table_commit_seconds_count",)] >= 2
        assert found[("lakelog_epoch",)] == app.log.epoch
        assert found[("lakelog_queue_requests",)] == 0


class TestDamage:
    def test_a_scrape_of_200_topics_works_with_the_table_of_one_damaged(self, local_app: tuple[Place, HttpApp]):
        place, app = local_app
        for number in range(200):
            app.log.create_topic(f"topic-{number}")
            app.log.append(f"topic-{number}", [Record(b"1")])
        app.log.flush()
        damage_next_commit(place, app.log, "topic-7")
        app.log.append("topic-7", [Record(b"2")])
        eventually(lambda: app.log._running.catalog.live("topic-7").closed, "the end of the damaged topic")
        found = scrape(app)
        assert found[("lakelog_topics",)] == 200
        assert len([key for key in found if key[0] == "lakelog_topic_live_files"]) == 200
        assert [key[1] for key in found if key[0] == "lakelog_topic_closed"] == ["topic-7"]
        assert found[("lakelog_table_commit_failures_total",)] == 1
        assert found[("lakelog_topic_untabled_bytes", "topic-7")] > 0
        assert app.get("/readyz").status_code == 200

    def test_a_pass_of_the_upkeep_that_could_not_care_for_a_table_has_failed(self, local_app: tuple[Place, HttpApp]):
        place, app = local_app
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"1")])
        app.log.flush()
        app.log.run_upkeep()
        damage_next_commit(place, app.log, "orders")
        app.log._running.catalog.live("orders").last_follow = float("-inf")
        app.log.run_upkeep()
        found = scrape(app)
        assert found[("lakelog_job_runs_total", "upkeep", "succeeded")] == 1
        assert found[("lakelog_job_runs_total", "upkeep", "failed")] == 1
        assert found[("lakelog_job_runs_total", "cleanup", "succeeded")] == 1

    def test_a_topic_that_cannot_be_opened_is_named_and_no_longer_once_it_can(self, local_app: tuple[Place, HttpApp]):
        place, app = local_app
        app.log.create_topic("orders")
        app.log.close()
        entry = tmp_entry(place, "orders")
        whole = entry.read_bytes()
        entry.write_bytes(gzip.compress(whole))
        with HttpApp(place.open()) as again:
            assert again.get("/topics/orders").status_code == 503
            assert scrape(again)[("lakelog_topic_closed", "orders")] == 1
            entry.write_bytes(whole)
            assert again.get("/topics/orders").status_code == 200
            assert ("lakelog_topic_closed", "orders") not in scrape(again)

    def test_a_scrape_asks_the_store_for_nothing(self, local_app: tuple[Place, HttpApp]):
        _, app = local_app
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"1")])
        app.log.flush()
        calls = app.log._running.root.store.calls
        before = len(calls)
        assert before
        scrape(app)
        assert calls[before:] == []


def tmp_entry(place: Place, topic: str) -> Path:
    assert place.path is not None
    return next((place.path / "topics" / topic / "_delta_log").glob("*0.json"))
