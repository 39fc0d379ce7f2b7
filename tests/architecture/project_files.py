"""The files that belong to the project: tracked ones, and new ones that git would not ignore."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def list_files(suffix: str = "") -> list[Path]:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in names.split("\0") if name.endswith(suffix) and name)
    return [path for path in paths if path.is_file()]


def load_tool(name: str) -> ModuleType:
    """A program of `tools`, as it is when it is run: with the others beside it."""
    tools = str(ROOT / "tools")
    if tools not in sys.path:
        sys.path.append(tools)
    return importlib.import_module(name)
