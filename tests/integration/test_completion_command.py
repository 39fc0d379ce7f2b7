"""`lakelog completion`: what it prints has real shells complete our words; bash is everywhere, others may be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from lakelog import Admin, Consumer
from lakelog.cli.commands import COMMANDS
from lakelog.cli.kit.parser import commands_of
from lakelog.cli.main import main
from tests.support.serving import environment, serving, wait_for

#: Where no server is.
NOWHERE = "http://127.0.0.1:1"
ASK = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_lakelog
printf '%s\\n' "${COMPREPLY[@]}"
"""
#: What shows choices to a person is put to print them; all else is zsh's own.
ASK_ZSH = """
compdef() { :; }
_describe() { print -rl -- ${(P)2}; }
compadd() { shift; print -rl -- "$@"; }
_files() { print -r -- A FILE; }
source $1
shift
words=("$@")
CURRENT=$#
_lakelog
"""
ASK_FISH = "source $argv[1]; complete -C $argv[2]"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("completion") / "lakelog.bash"
    with pytest.MonkeyPatch.context() as patch, file.open("w", encoding="utf-8") as out:
        patch.setattr("sys.stdout", out)
        assert main(["completion", "bash"]) == 0
    return file


def offered(script: Path, *words: str, folder: Path | None = None, server: str = NOWHERE) -> set[str]:
    """What bash offers in place of the last word."""
    command = ["bash", "--norc", "-eu", "-c", ASK, "bash", str(script), *words]
    env = environment() | {"LAKELOG_SERVER": server}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)
    assert (ended.returncode, ended.stderr) == (0, "")
    return set(ended.stdout.split("\n")) - {""}


def test_bash_knows_the_function_as_the_one_for_this_program(script: Path):
    command = ["bash", "--norc", "-c", 'source "$1"; complete -p lakelog', "bash", str(script)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "complete -F _lakelog lakelog\n"


def test_the_first_word_is_a_command_or_an_option_of_the_program(script: Path):
    assert set(COMMANDS) | {"--version", "--help", "--debug"} <= offered(script, "lakelog", "")
    assert offered(script, "lakelog", "se") == {"serve", "selftest"}


def test_behind_a_command_stand_its_options_and_words(script: Path):
    assert {"bash", "zsh", "fish", "topics"} <= offered(script, "lakelog", "completion", "")
    assert offered(script, "lakelog", "sql", "SELECT 1", "--o") == {"--output"}
    assert offered(script, "lakelog", "--debug", "serve", "--data", "x", "--mem") == {"--memory"}


def test_words_are_known_with_underscores_and_options_may_stand_between_them(script: Path):
    assert "--partitions" in offered(script, "lakelog", "topics", "--output", "json", "add_partitions", "--")
    assert offered(script, "lakelog", "groups", "reset_offsets", "--dry_") == {"--dry-run"}
    assert offered(script, "lakelog", "--server", "URL", "sql", "--output", "js") == {"json"}


@pytest.mark.parametrize("words", [["--output", "js"], ["--output", "=", "js"]], ids=["apart", "joined"])
def test_behind_an_option_stand_its_values(script: Path, words: list[str]):
    assert offered(script, "lakelog", "sql", *words) == {"json"}


def test_an_option_whose_values_are_anybodys_offers_nothing(script: Path):
    assert offered(script, "lakelog", "serve", "--port", "") == set()
    assert offered(script, "lakelog", "sql", "--output", "=") == {"table", "text", "json", "csv"}


def test_paths_are_offered_with_the_spaces_in_them(script: Path, tmp_path: Path):
    (tmp_path / "a log").mkdir()
    (tmp_path / "a table").mkdir()
    assert offered(script, "lakelog", "sql", "--data", "a", folder=tmp_path) == {"a log", "a table"}


def test_topics_and_groups_are_those_of_the_server_and_without_one_nothing_is_said(script: Path, tmp_path: Path):
    program = tmp_path / "lakelog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lakelog "$@"\n')
    program.chmod(0o755)
    with serving(tmp_path / "root") as server:
        settings = {"bootstrap.servers": server.url}
        with Admin(settings) as admin, Consumer(settings | {"group.id": "billing"}) as consumer:
            for topic in ("orders", "payments"):
                admin.create_topic(topic, partitions=1)
            consumer.assign([("orders", 0)])
            consumer.commit({("orders", 0): 0})
        asking = partial(offered, script, str(program), server=server.url)

        def found(*words: str) -> set[str]:
            """A server has a second to answer: who was offered nothing presses Tab again."""
            return wait_for(lambda: asking(*words), "an answer within a second")

        assert found("consume", "or") == {"orders"}
        assert found("topics", "delete", "orders", "p") == {"payments"}
        assert found("consume", "orders", "--group", "") == {"billing"}
        assert found("groups", "describe", "b") == {"billing"}
        assert asking("topics", "create", "or") == set()
    assert asking("consume", "or") == set()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_have_every_command(shell: str, capsys: pytest.CaptureFixture[str]):
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    for path, _ in commands_of(COMMANDS):
        assert f"' {' '.join(path)}'" in said


def test_the_script_for_zsh_has_a_grammar_that_it_shares_with_bash(capsys: pytest.CaptureFixture[str]):
    main(["completion", "zsh"])
    read = subprocess.run(["bash", "-n"], input=capsys.readouterr().out, capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")


def said_by(shell: str, capsys: pytest.CaptureFixture[str], folder: Path) -> Path:
    assert main(["completion", shell]) == 0
    file = folder / f"lakelog.{shell}"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    return file


def run_shell(folder: Path, *words: object) -> str:
    """With a `lakelog` that knows two topics."""
    program = folder / "lakelog"
    program.write_text('#!/bin/sh\n[ "$1 $2" = "completion topics" ] && printf "orders\\npayments\\n"\n')
    program.chmod(0o755)
    env = environment() | {"HOME": str(folder)}
    env["PATH"] = f"{folder}:{env['PATH']}"
    ended = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=env, cwd=folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_zsh_itself_where_it_is_installed_completes_our_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The tests above do without."""
    zsh, file = shutil.which("zsh"), said_by("zsh", capsys, tmp_path)
    if zsh is None:
        return

    def found(*words: str) -> set[str]:
        said = run_shell(tmp_path, zsh, "-f", "-c", ASK_ZSH, "zsh", file, "lakelog", *words)
        return {line.partition(":")[0] for line in said.splitlines()}

    assert set(COMMANDS) | {"--version", "--help", "--debug"} <= found("")
    assert found("topics", "") >= set(dict(COMMANDS["topics"].commands))
    assert {"bash", "zsh", "fish", "topics"} <= found("completion", "")
    assert found("--debug", "topics", "list", "--output", "") == {"text", "json"}
    assert {"orders", "payments", "--follow"} <= found("consume", "")
    assert "orders" not in found("consume", "--")
    assert found("check", "--data", "") == {"A FILE"}


def test_fish_itself_where_it_is_installed_completes_our_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The tests above do without."""
    fish, file = shutil.which("fish"), said_by("fish", capsys, tmp_path)
    if fish is None:
        return

    def found(line: str) -> set[str]:
        said = run_shell(tmp_path, fish, "--no-config", "-c", ASK_FISH, file, line)
        return {each.partition("\t")[0] for each in said.splitlines()}

    assert found("lakelog ") == set(COMMANDS)
    assert {"--version", "--help", "--debug"} <= found("lakelog --")
    assert found("lakelog se") == {"serve", "selftest"}
    assert found("lakelog topics ") == set(dict(COMMANDS["topics"].commands))
    assert {"bash", "zsh", "fish", "topics"} <= found("lakelog completion ")
    assert found("lakelog --debug topics list --output ") == {"text", "json"}
    assert found("lakelog consume ") == {"orders", "payments"}
    assert found("lakelog check --data l") == {"lakelog", "lakelog.fish"}
