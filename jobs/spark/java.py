"""The Java that Spark would start here: its version, and problems with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["CURE", "ask_java", "java_version", "trouble_of_java"]

_OLDEST: Final = 17
CURE: Final = f"install Java {_OLDEST} or newer, or set JAVA_HOME"
_ANSWER_S: Final = 30


def ask_java() -> str | None:
    """Return the output of `java -version`; None without a working Java."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return None
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=True)  # noqa: S603 - as Spark does
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stderr


def java_version(said: str | None) -> int | None:
    found = re.search(r'version "(?:1\.)?(\d+)', said or "")
    return int(found[1]) if found is not None else None


def trouble_of_java(said: str | None, home: str | None) -> str | None:
    """Describe the problem with Java; None if it is suitable. `home` is JAVA_HOME."""
    version = java_version(said)
    if version is None:
        return f"JAVA_HOME is {home}, where no Java is that works" if home else "there is no Java"
    return f"Java {version} is too old" if version < _OLDEST else None
