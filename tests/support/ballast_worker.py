"""A program that dies as by kill -9 at a step of its log's ballast, on a disk that is filled and emptied meanwhile.

Arguments: the root, the step, and at which of its hits. It prints the number of each record that was acknowledged.
"""

from __future__ import annotations

import sys
from pathlib import Path

from delta_log import Log, Record, Settings
from delta_log.model.errors import DiskFull
from tests.support.kill_probe import Probe
from tests.support.logs import eventually
from tests.support.small_disk import fill

SETTINGS = Settings(ballast_bytes=64 * 1024 * 1024, segment_bytes=256 * 1024)


def main(root: Path, step: str, hit: int) -> None:
    log = Log.open(root, settings=SETTINGS, probe=Probe(step, hit))
    log.create_topic("orders")
    number = 0

    def send() -> bool:
        nonlocal number
        try:
            log.append("orders", [Record(b"%06d" % number)])
        except DiskFull:
            return False
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += 1
        return True

    eventually(lambda: log.statistics().ballast_bytes, "the ballast")
    while True:
        send()
        filled = fill(root.parent)
        eventually(lambda: not send(), "an append that is refused")
        filled.unlink()
        eventually(send, "an append that is taken again")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
