"""Installs of the wheel, each with the packages of some extras and no others, made of what is installed here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Literal
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.project_files import ROOT


def build(folder: Path, target: Literal["wheel", "sdist"] = "wheel") -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    (built,) = folder.iterdir()
    return built


def install(wheel: Path, folder: Path, *, extras: Iterable[str] = (), without: Iterable[str] = ()) -> Path:
    """A folder of packages: the wheel's, and links to those that it and its extras require, but for those left out."""
    ZipFile(wheel).extractall(folder)
    (own,) = folder.glob("lakelog-*.dist-info")
    seen = {canonicalize_name(name) for name in without}
    to_link = _required(Distribution.at(own), extras)
    while to_link:
        requirement = to_link.pop()
        name = canonicalize_name(requirement.name)
        if name not in seen:
            seen.add(name)
            found = distribution(name)
            _link(found, folder)
            to_link += _required(found, requirement.extras)
    return folder


def run_there(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python with `words` where nothing can be imported but that install and the standard library."""
    code = (
        f"import runpy, sys; sys.path.append({str(folder)!r}); sys.argv = {list(words)!r}\n"
        "if sys.argv[0] == '-c': exec(sys.argv[1])\n"
        "else: runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False, cwd=folder
    )


def _required(found: Distribution, extras: Iterable[str]) -> list[Requirement]:
    wanted = ["", *extras]
    requirements = [Requirement(each) for each in found.requires or ()]
    return [
        each
        for each in requirements
        if not each.marker or any(each.marker.evaluate({"extra": name}) for name in wanted)
    ]


def _link(found: Distribution, folder: Path) -> None:
    tops = {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}
    for top in tops:
        target = Path(str(found.locate_file(top)))
        if not (folder / top).exists() and target.suffix != ".pth":
            (folder / top).symlink_to(target)
