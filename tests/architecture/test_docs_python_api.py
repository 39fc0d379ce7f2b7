"""docs/reference/python-api.md names what the code has: every name, every member, every parameter, and no others."""

import ast
import inspect
import re

import pytest

import delta_log
from delta_log import operations
from delta_log.reader import Reading
from tests.architecture.project_files import ROOT

PAGE = (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")
EXPORTED = [getattr(delta_log, name) for name in delta_log.__all__]
SECTIONS = {part.partition("\n")[0].strip("`# "): part for part in re.split(r"^##? (?=\S)", PAGE, flags=re.MULTILINE)}
ELSEWHERE = ("see [`Limits`](#limits)", "see [`Bounds`](#bounds)")
UNITS = {"": 1, "MiB": 1 << 20, "GiB": 1 << 30, "day": 86_400_000, "days": 86_400_000}
MEMBER = re.compile(r"^(?:### |\| )`([^`]+)`", re.MULTILINE)


def documented(title: str) -> dict[str, str]:
    """Member name and its parameters as the page writes them."""
    return {text.partition("(")[0]: text for text in MEMBER.findall(SECTIONS[title])}


def own(cls: type) -> dict[str, object]:
    """What a class itself has, and what bases give it that no page speaks of."""
    told = {*EXPORTED, Reading} - {cls}
    bases = [base for base in cls.__mro__ if base.__module__.startswith("delta_log.") and base not in told]
    return {name: member for base in reversed(bases) for name, member in vars(base).items()}


def members(cls: type) -> set[str]:
    """What a class itself has, and its fields, but not what it inherits."""
    fields = getattr(cls, "__struct_fields__", ()) or getattr(cls, "__dataclass_fields__", ())
    return {name for name in [*own(cls), *fields] if not name.startswith("_")}


def parameters(member: object) -> list[tuple[str, bool, bool]]:
    """Name, whether it must be named, whether it may be left out."""
    function = member.__func__ if isinstance(member, classmethod) else member
    return [
        (each.name, each.kind is each.KEYWORD_ONLY, each.default is not each.empty)
        for each in list(inspect.signature(function).parameters.values())[1:]
    ]


def written_parameters(text: str) -> list[tuple[str, bool, bool]]:
    (function,) = ast.parse(f"def {text}: ...").body
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    first_default = len(given.args) - len(given.defaults)
    positional = [(each.arg, False, place >= first_default) for place, each in enumerate(given.args)]
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return positional + [(each.arg, True, default is not None) for each, default in named]


def test_every_exported_name_has_a_section_and_nothing_else_claims_to_be_one():
    titles = {title for title in SECTIONS if title.isidentifier() and title != "Reading"}
    assert titles == set(delta_log.__all__)


@pytest.mark.parametrize("cls", [*EXPORTED, Reading], ids=lambda cls: cls.__name__)
def test_a_section_names_every_member_and_no_other(cls: type):
    """What a class does in its own way, but as Reading says, need not be said twice."""
    said_once = members(Reading) if cls is not Reading and issubclass(cls, Reading) else set()
    named = set(documented(cls.__name__))
    assert named | said_once >= members(cls)
    assert named <= members(cls)


@pytest.mark.parametrize("cls", [*EXPORTED, Reading], ids=lambda cls: cls.__name__)
def test_parameters_are_written_as_they_are(cls: type):
    for name, text in documented(cls.__name__).items():
        member = own(cls).get(name)
        is_method = inspect.isfunction(member) or isinstance(member, classmethod)
        assert ("(" in text) == is_method, text
        if is_method:
            assert written_parameters(text) == parameters(member), text


@pytest.mark.parametrize("cls", [*EXPORTED, Reading], ids=lambda cls: cls.__name__)
def test_defaults_are_written_as_they_are_where_they_are_written(cls: type):
    for name, text in documented(cls.__name__).items():
        if "(" in text:
            member = own(cls)[name]
            real = inspect.signature(member.__func__ if isinstance(member, classmethod) else member).parameters
            for parameter, written in re.findall(r"(\w+)=([^,)]+)", text):
                assert written == "..." or ast.literal_eval(written) == real[parameter].default, text


@pytest.mark.parametrize(
    "given", [delta_log.Settings(), delta_log.Limits(), delta_log.Bounds()], ids=lambda given: type(given).__name__
)
def test_defaults_of_settings_are_those_of_the_code(given: object):
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", SECTIONS[type(given).__name__], re.MULTILINE)
    for name, written in rows:
        real = getattr(given, name)
        number = re.fullmatch(r"(\d+) ?(\w*)", written)
        if number:
            assert real == int(number[1]) * UNITS[number[2]], name
        else:
            assert written in (f"`{real}`", *ELSEWHERE) or (written, real) == ("none", {}), name


def test_the_verbs_of_operators_are_written_as_they_are():
    texts = documented("The operator's verbs")
    assert set(texts) == set(operations.__all__)
    for name, text in texts.items():
        real = inspect.signature(getattr(operations, name)).parameters
        written = written_parameters(text)
        assert written == [(p.name, p.kind is p.KEYWORD_ONLY, p.default is not p.empty) for p in real.values()], text
        for parameter, value in re.findall(r"(\w+)=([^,)]+)", text):
            assert value == "..." or ast.literal_eval(value) == real[parameter].default, text
