"""A user's function, found by its name: of frames, or of batches. It is called with frames only."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from delta_log.model.errors import InvalidRequest
from jobs.foundation.result import one_sentence

__all__ = ["UserFunction", "load_function"]

_SHAPES: Final = "a function takes a DataFrame, or a DataFrame and the number of its batch"
_MOST: Final = 2


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function that maps a stream to another, once; or, `per_batch`, each batch to a frame or None."""

    name: str
    call: Callable[..., Any]
    per_batch: bool


def load_function(name: str) -> UserFunction:
    """Load `package.module.function`, from Python's path or the directory in which the job was started."""
    module_name, _, function_name = name.replace(":", ".").rpartition(".")
    if not module_name or not all(part.isidentifier() for part in [*module_name.split("."), function_name]):
        raise InvalidRequest(f"--module {name!r} is not the name of a function, as in package.module.function")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidRequest(f"--module {name}: there is no module {error.name!r}") from error
        raise InvalidRequest(f"--module {name}: {module_name} needs {error.name!r}, which is not there") from error
    except Exception as error:
        raise InvalidRequest(f"--module {name}: {module_name} cannot be imported: {one_sentence(error)}") from error
    function = getattr(module, function_name, None)
    if function is None:
        raise InvalidRequest(f"--module {name}: {module_name} has no {function_name!r}")
    return UserFunction(name, function, _takes_batches(name, function))


def _takes_batches(name: str, function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise InvalidRequest(f"--module {name} is not a function: {_SHAPES}") from None
    by_place = [each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    needed = [each for each in by_place if each.default is each.empty]
    by_name = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if not by_place or len(needed) > _MOST or by_name:
        said = ", ".join(str(each) for each in parameters) or "nothing"
        raise InvalidRequest(f"--module {name} takes {said}: {_SHAPES}")
    return len(needed) > 1
