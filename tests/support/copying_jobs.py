"""Two jobs in one process and one JVM, until SIGTERM: a topic is copied to another, and made a table.

copying_jobs.py TABLE
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from jobs.consume import job as consume
from jobs.materialize import job as materialize
from jobs.spark.session import build_session
from tests.support.copying import GROUP, SOURCE, TARGET

FUNCTION = "tests.support.consume_functions.bill"
FIELDS = "n BIGINT NOT NULL"


def main(table: str) -> int:
    stopping, codes = threading.Event(), list[int]()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    here = ["--server", os.environ["LAKELOG_SERVER"], "--topic", SOURCE]
    copy = [*here, "--group", GROUP, "--to", TARGET, "--module", FUNCTION, "--delivery", "exactly-once"]
    typed = [*here, "--table", table, "--format", "json", "--schema", FIELDS]
    build_session("jobs that copy", master="local[2]")

    def run(job: Callable[..., int], options: list[str]) -> None:
        codes.append(job(options, stopping=stopping))
        stopping.set()  # what one of them ends by itself the other need not outlive

    jobs = ((consume.main, [*copy, "--session-timeout", "2s"]), (materialize.main, typed))
    threads = [threading.Thread(target=run, args=each) for each in jobs]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(0.1)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
