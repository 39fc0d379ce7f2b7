"""Every benchmark runs, says what its rows mean, and tells its numbers in lines that a program can read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.catalogue import BENCHMARKS
from benchmarks.http_bodies import make_orders, make_requests
from benchmarks.http_cases import Case, check_stored
from benchmarks.http_load import HttpLoad
from benchmarks.rows import Row, Target, beside, judge, over_turns, percentile, render
from delta_log.model.types import Record
from ingest_api.formats.decode import decode_arrow, decode_envelope, decode_lines, decode_octets

ROOT = Path(__file__).parents[2]
#: For what hangs: they take a second of a processor or two, and one of them a minute where others take the processors.
PATIENCE_S = 250
KEYS = {"name", "params", "value", "unit", "p50", "p99", "baseline", "ratio", "target", "met"}


def run_benchmarks(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    environment = os.environ if path is None else os.environ | {"PATH": path}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if not benchmark.spark])
def test_a_benchmark_runs_and_leaves_only_its_rows_behind(tmp_path: Path, name: str):
    results, place = tmp_path / "results.json", tmp_path / "place"
    ended = run_benchmarks("--only", name, "--size", "smoke", "--dir", str(place), "--json", str(results))
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    machine, *rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert machine["name"] == "machine"
    assert rows
    assert all(row.keys() >= KEYS and row["value"] >= 0 for row in rows)
    assert list(place.iterdir()) == []


def test_the_list_says_what_the_rows_mean():
    listed = run_benchmarks("--list").stdout
    assert [name for name in BENCHMARKS if f"{name}: {BENCHMARKS[name].summary}\n    " not in listed] == []


def test_without_wrk_one_line_says_so_and_the_generator_in_python_still_runs(tmp_path: Path):
    results = tmp_path / "results.json"
    arguments = (
        "--only",
        "http-baselines",
        "--size",
        "smoke",
        "--dir",
        str(tmp_path / "place"),
        "--json",
        str(results),
    )
    ended = run_benchmarks(*arguments, path=str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    machine, *rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert machine["params"]["wrk"] == "absent"
    assert [row["value"] for row in rows if row["params"].get("by") == "wrk"] == [0]
    assert [line for line in ended.stdout.splitlines() if "wrk is not installed" in line] != []
    assert all(row["value"] > 0 for row in rows if row["params"].get("by") == "python")


def test_an_unknown_benchmark_is_refused():
    assert run_benchmarks("--only", "nonsense").returncode == 2


def test_a_percentile_is_a_value_that_was_measured():
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert percentile([7.0], 0.99) == 7


def test_a_ratio_is_the_median_of_those_of_each_turn():
    row = beside(over_turns([10, 20, 90], "records/s", name="x"), "y", [10, 20, 90], [10, 40, 30])
    assert (row.value, row.low, row.high, row.baseline_value, row.ratio) == (20, 10, 90, 30, 1)


@pytest.mark.parametrize(("bound", "met"), [(1.5, True), (1.0, True), (0.9, False)])
def test_a_row_is_judged_by_its_target(bound: float, met: bool):
    row = judge(Row(name="x", value=3, unit="ms", ratio=1.0), Target("ratio", "<=", bound))
    assert row.met is met
    assert ("met" if met else "MISSED") in render(row)


def test_a_row_is_judged_by_all_its_targets():
    targets = (Target("p50", "<=", 3.0), Target("p99", "<=", 20.0))
    assert judge(Row(name="x", value=2, unit="ms", p50=2, p99=20), *targets).met
    assert not judge(Row(name="x", value=2, unit="ms", p50=2, p99=21), *targets).met
    assert judge(Row(name="x", value=2, unit="ms", p50=2), *targets).met is False


def test_what_was_seen_beside_a_value_stands_in_its_line():
    line = render(Row(name="x", value=3, unit="ms", also={"MB/s": 180.0}, note="a reason"))
    assert line.endswith("180 MB/s  a reason")


@pytest.mark.parametrize("value_bytes", [100, 1000])
def test_every_order_is_json_of_exactly_so_many_bytes(value_bytes: int):
    orders = make_orders(200, value_bytes, keyed=True)
    assert {len(order.value or b"") for order in orders} == {value_bytes}
    assert [json.loads(order.value or b"")["customer"].encode() for order in orders] == [order.key for order in orders]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("form", ["binary", "ndjson", "arrow", "octets"])
def test_every_format_carries_the_same_records(form: str, keyed: bool):
    per_request = 1 if form == "octets" else 50
    requests = make_requests(form, per_request, 100, keyed=keyed, most=per_request)
    (body,) = requests.bodies
    assert [(record.key, record.value) for record in decode(form, body, keyed, requests.headers)] == [
        (order.key, order.value) for order in make_orders(per_request, 100, keyed=keyed)
    ]
    assert requests.payload == per_request * (116 if keyed else 100)


def decode(form: str, body: bytes, keyed: bool, headers: dict[str, str]) -> list[Record]:
    """As the server does."""
    match form:
        case "binary":
            return decode_envelope(body, embedded="binary", partition=None, most_records=1000)
        case "ndjson":
            pointer = "/customer" if keyed else None
            return decode_lines(body, key_pointer=pointer, envelope=False, most_records=1000)
        case "octets":
            return [decode_octets(body, [(name.lower().encode(), value.encode()) for name, value in headers.items()])]
        case _:
            rows = decode_arrow(body, most_records=1000, most_bytes=1_000_000).to_pylist()
            return [Record(row["value"], row.get("key")) for row in rows]


@pytest.mark.parametrize(
    ("stored", "under_way", "right"),
    [(100, 0, True), (90, 0, False), (95, 1, False), (110, 0, False), (110, 1, True), (120, 1, False), (105, 1, False)],
)
def test_what_is_stored_must_be_what_was_acknowledged(stored: int, under_way: int, right: bool):
    load = HttpLoad(answered=10, refused=0, broken=0, seconds=1, p50=1, p99=1, p999=1)
    case = Case("binary", 10, 1)
    if right:
        check_stored(case, load, stored, under_way)
    else:
        with pytest.raises(RuntimeError, match="are stored"):
            check_stored(case, load, stored, under_way)
