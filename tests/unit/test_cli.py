"""The program finds the command, runs it, and says in one sentence what went wrong."""

import json
import sys
from argparse import ArgumentParser, Namespace
from types import ModuleType

import pytest

from delta_log.model.errors import StorageRefused
from lakelog import __version__
from lakelog.cli import main as cli
from lakelog.cli.commands import Command, Group
from lakelog.cli.kit.exit_codes import IN_THE_WAY, Failure, one_sentence
from lakelog.cli.main import main
from lakelog.foundation.errors import UnknownPartition, UnknownTopic

MODULE = "lakelog.cli.probe"
COMMANDS = {
    "probe": Command(MODULE, "look at it", "server"),
    "other": Command("absent_module", "never run", "jobs"),
    "many": Group("look at many", {"probe": Command(MODULE, "look at one", None), "gone": Command("gone", "", None)}),
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


def test_a_command_below_a_name_is_found_wherever_options_stand(probe: ModuleType):
    assert main(["many", "probe", "--deep", "7"], commands=COMMANDS) == 7
    assert main(["--debug", "many", "--debug", "probe", "--deep=7"], commands=COMMANDS) == 7


def test_a_name_alone_shows_what_is_below_it(capsys: pytest.CaptureFixture[str]):
    assert main(["many"], commands=COMMANDS) == 2
    assert "look at one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["prode"], "lakelog: argument COMMAND: there is no 'prode'; the nearest is probe; see lakelog --help"),
        (["many", "prode"], "lakelog many: argument COMMAND: there is no 'prode'; the nearest is probe; see"),
        (["zzz"], "lakelog: argument COMMAND: invalid choice: 'zzz' (choose from 'probe', 'other', 'many')"),
        (
            ["many", "probe", "--dee", "1"],
            "lakelog many probe: unrecognized arguments: --dee 1; the nearest is --deep; see lakelog many probe --help",
        ),
        (["many", "probe", "--zzz"], "lakelog many probe: unrecognized arguments: --zzz; see lakelog many probe"),
        (["--verison"], "lakelog: unrecognized arguments: --verison; the nearest is --version; see lakelog --help"),
        (
            ["--server", "URL", "many", "probe"],
            "lakelog: --server stands before the command, and is no option of it, or lacks its value; see",
        ),
        (
            ["many", "--dee=1", "probe"],
            "lakelog: --dee stands before the command, and is no option of it, or lacks its value; see",
        ),
        (
            ["many", "probe", "--deep", "x"],
            "lakelog many probe: argument --deep: invalid int value: 'x'; see lakelog many",
        ),
    ],
)
def test_what_is_called_wrongly_is_one_sentence(
    probe: ModuleType, capsys: pytest.CaptureFixture[str], words: list[str], says: str
):
    with pytest.raises(SystemExit) as ended:
        main(words, commands=COMMANDS)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(says)
    assert said.count("\n") == 1


def test_an_unknown_command_is_called_wrongly(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["prode"], commands=COMMANDS)
    assert ended.value.code == 2
    assert "prode" in capsys.readouterr().err


def test_a_missing_part_is_one_sentence_with_the_cure(capsys: pytest.CaptureFixture[str]):
    assert main(["other"], commands=COMMANDS) == 2
    assert capsys.readouterr().err == "lakelog other: it needs the jobs parts; pip install 'lakelog[jobs]'\n"


def test_a_part_that_is_missed_while_running_is_said_alike(
    probe: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probe, "run", fail_with(ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow.lib")))
    assert main(["probe"], commands=COMMANDS) == 2
    assert capsys.readouterr().err == "lakelog probe: it needs the server parts; pip install 'lakelog[server]'\n"


def test_an_absent_module_of_ours_is_not_taken_for_a_missing_part(capsys: pytest.CaptureFixture[str]):
    commands = {"gone": Command("lakelog.cli.gone", "", "server")}
    assert main(["gone"], commands=commands) == 1
    assert "lakelog.cli.gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError("disk\n  full"), "lakelog probe: disk full; --debug shows where\n"),
        (ValueError(), "lakelog probe: ValueError; --debug shows where\n"),
    ],
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


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (
            UnknownTopic("there is no topic x."),
            5,
            "there is no topic x; `lakelog topics list` names the topics there are",
        ),
        (Failure("it is there", "take it away", exit_code=IN_THE_WAY), 6, "it is there; take it away"),
    ],
)
def test_a_known_error_has_a_code_and_says_what_to_do_next(
    probe: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
    sentence: str,
):
    monkeypatch.setattr(probe, "run", fail_with(error))
    assert main(["many", "probe"], commands=COMMANDS) == code
    assert capsys.readouterr().err == f"lakelog many probe: {sentence}\n"


@pytest.mark.parametrize(
    ("words", "error", "told"),
    [
        (
            ["many", "probe", "--output", "json"],
            UnknownTopic("there is no topic x."),
            {
                "command": "lakelog many probe",
                "code": "UNKNOWN_TOPIC_OR_PARTITION",
                "message": "there is no topic x.",
                "hint": "`lakelog topics list` names the topics there are",
                "exit_code": 5,
            },
        ),
        (
            ["probe", "--output=json"],
            Failure("it is\nthere", exit_code=IN_THE_WAY),
            {
                "command": "lakelog probe",
                "code": "IN_THE_WAY",
                "message": "it is there",
                "hint": None,
                "exit_code": IN_THE_WAY,
            },
        ),
    ],
)
def test_where_the_output_is_json_a_failure_is_an_object(
    probe: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    error: Exception,
    told: dict[str, object],
):
    def configure(parser: ArgumentParser) -> None:
        parser.add_argument("--output")

    probe.__dict__.update(configure=configure, run=fail_with(error))
    assert main(words, commands=COMMANDS) == told["exit_code"]
    said = capsys.readouterr()
    assert (said.out, json.loads(said.err)) == ("", {"error": told})


def test_what_is_called_wrongly_is_an_object_as_well(probe: ModuleType, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["many", "probe", "--output", "json"], commands=COMMANDS)
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().err)["error"] == {
        "command": "lakelog many probe",
        "code": "CALLED_WRONGLY",
        "message": "unrecognized arguments: --output json",
        "hint": "see lakelog many probe --help",
        "exit_code": 2,
    }


@pytest.mark.parametrize("words", [["--debug", "probe"], ["probe", "--debug"]], ids=["before", "after"])
def test_debug_shows_the_stack_trace_and_changes_nothing_else(
    probe: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
):
    def configure(parser: ArgumentParser) -> None:
        parser.add_argument("--output")

    probe.__dict__.update(configure=configure, run=fail_with(UnknownTopic("there is no topic x.")))
    assert main(words, commands=COMMANDS) == 5
    first, *_, last = capsys.readouterr().err.splitlines()
    assert (first, last) == (
        "Traceback (most recent call last):",
        "lakelog probe: there is no topic x; `lakelog topics list` names the topics there are",
    )
    assert main([*words, "--output=json"], commands=COMMANDS) == 5
    *_, last = capsys.readouterr().err.splitlines()
    assert json.loads(last)["error"]["code"] == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (UnknownPartition("orders has no partition 9: it has 0 to 3"), "choose one that there is"),
        (StorageRefused("backup.json", "permission denied"), "`lakelog doctor --data PLACE` tries that place"),
    ],
)
def test_what_to_do_next_may_be_of_one_kind_of_error(error: Exception, cure: str):
    assert one_sentence(error).endswith(f"; {cure}")


def test_an_interrupt_ends_quietly(
    probe: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probe, "run", fail_with(KeyboardInterrupt()))
    assert main(["probe"], commands=COMMANDS) == 130
    assert capsys.readouterr().err == ""


def test_a_task_raises_where_the_program_would_end_with_a_code(
    probe: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(cli.COMMANDS, "probe", COMMANDS["probe"])
    monkeypatch.setattr(sys, "argv", ["wheel", "probe", "--deep", "0"])
    assert cli.run_task() is None
    monkeypatch.setattr(sys, "argv", ["wheel", "probe", "--deep", "3"])
    with pytest.raises(RuntimeError, match="lakelog probe --deep ended with exit code 3"):
        cli.run_task()
