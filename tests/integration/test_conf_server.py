"""The container image and the systemd unit of the server: what they name is there, and what they start works.

No engine builds the image here, and no systemd starts the unit: their instructions are read, and their commands run.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ingest_api.config.settings import ServerSettings
from ingest_api.server.server import _OTHER_FILES
from lakelog.cli.serve import CALLED_WRONGLY
from tests.architecture.project_files import ROOT
from tests.support.serving import Server, environment, serving

CONTAINER = ROOT / "conf" / "container"
UNIT = ROOT / "conf" / "systemd" / "lakelog.service"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DEFAULTS = ServerSettings()
INSTRUCTIONS = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"),
    "CMD",
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of the file, with those that it goes on in."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


def read_stages() -> list[list[Instruction]]:
    """Each stage begins with its FROM."""
    text = (CONTAINER / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    stages: list[list[Instruction]] = []
    for line in filter(None, lines):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append(Instruction(name, rest.strip()))
    return stages


BUILD, IMAGE = read_stages()


def pins_of(lock: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and hashes of each package."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^ *#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE))
    found = (re.match(r"([\w.-]+)==(\S+)", line) for line in text.splitlines())
    return {pin[1]: (pin[2], frozenset(re.findall(r"--hash=(\S+)", pin.string))) for pin in found if pin}


def only(name: str, stage: list[Instruction] = IMAGE) -> Instruction:
    (found,) = (each for each in stage if each.name == name)
    return found


def variables() -> dict[str, str]:
    return dict(word.split("=", 1) for word in only("ENV").words)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("conf") / "root") as running:
        yield running


def run(command: list[str], **given: str) -> subprocess.CompletedProcess[str]:
    """As the image or the unit would, but for where programs are."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        command, capture_output=True, text=True, timeout=50, check=False, env=environment() | {"PATH": path} | given
    )


class TestImage:
    def test_every_instruction_is_one(self):
        assert {each.name for stage in (BUILD, IMAGE) for each in stage} == INSTRUCTIONS

    def test_what_is_copied_is_there_and_sent_to_the_build(self):
        ignored = (CONTAINER / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        assert ignored[1] == "*"
        sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
        copied = {source for each in BUILD if each.name == "COPY" for source in each.words[:-1]}
        assert copied == sent
        assert [source for source in copied if not (ROOT / source).exists()] == []

    def test_what_the_wheel_is_built_of_is_copied(self):
        copied = {each.words[0] for each in BUILD if each.name == "COPY"}
        assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= copied
        everything = {source for each in BUILD if each.name == "COPY" for source in each.words[:-1]}
        assert {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "pyproject.toml"} <= everything

    @pytest.mark.parametrize("name", ["server", "build"])
    def test_its_packages_and_their_hashes_are_those_of_the_lock(self, name: str):
        whole, part = pins_of(ROOT / "requirements.lock"), pins_of(CONTAINER / f"{name}.lock")
        assert part.items() <= whole.items()
        assert all(hashes for _, hashes in part.values())
        wanted = {
            "server": [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["server"]],
            "build": PROJECT["build-system"]["requires"],
        }
        assert {Requirement(each).name for each in wanted[name]} <= part.keys()

    def test_nothing_is_installed_but_by_its_hash_or_from_what_is_there(self):
        installs = re.findall(r"\S*pip install [^&]*", only("RUN", BUILD).text)
        assert len(installs) == 3
        for command in installs:
            assert "--require-hashes --requirement " in command or "--no-index --no-deps /wheels/" in command

    def test_both_stages_have_one_base_that_is_named_by_its_digest(self):
        digest = re.fullmatch(r"python:[\w.-]+@sha256:[0-9a-f]{64}", only("FROM").text)
        assert digest
        assert only("FROM", BUILD).text == f"{digest[0]} AS build"

    def test_the_second_stage_takes_the_environment_alone_and_has_it_in_its_path(self):
        assert only("FROM").text == only("FROM", BUILD).text.removesuffix(" AS build"), "one Python for both"
        copied = only("COPY").words
        assert copied == ["--from=build", "/opt/lakelog", "/opt/lakelog"]
        assert variables()["PATH"].startswith(f"{copied[-1]}/bin:")

    def test_it_runs_as_nobody_in_particular_who_owns_the_data(self):
        names = [each.name for each in IMAGE]
        assert names.index("USER") > max(at for at, name in enumerate(names) if name in {"RUN", "COPY"})
        user, _, group = only("USER").text.partition(":")
        assert int(user) == int(group) > 0
        assert f"--owner={user} --group={group} --mode=0750 {only('VOLUME').text}" in only("RUN").text
        assert variables()["LAKELOG_DATA"] == only("VOLUME").text

    def test_it_starts_a_server_that_can_be_reached_from_outside(self):
        command = only("ENTRYPOINT").words + only("CMD").words
        given = {name: value for name, value in variables().items() if name.startswith("LAKELOG_")}
        shown = run([*command, "--check-config"], **given)
        assert shown.returncode == 0, shown.stderr
        assert re.search(r"^data\s+=\s+\S*/data\W", shown.stdout, re.MULTILINE), shown.stdout
        assert re.search(r"^host\s+=\s+\W*0\.0\.0\.0\W", shown.stdout, re.MULTILINE), shown.stdout
        assert int(only("EXPOSE").text) == DEFAULTS.port
        assert only("STOPSIGNAL").text == "SIGTERM"

    def test_it_is_healthy_while_the_server_lives_and_no_longer(self, server: Server):
        _, _, command = only("HEALTHCHECK").text.partition("CMD ")
        here = [word.replace(f"127.0.0.1:{DEFAULTS.port}", "{}") for word in json.loads(command)]
        assert sum("{}" in word for word in here) == 1
        assert run([word.replace("{}", f"127.0.0.1:{server.port}") for word in here]).returncode == 0
        assert run([word.replace("{}", "127.0.0.1:1") for word in here]).returncode != 0


def read_unit() -> dict[str, list[tuple[str, str]]]:
    """Keys of a unit may be given many times; these are not."""
    found = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    found.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    found.read_string(UNIT.read_text(encoding="utf-8"))
    return {section: list(found[section].items()) for section in found.sections()}


SERVICE = dict(read_unit()["Service"])


class TestUnit:
    def test_its_command_is_a_server_over_the_folder_that_it_may_write(self):
        variable, _, place = SERVICE["Environment"].partition("=")
        assert (variable, SERVICE["ReadWritePaths"], SERVICE["ProtectSystem"]) == ("LAKELOG_DATA", place, "strict")
        program, *words = shlex.split(SERVICE["ExecStart"])
        shown = run([Path(program).name, *words, "--check-config"], LAKELOG_DATA=place)
        assert shown.returncode == 0, shown.stderr
        assert place in shown.stdout

    def test_it_is_nobody_with_rights(self):
        assert SERVICE["User"] == SERVICE["Group"] == "lakelog"
        assert SERVICE["CapabilityBoundingSet"] == ""
        assert SERVICE["NoNewPrivileges"] == "true"

    def test_it_has_started_once_it_takes_requests(self, server: Server):
        program, *words = shlex.split(SERVICE["ExecStartPost"])
        assert words[-1] == f"http://127.0.0.1:{DEFAULTS.port}/readyz"
        asked = run([Path(program).name, *words[:-1], f"{server.url}/readyz"])
        assert (asked.returncode, asked.stdout) == (0, ""), asked.stderr
        tries = int(words[words.index("--retry") + 1])
        assert 0 < tries < minutes(SERVICE["TimeoutStartSec"]) * 60
        few = [*words[:-1], "http://127.0.0.1:1/readyz"]
        few[few.index("--retry") + 1] = "1"
        assert run([Path(program).name, *few]).returncode != 0

    def test_a_stop_has_longer_than_the_server_takes_and_wrong_settings_are_not_tried_again(self):
        assert float(SERVICE["TimeoutStopSec"].removesuffix("s")) * 1000 > 2 * DEFAULTS.drain_timeout_ms
        assert SERVICE["Restart"] == "on-failure"
        assert int(SERVICE["RestartPreventExitStatus"]) == CALLED_WRONGLY
        assert "KillSignal" not in SERVICE, "it is SIGTERM"

    def test_it_may_open_as_many_files_as_it_may_have_connections_and_more(self):
        assert int(SERVICE["LimitNOFILE"]) >= DEFAULTS.max_connections + _OTHER_FILES

    def test_the_jobs_beside_it_have_its_user_and_its_data(self):
        jobs = (UNIT.parent / "lakelog-jobs.service").read_text(encoding="utf-8").splitlines()
        for key in ("User", "Environment", "ReadWritePaths"):
            assert f"{key}={SERVICE[key]}" in jobs


def minutes(text: str) -> int:
    return int(text.removesuffix("min"))
