"""Ctrl-C ends a wait that had begun before Python could notice it."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from lakelog.cli.kit.sigint import sigint_guard
from lakelog.cli.kit.stop_signals import noticing
from tests.support.serving import DEADLINE_S, wait_for

#: Longer than anything that is heeded takes, on any machine.
LONG_S = 30.0


@pytest.fixture(autouse=True)
def ctrl_c() -> Generator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait_for_an_answer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(LONG_S)
        ours.recv(1)


def wait_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=LONG_S)


@contextmanager
def interrupting_unnoticed() -> Generator[None]:
    """A signal that another thread is given breaks no wait of the main thread off, as one that came just before it."""

    def interrupt() -> None:
        wait_for(main_thread_waits, "a wait")
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    yield
    thread.join(DEADLINE_S)


def main_thread_waits() -> bool:
    """It sleeps, and had no turn for a while in which it could have: who waits for a processor does not sleep."""
    before = looks_of_main_thread()
    sleep(0.05)
    return "sleeping" in before[0] and looks_of_main_thread() == before


def looks_of_main_thread() -> list[str]:
    """Its state, and how many turns it had."""
    status = Path(f"/proc/self/task/{threading.main_thread().native_id}/status").read_text(encoding="ascii")
    return [line for line in status.splitlines() if line.startswith("State") or "ctxt_switches" in line]


@pytest.mark.parametrize("wait", [wait_for_an_answer, wait_for_a_lock])
def test_it_ends_a_wait_that_it_came_just_before(wait: Callable[[], object]):
    began = monotonic()
    with sigint_guard(), interrupting_unnoticed(), pytest.raises(KeyboardInterrupt):
        wait()
    assert monotonic() - began < LONG_S


def test_one_that_ends_what_only_asks_is_seen_by_what_follows():
    with sigint_guard(), noticing() as interrupts:
        with interrupting_unnoticed():
            interrupts.ask(wait_for_an_answer)
        assert interrupts.seen
        interrupts.ask(wait_for_an_answer)


def test_one_that_came_just_before_a_question_keeps_it_from_being_asked():
    with noticing() as interrupts:
        signal.raise_signal(signal.SIGINT)
        interrupts.ask(wait_for_an_answer)


def test_somebody_who_hears_of_signals_goes_on_hearing_of_them():
    hears, told = os.pipe()
    try:
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told)
        with suppress(KeyboardInterrupt), sigint_guard():
            signal.raise_signal(signal.SIGINT)
        assert signal.set_wakeup_fd(-1) == told
        assert os.read(hears, 8) == bytes([signal.SIGINT])
    finally:
        os.close(hears)
        os.close(told)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_of_it_is_left_behind():
    handler, threads, files = signal.getsignal(signal.SIGURG), set(threading.enumerate()), open_files()
    for _ in range(20):
        with suppress(KeyboardInterrupt), sigint_guard():
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGURG) == handler
    assert set(threading.enumerate()) <= threads  # what other tests left behind may end meanwhile
    assert open_files() <= files
    assert signal.set_wakeup_fd(-1) == -1


def test_a_thread_that_is_not_the_main_one_runs_its_command_all_the_same():
    ran: list[bool] = []

    def run() -> None:
        with sigint_guard():
            ran.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(DEADLINE_S)
    assert ran == [True]
