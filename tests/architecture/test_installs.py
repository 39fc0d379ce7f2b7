"""The extras of the install agree with each other and with the code."""

import re
import tomllib
from importlib.metadata import version
from itertools import chain

import lakelog
from jobs.spark.session import DELTA_JARS
from lakelog.cli.commands import COMMANDS
from lakelog.cli.kit.parser import commands_of
from tests.architecture.project_files import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


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
