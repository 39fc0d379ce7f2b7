"""Finds a custom assignor: a function that a user wrote, named as `module:function`.

This is the only part of the assignors with side effects: importing a module runs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType


class NotLoadable(Exception):
    """The name leads to no function; the message gives the reason."""


def load_function(name: str) -> Callable[..., object]:
    module_name, _, function_name = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), function_name]):
        raise NotLoadable("a custom assignor is named module:function")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # importing a program may exit
        raise NotLoadable(f"{module_name} cannot be imported: {error!r}") from error
    function = getattr(module, function_name, None)
    if not isinstance(function, FunctionType):
        raise NotLoadable(f"{module_name} has no function {function_name}")
    return function
