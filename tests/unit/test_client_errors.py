"""The tree of the clients' errors: drawn as it is, and each knows what a caller may conclude."""

from __future__ import annotations

import inspect

import pytest

from lakelog.foundation import errors
from lakelog.foundation.errors import LakelogError

ALL = {name: cls for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, LakelogError)}


def drawn() -> dict[str, int]:
    """Each name in the drawing, and how deep it stands."""
    lines = [line for line in (errors.__doc__ or "").splitlines() if "── " in line]
    return {line.split("── ")[1].split()[0]: line.index("── ") // 4 for line in lines}


def test_the_drawing_has_every_error_below_the_one_that_it_is_of():
    depth = drawn()
    assert set(depth) == set(ALL) - {"LakelogError"}
    assert {name: sum(base in ALL.values() for base in ALL[name].__mro__) - 1 for name in depth} == depth


def test_only_what_may_have_been_done_is_unknown():
    unknown = {name for name, cls in ALL.items() if cls.outcome == "unknown"}
    assert unknown == {"OutcomeUnknown", "StillUnderWay"}


def test_what_is_refused_is_not_worth_a_repeat_and_what_is_not_available_is():
    assert not any(cls.retriable for cls in ALL.values() if issubclass(cls, errors.Refused))
    assert errors.NotAvailable("no").retriable
    assert not errors.NotAvailable("no", retriable=False).retriable
    assert not errors.Closed().retriable


def test_a_wait_that_is_over_is_a_timeout_as_python_has_it():
    assert issubclass(errors.StillUnderWay, TimeoutError)


@pytest.mark.parametrize("name", ["a" * 1_000, "a/b"])
def test_a_message_does_not_carry_back_a_kilobyte(name: str):
    assert len(str(errors.InvalidName(name))) < 400


def test_an_error_says_what_the_server_said():
    said = errors.Said(404, 40401, "there is no topic 't'", "id-1")
    error = errors.UnknownTopic(said.message, said=said)
    assert (str(error), error.said) == ("there is no topic 't'", said)
