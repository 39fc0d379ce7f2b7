"""The generators of the benchmarks count what servers really answered."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.http_bodies import MEDIA, make_requests
from benchmarks.http_cases import GENERATORS, can_drive, tell_absent
from benchmarks.http_generator import drive_python
from benchmarks.http_reader import Reader
from benchmarks.http_servers import ECHO, Asker, ServerProcess, lakelog_command
from benchmarks.http_turns import refuse_refusals, row_of_loads

ONE = make_requests("binary", 1, 100, keyed=False, most=10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("server")
    with ServerProcess(lakelog_command(place / "root", "--memory"), place / "server.log") as running:
        yield running.url


@pytest.mark.parametrize("by", GENERATORS)
def test_a_generator_is_answered_by_a_bare_echo_over_every_connection(tmp_path: Path, by: str):
    if not can_drive(by):
        assert len(tell_absent("x")) == 1
        return
    with ServerProcess(ECHO, tmp_path / "echo.log") as echo:
        load = GENERATORS[by](f"{echo.url}/echo", ONE, connections=4, seconds=0.1)
    assert load.answered >= 4
    assert (load.refused, load.broken) == (0, 0)
    assert 0 < load.p50 <= load.p99 <= load.p999


@pytest.mark.parametrize("by", GENERATORS)
def test_refused_requests_are_no_merit(server: str, by: str):
    if not can_drive(by):
        assert len(tell_absent("x")) == 1
        return
    load = GENERATORS[by](f"{server}/topics/absent", ONE, connections=2, seconds=0.1)
    assert load.refused == load.answered > 0
    row = refuse_refusals(row_of_loads("x", {}, [load], 1, "records/s"), [load])
    assert (row.value, row.met) == (0, False)


def test_the_generator_in_python_has_the_answer_to_all_that_it_sent(server: str):
    with Asker(server) as asker:
        asker.create_topic("sent")
        load = drive_python(f"{server}/topics/sent", ONE, connections=3, seconds=0.1)
        assert asker.settled_count("sent") == load.acknowledged == load.answered


@pytest.mark.parametrize("form", ["ndjson", "binary", "arrow"])
def test_a_reader_counts_bytes_and_lines_of_large_and_of_small_answers(server: str, form: str):
    topic = f"read-{form}"
    requests = make_requests("ndjson", 5_000, 100, keyed=False, most=5_000)
    with Asker(server) as asker, Reader(server) as reader:
        asker.create_topic(topic, 1)
        asker.ask("POST", f"/topics/{topic}", requests.bodies[0], requests.headers)
        for offset, most in ((0, 1), (0, 5_000), (4_999, 5_000)):
            path = f"/topics/{topic}/partitions/0/records?offset={offset}&max_records={most}&max_bytes=16000000"
            answer = reader.get(path, MEDIA[form])
            _, whole = asker.ask("GET", path, headers={"Accept": MEDIA[form]})
            assert (answer.size, answer.lines) == (len(whole), whole.count(b"\n"))
            assert int(answer.field("lakelog-next-offset")) == min(5_000, offset + most)
