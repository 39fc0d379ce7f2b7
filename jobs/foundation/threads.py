"""Work in threads, with answers as they complete."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

__all__ = ["in_threads"]

W = TypeVar("W")
R = TypeVar("R")


def in_threads(
    function: Callable[[W], R], works: Iterable[W], workers: int, *, abandon: Callable[[], None] = lambda: None
) -> Generator[R]:
    """Run works, with twice as many submitted as there are workers: none idles, and little is wasted on an abort."""
    following = iter(works)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="lakelog-job")
    pending: set[Future[R]] = set()
    try:
        while True:
            while len(pending) < 2 * workers:
                try:
                    work = next(following)
                except StopIteration:
                    break
                pending.add(pool.submit(function, work))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()
    except BaseException:
        abandon()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
