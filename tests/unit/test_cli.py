"""The program finds the command, runs it, and says in one sentence what went wrong."""

import sys
from argparse import ArgumentParser, Namespace
from types import ModuleType

import pytest

from lakelog import __version__
from lakelog.cli import main
from lakelog.commands import Command

MODULE = "lakelog.commands.probe"
COMMANDS = {
    "probe": Command(MODULE, "look at it", "server"),
    "other": Command("absent_module", "never run", "jobs"),
}


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def configure(parser: ArgumentParser) -> None:
        parser.add_argument("--deep", type=int, default=0)

    def run(args: Namespace) -> int:
        return args.deep

    module = ModuleType(MODULE)
    module.__dict__.update(configure=configure, run=run)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def fail_with(error: BaseException):
    def run(_: Namespace) -> int:
        raise error

    return run


def test_the_exit_code_is_the_commands(probe: ModuleType):
    assert main(["probe", "--deep", "7"], commands=COMMANDS) == 7


def test_version_and_help_end_well(capsys: pytest.CaptureFixture[str]):
    for option in ("--version", "--help"):
        with pytest.raises(SystemExit) as ended:
            main([option], commands=COMMANDS)
        assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"lakelog {__version__}\n")


def test_help_lists_every_command_without_importing_one(capsys: pytest.CaptureFixture[str]):
    assert main([], commands=COMMANDS) == 2
    shown = capsys.readouterr().out
    assert "look at it" in shown
    assert "never run" in shown


def test_an_unknown_command_is_called_wrongly(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["prode"], commands=COMMANDS)
    assert ended.value.code == 2
    assert "prode" in capsys.readouterr().err


def test_a_missing_part_is_one_sentence_with_the_cure(capsys: pytest.CaptureFixture[str]):
    assert main(["other"], commands=COMMANDS) == 2
    assert capsys.readouterr().err == "lakelog other needs the jobs parts: pip install 'lakelog[jobs]'\n"


def test_a_part_that_is_missed_while_running_is_said_alike(
    probe: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probe, "run", fail_with(ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow.lib")))
    assert main(["probe"], commands=COMMANDS) == 2
    assert capsys.readouterr().err == "lakelog probe needs the server parts: pip install 'lakelog[server]'\n"


def test_an_absent_module_of_ours_is_not_taken_for_a_missing_part(capsys: pytest.CaptureFixture[str]):
    commands = {"gone": Command("lakelog.commands.gone", "", "server")}
    assert main(["gone"], commands=commands) == 1
    assert "lakelog.commands.gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(OSError("disk\n  full"), "lakelog probe: disk full\n"), (ValueError(), "lakelog probe: ValueError\n")],
    ids=["with a message", "without one"],
)
def test_an_error_is_one_line(
    probe: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    sentence: str,
):
    monkeypatch.setattr(probe, "run", fail_with(error))
    assert main(["probe"], commands=COMMANDS) == 1
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize("words", [["--debug", "probe"], ["probe", "--debug"]], ids=["before", "after"])
def test_debug_shows_the_stack_trace(probe: ModuleType, monkeypatch: pytest.MonkeyPatch, words: list[str]):
    monkeypatch.setattr(probe, "run", fail_with(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        main(words, commands=COMMANDS)


def test_an_interrupt_ends_quietly(
    probe: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probe, "run", fail_with(KeyboardInterrupt()))
    assert main(["probe"], commands=COMMANDS) == 130
    assert capsys.readouterr().err == ""
