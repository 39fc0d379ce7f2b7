"""Runs jobs when they are due, under leases: one process, one Spark session, one run at a time.

A lease keeps two schedulers from doing the same work. Concurrent runs of a job are safe, so a lease only saves work: if
the store fails to give one, the run starts without. The module knows neither a job's work nor when it is due.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final, Self

from delta_log.maintenance.lease_holder import Grip, Leases
from delta_log.maintenance.leases import Lease
from delta_log.model.errors import LakelogError, NotARoot
from jobs.foundation.tolerant_output import write_if_room
from jobs.spark.engine import open_session
from jobs.spark.jvm import has_java_ended
from jobs.spark.shared_session import OpenSession
from lakelog.cli.jobs.schedule import LEASE_MS, lease_ms_until, plan_due
from lakelog.cli.kit.exit_codes import one_sentence

__all__ = ["INTERRUPTED", "Call", "Scheduler", "Stopping", "say"]

INTERRUPTED: Final = 130
#: Called wrongly, no such topic, no root: failures that a later run cannot mend.
_HOPELESS: Final = frozenset({2, 5, 8})


@dataclass(frozen=True, slots=True)
class Call:
    """A job with its options. It needs no lease if `root` is None: it does not reach or change one."""

    job: str
    main: Callable[[Sequence[str]], int]
    words: tuple[str, ...]
    root: str | None
    lease: str
    spark: bool
    master: str | None


class Stopping:
    """Handler of SIGTERM and Ctrl-C. The first signal ends the schedule after the current run, the second at once.

    With `patient=False` the first acts like the second. Outside the main thread, as on a cluster, no signals are
    handled. A job that handles signals itself gets the `event`, and sets it.
    """

    def __init__(self, *, patient: bool) -> None:
        self.event = threading.Event()
        self._patient = patient
        self._before: dict[signal.Signals, Any] = {}
        self._wakes, self._waker = os.pipe()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._heed)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._wakes)
        os.close(self._waker)

    @property
    def asked(self) -> bool:
        return self.event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait this long, or until a stop is requested; True if it was."""
        select.select([self._wakes], [], [], max(0.0, seconds))
        return self.asked

    def _heed(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked or not self._patient:
            raise KeyboardInterrupt
        self.event.set()
        with suppress(OSError):
            os.write(self._waker, b"!")
            # Not through a stream: the signal may have interrupted a write to it.
            os.write(sys.stderr.fileno(), b"lakelog jobs: ends behind the run in hand; a second signal ends at once\n")


class Scheduler:
    """Runs calls, once or at an interval. `holder`: the name of this process in leases."""

    def __init__(self, calls: Sequence[Call], holder: str, stopping: Stopping) -> None:
        self._calls = calls
        self._holder = holder
        self._stopping = stopping
        self._grips: dict[str, Grip] = {}
        self._codes: dict[str, int] = {}
        self._told: dict[str, str] = {}
        self._swept = False
        self._rounds = 0
        self._session: OpenSession | None = None

    def run_once(self) -> int:
        """Run the calls, one after the other; returns the highest exit code."""
        try:
            self._round()
            return max(self._codes.values(), default=0)
        finally:
            self._give_up()

    def run_every(self, seconds: float, chance: Callable[[], float]) -> int:
        """Run at once, then whenever due, until a stop is requested; returns the highest exit code of the last runs."""
        try:
            while True:
                began = time.monotonic()
                if self._round(keep_session=True):
                    break
                ended = time.monotonic()
                wait = plan_due(began, ended, seconds, chance()) - ended
                self._hold_on(wait)
                say(f"the next run is due at {_moment(time.time() + wait)}")
                if self._stopping.wait(wait):
                    break
            return max(self._codes.values(), default=0)
        finally:
            try:
                self._end_session()
            finally:
                self._give_up()

    def _round(self, *, keep_session: bool = False) -> bool:
        """Run each job whose lease can be had; True if it was the last round."""
        first, self._rounds = self._rounds == 0, self._rounds + 1
        for call in self._calls:
            with self._under_lease(call) as ours:
                if ours and keep_session and call.spark:
                    self._start_session(call)
                self._codes[call.job] = _run(call) if ours else 0
            if self._stopping.asked or self._codes[call.job] == INTERRUPTED:
                return True
        return (first and not _HOPELESS.isdisjoint(self._codes.values())) or self._is_spark_lost()

    def _is_spark_lost(self) -> bool:
        """True if a session that was not started here has died. If its own has died, the next run starts another."""
        opened = self._session
        if opened is None or not any(self._codes.values()) or _lives(opened.spark):
            return False
        if not opened.is_own:
            say("Spark is gone, and was not started by me; start me again")
            return True
        say("Spark is gone; the next run starts it again")
        self._end_session()
        return False

    def _end_session(self) -> None:
        opened, self._session = self._session, None
        if opened is not None:
            opened.close()

    def _start_session(self, call: Call) -> None:
        """Start one session for all further runs, which find it; if none starts, the run reports the error."""
        if self._session is not None and self._session.is_own and has_java_ended():
            say("Spark is gone, and is started again")
            self._end_session()
        if self._session is None:
            with suppress(LakelogError):
                self._session = open_session("lakelog jobs", call.master)

    @contextmanager
    def _under_lease(self, call: Call) -> Generator[bool]:
        """Yield True if this process is to do the work; the lease is renewed while it lasts."""
        grip = self._take(call)
        if not isinstance(grip, Grip):
            yield grip is None
            return
        stop = threading.Event()
        thread = threading.Thread(target=_keep, args=(call, grip, stop), name="lakelog-lease", daemon=True)
        thread.start()
        try:
            yield True
        finally:
            stop.set()
            thread.join()

    def _take(self, call: Call) -> Grip | Lease | None:
        """Take the lease; returns the grip on it, or the other holder's lease, or None if none can be had."""
        if call.root is None:
            return None
        try:
            grip = self._grips.get(call.job)
            if grip is not None and grip.renew(LEASE_MS):
                return grip
            self._grips.pop(call.job, None)
            taken = self._take_anew(call.root, call)
        except NotARoot:
            return None  # the job reports it
        except LakelogError as error:
            say(f"{call.job} runs without a lease: {error}")
            return None
        if isinstance(taken, Grip):
            self._grips[call.job] = taken
            self._told.pop(call.job, None)
        else:
            self._tell_held(call, taken)
        return taken

    def _take_anew(self, root: str, call: Call) -> Grip | Lease:
        leases = Leases.open(root, self._holder)
        if not self._swept:
            self._swept = True
            leases.sweep()
        return leases.take(call.lease, LEASE_MS)

    def _tell_held(self, call: Call, lease: Lease) -> None:
        """Report another's lease: on stderr once for each holder, on stdout as JSON each time, like a run's summary."""
        until = _moment(lease.until_ms / 1000)
        if self._told.get(call.job) != lease.holder:
            self._told[call.job] = lease.holder
            say(f"{call.job} is left to {lease.holder}, whose lease holds until {until}")
        summary = {"job": call.job, "root": call.root, "outcome": "skipped", "holder": lease.holder, "until": until}
        write_if_room(sys.stdout, json.dumps(summary, ensure_ascii=False) + "\n")

    def _hold_on(self, seconds: float) -> None:
        for job, grip in list(self._grips.items()):
            try:
                if not grip.renew(lease_ms_until(seconds)):
                    del self._grips[job]
            except LakelogError as error:
                say(f"the lease of {job} could not be renewed: {error}")

    def _give_up(self) -> None:
        for grip in self._grips.values():
            with suppress(LakelogError):
                grip.give_up()


def say(line: str) -> None:
    write_if_room(sys.stderr, f"lakelog jobs: {line}\n")


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _run(call: Call) -> int:
    """Run a job; returns an exit code for any end."""
    try:
        return call.main(call.words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - any failure: the schedule goes on
        if "--debug" in call.words:
            traceback.print_exc()
        else:
            say(f"{call.job} failed: {one_sentence(error)}")
        return 1


def _keep(call: Call, grip: Grip, stop: threading.Event) -> None:
    """Renew a lease during its run. A run that lost it goes on: concurrent runs are safe."""
    while not stop.wait(LEASE_MS / 3000):
        try:
            if not grip.renew(LEASE_MS):
                say(f"{call.job} lost its lease while it ran; the run goes on beside the new holder")
                return
        except LakelogError as error:
            say(f"the lease of {call.job} could not be renewed: {error}")


def _lives(session: Any) -> bool:
    try:
        session.range(1).count()
    except Exception:  # noqa: BLE001 - a dead JVM shows in many errors
        return False
    return True
