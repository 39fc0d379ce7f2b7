"""A program that goes on as a user who is not root, since the rights of files bind nobody else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.architecture.project_files import ROOT
from tests.support.serving import environment


def run_as_nobody(before: str, behind: str, place: Path, *words: Path) -> subprocess.CompletedProcess[str]:
    """Lines of Python with the paths as `sys.argv`, the first `place`; what is before imports all, as ourselves."""
    temporary = Path(tempfile.gettempdir())
    for folder in place.parents:
        if temporary in folder.parents:
            folder.chmod(0o755)
    program = f"import os, sys\n{before}\nos.getuid() or os.setuid(65534)\n{behind}"
    return subprocess.run(
        [sys.executable, "-c", program, str(place), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=ROOT,
        env=environment(),
    )
