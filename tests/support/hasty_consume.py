"""The consume job, deliberately broken: its offsets are not in the transaction of a batch, but committed before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from delta_log.runtime.syscalls import Probe
from jobs.consume.batch_transactions import Transactions
from jobs.consume.job import JOB
from jobs.consume.member_loop import consume
from jobs.consume.user_functions import load_function
from jobs.groups.group_member import Share
from jobs.runner.stream_job import StreamRun, run_stream_job
from jobs.source.positions import Positions


class Hasty(Transactions):
    def move(self, transaction: str, share: Share, offsets: Positions) -> None:
        self._groups.member(self._group, share.name).commit(offsets, share.generation)


def main(argv: Sequence[str], *, probe: Probe) -> int:
    return run_stream_job(HASTY_JOB, argv, probe=probe)


def _work(run: StreamRun) -> None:
    consume(run, load_function(run.options.module), Hasty)


HASTY_JOB: Final = replace(JOB, work=_work)
