"""A user's function is found by its name, and known by what it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_log.model.errors import InvalidRequest
from jobs.consume.user_functions import load_function

MODULE = """
import functools
def of_a_frame(frame): ...
def of_a_frame_with_more(frame, *, width=3, **others): ...
def of_a_frame_or_two(frame, other=None): ...
def of_a_batch(batch, batch_id): ...
def of_anything(*them): ...
def of_three(a, b, c): ...
def of_nothing(): ...
def that_must_be_told(frame, *, width): ...
bound = functools.partial(of_three, 1)
class Keeper:
    def __call__(self, batch, batch_id): ...
keeper = Keeper()
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / f"of_{tmp_path.name}").mkdir()
    (tmp_path / f"of_{tmp_path.name}" / "given.py").write_text(MODULE)
    (tmp_path / f"of_{tmp_path.name}" / "broken.py").write_text("1 / 0")
    (tmp_path / f"of_{tmp_path.name}" / "poor.py").write_text("import a_part_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    return f"of_{tmp_path.name}.given"


@pytest.mark.parametrize(
    ("name", "per_batch"),
    [
        ("of_a_frame", False),
        ("of_a_frame_with_more", False),
        ("of_a_frame_or_two", False),
        ("of_a_batch", True),
        ("bound", True),
        ("keeper", True),
    ],
)
def test_a_function_that_needs_two_is_one_of_batches(module: str, name: str, per_batch: bool):
    assert load_function(f"{module}.{name}").per_batch is per_batch
    assert load_function(f"{module}:{name}").per_batch is per_batch


@pytest.mark.parametrize("name", ["of_anything", "of_three", "of_nothing", "that_must_be_told", "number"])
def test_what_takes_neither_is_refused(module: str, name: str):
    with pytest.raises(
        InvalidRequest, match="a function takes a DataFrame, or a DataFrame and the number of its batch"
    ):
        load_function(f"{module}.{name}")


def test_what_is_not_there_is_said_in_a_sentence(module: str):
    package = module.partition(".")[0]
    for name, why in {
        "alone": "is not the name of a function",
        "a..b": "is not the name of a function",
        "nowhere_at_all.f": "there is no module 'nowhere_at_all'",
        f"{package}.nowhere.f": f"there is no module '{package}.nowhere'",
        f"{module}.f": f"{module} has no 'f'",
        f"{package}.broken.f": "cannot be imported: ZeroDivisionError",
        f"{package}.poor.f": "needs 'a_part_that_is_not_there', which is not there",
    }.items():
        with pytest.raises(InvalidRequest, match=why):
            load_function(name)
