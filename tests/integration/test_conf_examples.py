"""The examples in conf/ for schedulers: they are what those schedulers read, and every command in them works."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml

from delta_log import Log, Record, Settings
from jobs.foundation.registry import JOBS
from tests.architecture.project_files import ROOT
from tests.architecture.test_installs import EXTRAS
from tests.support.serving import environment, serving

CONF = ROOT / "conf"
BUNDLE = CONF / "databricks"
RESOURCES = BUNDLE / "resources" / "jobs.yml"
CRON = (CONF / "cron" / "lakelog").read_text(encoding="utf-8")
UNITS = CONF / "systemd"
LEVELS = {"CAN_VIEW", "CAN_RUN", "CAN_MANAGE"}
#: What stands in a bundle for something of its own.
REFERENCE = re.compile(r"\$\{([a-z_.]+)\}")


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


MAIN = load(BUNDLE / "databricks.yml")
JOBS_OF_BUNDLE: dict[str, dict[str, Any]] = load(RESOURCES)["resources"]["jobs"]
TASKS = {each["task_key"]: each for job in JOBS_OF_BUNDLE.values() for each in job["tasks"]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("conf") / "root"
    with Log.open(made, settings=Settings(upkeep=False)) as log:
        log.create_topic("orders", 2)
        log.append("orders", [Record(b'{"id": 1, "item": "tea"}')])
    return made


@pytest.fixture(scope="module")
def server(root: Path) -> Generator[str]:
    with serving(root) as running:
        yield running.url


def run(command: list[str], **variables: str) -> dict[str, Any]:
    """The summary of a program that ends well."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=ROOT,
        env=environment() | {"PATH": path} | variables,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def filled_in(text: str, values: dict[str, str]) -> str:
    return REFERENCE.sub(lambda found: values[found[1].removeprefix("var.")], text)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {name for each in value.values() for name in references(each)}
    if isinstance(value, list):
        return {name for each in value for name in references(each)}
    return set(REFERENCE.findall(value)) if isinstance(value, str) else set()


def test_the_bundle_has_a_default_target_for_trials_and_one_for_production():
    targets = MAIN["targets"]
    assert [name for name, target in targets.items() if target.get("default")] == ["dev"]
    assert {name: target["mode"] for name, target in targets.items()} == {"dev": "development", "prod": "production"}
    assert targets["prod"]["run_as"] == {"service_principal_name": "${var.service_principal}"}
    assert targets["prod"]["permissions"]
    for permission in targets["prod"]["permissions"]:
        assert set(permission) == {"group_name", "level"}
        assert permission["level"] in LEVELS


def test_everything_that_the_bundle_refers_to_is_there():
    variables = {f"var.{name}": variable for name, variable in MAIN["variables"].items()}
    named = references(MAIN) | references(JOBS_OF_BUNDLE)
    assert {name for name in named if name.startswith("var.")} == set(variables)
    assert named - set(variables) == {"bundle.name", "bundle.target"}
    for name, variable in variables.items():
        assert variable["description"]
        for target in MAIN["targets"].values():
            assert "default" in variable or name.removeprefix("var.") in target["variables"], name
    assert [path for glob in MAIN["include"] for path in BUNDLE.glob(glob)] == [RESOURCES]


def test_the_wheel_is_built_of_this_project_and_found_where_it_is_built():
    artifact = MAIN["artifacts"]["lakelog"]
    project = (BUNDLE / artifact["path"]).resolve()
    assert (artifact["type"], project) == ("whl", ROOT)
    assert shlex.split(artifact["build"]) == ["python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", "."]
    for task in TASKS.values():
        wheel, added = task["libraries"]
        assert (RESOURCES.parent / wheel["whl"]).resolve() == ROOT / "dist" / "*.whl"
        assert (RESOURCES.parent / added["requirements"]).resolve() == BUNDLE / "requirements.txt"


def test_the_libraries_are_those_of_the_extra_for_jobs():
    lines = (BUNDLE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(line for line in lines if not line.startswith("#")) == sorted(EXTRAS["jobs"])


def test_every_job_is_in_the_bundle():
    assert sorted(TASKS) == sorted(JOBS)


@pytest.mark.parametrize("name", JOBS_OF_BUNDLE)
def test_a_job_of_the_bundle_has_a_trigger_and_a_cluster_for_each_task(name: str):
    job = JOBS_OF_BUNDLE[name]
    if "schedule" in job:
        check_quartz(job["schedule"]["quartz_cron_expression"])
        assert job["schedule"]["timezone_id"] == "UTC"
        assert job["max_concurrent_runs"] == 1
    else:
        assert set(job["continuous"]) == {"pause_status"}
    clusters = {each["job_cluster_key"]: each["new_cluster"] for each in job["job_clusters"]}
    assert {task["job_cluster_key"] for task in job["tasks"]} == set(clusters)
    for cluster in clusters.values():
        assert cluster["data_security_mode"] == "SINGLE_USER"
        secrets = [value for value in cluster["spark_env_vars"].values() if "{{" in value]
        assert len(secrets) == 2
        for value in secrets:
            assert re.fullmatch(r"\{\{secrets/\$\{var\.secrets\}/[a-z-]+\}\}", value)


def test_what_a_server_does_by_itself_and_the_examples_of_streams_are_paused():
    paused = {
        name
        for name, job in JOBS_OF_BUNDLE.items()
        if (job.get("schedule") or job["continuous"]).get("pause_status") == "PAUSED"
    }
    streams = {"lakelog_consume_orders", "lakelog_materialize_orders"}
    assert paused == streams | {"lakelog_checkpoint", "lakelog_vacuum"}


@pytest.mark.parametrize("name", TASKS)
def test_the_entry_point_of_a_task_is_there_and_its_parameters_run(name: str, root: Path, server: str, tmp_path: Path):
    wheel = TASKS[name]["python_wheel_task"]
    (entry,) = (each for each in distribution(wheel["package_name"]).entry_points if each.name == wheel["entry_point"])
    assert isinstance(entry.load(), Callable)
    values = {"root": str(root), "server": server, "tables": str(tmp_path)}
    words = [filled_in(word, values) for word in wheel["parameters"]]
    assert words[:3] == ["jobs", "run", name]
    summary = run([wheel["entry_point"], *words, "--dry-run"])
    assert (summary["job"], summary["dry_run"], summary["outcome"]) == (name, True, "done")
    assert list(tmp_path.iterdir()) == []


def check_quartz(expression: str) -> None:
    """Seconds to weekday: exactly one of the two kinds of day says `?`."""
    second, minute, hour, day, month, weekday = expression.split()
    for field, least, most in ((second, 0, 59), (minute, 0, 59), (hour, 0, 23), (month, 1, 12)):
        check_field(field, least, most)
    assert [day, weekday].count("?") == 1
    assert day == "?" or check_field(day, 1, 31)
    assert weekday == "?" or weekday in {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}


def check_field(field: str, least: int, most: int) -> bool:
    """`*`, `*/n` or a number."""
    found = re.fullmatch(r"\*(?:/([1-9]\d*))?|(\d+)", field)
    assert found is not None, field
    assert found[2] is None or least <= int(found[2]) <= most, field
    return True


def cron_lines() -> list[list[str]]:
    """Minute, hour, day, month, weekday, user and command of each line."""
    lines = [line for line in CRON.splitlines() if line and not line.startswith("#")]
    return [line.split(maxsplit=6) for line in lines if not re.match(r"\w+=", line)]


def test_the_lines_of_the_crontab_are_well_formed():
    assert CRON.endswith("\n")
    assert len(cron_lines()) == 4
    for minute, hour, day, month, weekday, user, command in cron_lines():
        bounds = ((minute, 0, 59), (hour, 0, 23), (day, 1, 31), (month, 1, 12), (weekday, 0, 7))
        assert all(check_field(*each) for each in bounds)
        assert user == "lakelog"
        assert "%" not in command


@pytest.mark.parametrize("line", cron_lines(), ids=lambda line: line[-1].split()[3])
def test_the_commands_of_the_crontab_run(line: list[str], root: Path):
    command, dropped, _ = line[-1].partition(" >/dev/null")
    assert dropped
    summary = run(["/bin/sh", "-c", f"{command} --dry-run"], LAKELOG_DATA=str(root))
    assert (summary["root"], summary["outcome"]) == (str(root), "done")


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    found.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    found.read_string((UNITS / name).read_text(encoding="utf-8"))
    return found


def test_the_timer_starts_the_service_and_what_it_missed_is_made_up_for():
    timer = unit("lakelog-jobs.timer")
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert (timer["Timer"]["OnCalendar"], timer["Timer"]["Persistent"]) == ("hourly", "true")
    assert "Unit" not in timer["Timer"], "it is that of the same name"
    assert (UNITS / "lakelog-jobs.service").exists()


def test_the_command_of_the_service_runs(root: Path):
    service = unit("lakelog-jobs.service")["Service"]
    assert (service["Type"], service["KillMode"]) == ("oneshot", "mixed")
    variable, _, place = service["Environment"].partition("=")
    assert (variable, service["ReadWritePaths"]) == ("LAKELOG_DATA", place)
    program, *words = shlex.split(service["ExecStart"])
    summary = run([Path(program).name, *words, "--dry-run"], LAKELOG_DATA=str(root))
    assert (summary["job"], summary["outcome"]) == ("compaction", "done")


def test_systemd_itself_where_it_is_installed_finds_nothing_wrong_with_the_units(tmp_path: Path):
    """The tests above do without."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    for path in UNITS.iterdir():
        text = path.read_text(encoding="utf-8").replace("/opt/lakelog/bin/lakelog", sys.executable)
        (tmp_path / path.name).write_text(text)
    checked = subprocess.run(
        [analyze, "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
