"""The load generator wrk, a program of its own in C: what it measures is the server, not the generator.

Its percentiles are corrected by itself: a slow answer counts also for the requests that would have been sent meanwhile.
It stops amid requests, so up to one for each connection is done by the server and not counted here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.http_load import HttpLoad, Requests

PROGRAM: Final = shutil.which("wrk")
ABSENT: Final = "wrk is not installed (the Debian package wrk): the generator in Python stands in for it"
_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
#: wrk knows whole seconds only.
_LEAST_S: Final = 1
_TIMEOUT_S: Final = 30


def drive_wrk(url: str, requests: Requests, *, connections: int, seconds: float) -> HttpLoad:
    """Post to `url` over so many connections, each of which sends its next request when one is answered."""
    if PROGRAM is None:
        raise FileNotFoundError(ABSENT)
    whole = max(_LEAST_S, round(seconds))
    command = [PROGRAM, "-t1", f"-c{connections}", f"-d{whole}s", "--timeout", f"{_TIMEOUT_S}s", "-s", str(_SCRIPT)]
    with tempfile.TemporaryDirectory() as folder:
        for number, body in enumerate(requests.bodies, 1):
            (Path(folder) / str(number)).write_bytes(body)
        given = {
            "WRK_BODIES": folder,
            "WRK_COUNT": str(len(requests.bodies)),
            "WRK_PATHS": "\n".join(requests.paths),
            "WRK_HEADERS": "\n".join(f"{name}: {value}" for name, value in requests.headers.items()),
        }
        done = subprocess.run(
            [*command, url + requests.query], env=os.environ | given, capture_output=True, text=True, check=False
        )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"wrk ended with {done.returncode}: {done.stdout} {done.stderr}")
    return msgspec.json.decode(lines[-1], type=HttpLoad)
