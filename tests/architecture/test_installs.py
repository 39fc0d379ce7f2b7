"""The extras of the install agree with each other and with the code."""

import re
import tarfile
import tomllib
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest

import lakelog
from jobs.spark.session import DELTA_JARS
from lakelog.cli.commands import COMMANDS
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY
from lakelog.cli.kit.parser import commands_of
from lakelog.foundation.extras import ADVICE, OUR_PACKAGES
from tests.architecture.project_files import ROOT
from tests.support.installs import build, install, run_there

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def clients_alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install lakelog` makes."""
    return install(wheel, tmp_path_factory.mktemp("clients"))


def test_a_package_of_two_extras_has_one_bound():
    bounds: dict[str, set[str]] = {}
    for requirement in chain(PROJECT["project"]["dependencies"], *EXTRAS.values()):
        name = re.split(r"[<>=\[]", requirement)[0]
        if name != "lakelog":
            bounds.setdefault(name, set()).add(requirement)
    assert {name: each for name, each in bounds.items() if len(each) > 1} == {}


def test_the_base_install_brings_what_clients_need_and_nothing_else():
    assert [re.split(r"[<>=]", each)[0] for each in PROJECT["project"]["dependencies"]] == ["httpx", "msgspec"]


def test_the_jars_are_those_of_the_pinned_delta():
    (pinned,) = (each.partition("==")[2] for each in EXTRAS["spark"] if each.startswith("delta-spark"))
    assert {jar.rpartition(":")[2] for jar in DELTA_JARS} == {pinned}


def test_the_jars_are_built_for_the_pinned_spark():
    (pinned,) = (each.partition("==")[2] for each in EXTRAS["spark"] if each.startswith("pyspark"))
    major_minor = pinned.rpartition(".")[0]
    assert any(f"delta-spark_{major_minor}_" in jar for jar in DELTA_JARS)


def test_every_command_names_an_extra_that_exists():
    assert {command.extra for _, command in commands_of(COMMANDS)} - {None} <= EXTRAS.keys()


def test_the_version_is_written_once():
    assert version("lakelog") == lakelog.__version__


def test_the_extras_that_a_door_advises_exist():
    assert {name for text in ADVICE.values() for name in re.findall(r"lakelog\[(\w+)\]", text)} <= EXTRAS.keys()


@pytest.mark.parametrize(
    ("statement", "room", "extra"),
    [
        ("from delta_log import Log", "delta_log", "server"),
        ("import delta_log.model.errors", "delta_log", "server"),
        ("import consumer_groups", "consumer_groups", "server"),
        ("from ingest_api.server.app import create_app", "ingest_api", "server"),
        ("import jobs", "jobs", "jobs"),
        ("from pyspark_lakelog import session", "jobs", "jobs"),
    ],
)
def test_an_install_of_the_clients_says_which_extra_a_room_needs(
    clients_alone: Path, statement: str, room: str, extra: str
):
    said = run_there(clients_alone, "-c", statement).stderr.splitlines()
    assert re.fullmatch(rf"ModuleNotFoundError: {room} needs (\w+), which is not installed: (.+)", said[-1])
    assert said[-1].endswith(ADVICE[extra])
    assert any(re.fullmatch(r"ModuleNotFoundError: No module named '\w+'", line) for line in said), "the cause is shown"


def test_a_command_in_an_install_of_the_clients_says_which_extra_it_needs(clients_alone: Path):
    ended = run_there(clients_alone, "lakelog", "serve", "--memory")
    assert ended.returncode == CALLED_WRONGLY
    assert ended.stderr.splitlines() == ["lakelog serve: it needs the server parts; pip install 'lakelog[server]'"]


def test_a_job_that_is_run_in_an_install_of_the_clients_says_which_extra_it_needs(clients_alone: Path):
    ended = run_there(clients_alone, "jobs.retention", "--help")
    assert ended.returncode != 0
    assert ended.stderr.endswith(f"jobs needs pyarrow, which is not installed: {ADVICE['jobs']}\n")


@pytest.mark.parametrize(
    ("left_out", "statement"),
    [
        ("fastapi", "import ingest_api"),
        ("httptools", "import ingest_api"),
        ("prometheus-client", "import ingest_api"),
        ("uvicorn", "import ingest_api"),
        ("mmh3", "from delta_log import Log"),
        ("murmurhash2", "from delta_log import Log"),
        ("numpy", "from delta_log import Log"),
        ("google-crc32c", "from delta_log import Log"),
    ],
)
def test_an_install_that_lost_one_package_of_the_server_says_which(
    wheel: Path, tmp_path: Path, left_out: str, statement: str
):
    there = install(wheel, tmp_path, extras=["server"], without=[left_out])
    said = run_there(there, "-c", statement).stderr.splitlines()[-1]
    room = statement.split()[1]
    missing = left_out.replace("-", "_")
    assert said == f"ModuleNotFoundError: {room} needs {missing}, which is not installed: {ADVICE['server']}"


def test_a_module_of_ours_that_is_missing_is_said_to_be_missing(wheel: Path, tmp_path: Path):
    there = install(wheel, tmp_path, extras=["server"])
    (there / "delta_log" / "keyed.py").unlink()
    said = run_there(there, "-c", "from delta_log import Log").stderr.splitlines()[-1]
    assert said == "ModuleNotFoundError: No module named 'delta_log.keyed'"


def test_an_install_with_the_server_writes_the_file_of_all_settings(wheel: Path, tmp_path: Path):
    there = install(wheel, tmp_path, extras=["server"])
    ended = run_there(there, "lakelog", "serve", "--print-config")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (ROOT / "conf" / "server.toml").read_text(encoding="utf-8")
    (tmp_path / "server.toml").write_text(ended.stdout, encoding="utf-8")
    checked = run_there(there, "lakelog", "serve", "--check-config", "--config", str(tmp_path / "server.toml"))
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_source_distribution_has_the_file_of_all_settings_and_the_examples(tmp_path: Path):
    with tarfile.open(build(tmp_path, "sdist")) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    examples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*.*")}
    assert len(examples) > 1
    assert {"conf/server.toml", "ARCHITECTURE.md", *examples} <= shipped


def test_an_install_with_the_server_has_all_that_the_rooms_without_spark_import(wheel: Path, tmp_path: Path):
    there = install(wheel, tmp_path, extras=["server"])
    statement = (
        "import consumer_groups, ingest_api.server.app, jobs; from delta_log import Log; Log.open('memory://').close()"
    )
    ended = run_there(there, "-c", statement)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_spark_finds_no_source_in_an_install_of_the_clients_and_is_not_disturbed(clients_alone: Path):
    ended = run_there(
        clients_alone,
        "-c",
        "import pyspark_lakelog; print(hasattr(pyspark_lakelog, 'DefaultSource'), dir(pyspark_lakelog))",
    )
    assert (ended.returncode, ended.stderr, ended.stdout.split()[0]) == (0, "", "False")


def test_every_package_in_the_wheel_says_that_it_is_typed(wheel: Path):
    shipped = ZipFile(wheel).namelist()
    assert set(PACKAGES) == {name.partition("/")[0] for name in shipped if name.endswith(".py")} == OUR_PACKAGES
    assert [name for name in PACKAGES if f"{name}/py.typed" not in shipped] == []
