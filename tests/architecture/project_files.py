"""The files that belong to the project: tracked ones, and new ones that git would not ignore."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def list_files(suffix: str = "") -> list[Path]:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in names.split("\0") if name.endswith(suffix) and name)
    return [path for path in paths if path.is_file()]
