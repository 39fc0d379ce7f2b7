"""A process that owns a root, appends with all its might, and suspends itself at one step of its work.

    stopping_owner.py <order>     the order as JSON: see `Order`

Each line of its output is an event: `trying` before a request, `acked` with what the log promised, `ended` with why it
stopped.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from delta_log import Log, ProducerStamp, Record
from delta_log.maintenance import background as upkeep
from delta_log.maintenance import history as housekeeping
from delta_log.model.errors import LakelogError
from delta_log.root.root import LocalRoot, ObjectRoot, Root, as_root

DEADLINE_S = 60.0
CONFIG: dict[str, str | int | float | None] = {
    "lakelog.commit.interval.ms": 100,
    "lakelog.fold.files": 2,
    "lakelog.history.commits": 100,
}


class Order(msgspec.Struct):
    """`step` is `<operation> <part of the path> <before or after>` of the store, or a step of the journal's own."""

    place: str
    options: dict[str, str]
    step: str
    hit: int


class Stop:
    """Suspends this very process at a certain hit of a step."""

    def __init__(self, step: str, hit: int) -> None:
        self._step, self._left = step, hit
        self._lock = threading.Lock()

    def __call__(self, step: str) -> None:
        if step == self._step:
            with self._lock:
                self._left -= 1
                now = self._left == 0
            if now:
                os.kill(os.getpid(), signal.SIGSTOP)


class WatchedStore:
    """A store of which each change is a step, before and after."""

    def __init__(self, inner: Any, stop: Stop, step: str) -> None:
        self._inner = inner
        self._stop = stop
        self._operation, self._part, *_ = [*step.split(), "", ""]
        self._step = step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, path: str, data: Any) -> bool:
        return self._do("create", path, lambda: self._inner.create(path, data))

    def put(self, path: str, data: Any) -> None:
        self._do("put", path, lambda: self._inner.put(path, data))

    def put_parts(self, path: str, parts: Any) -> int:
        return self._do("put", path, lambda: self._inner.put_parts(path, parts))

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self._inner.delete(path))

    def delete_all(self, paths: Any) -> None:
        self._do("delete", paths[0] if paths else "", lambda: self._inner.delete_all(paths))

    def _do(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        ours = operation == self._operation and self._part in path
        if ours:
            self._stop(f"{operation} {self._part} before")
        answer = call()
        if ours:
            self._stop(f"{operation} {self._part} after")
        return answer


def watched(place: str, options: dict[str, str], stop: Stop | None = None, step: str = "") -> Root:
    """A root whose changes are the steps of `stop`."""
    root = as_root(place, probe=stop or (lambda _: None), segment_size=64 * 1024, linger_ms=0, store_options=options)
    assert isinstance(root, LocalRoot | ObjectRoot)
    if stop is not None:
        root._store = WatchedStore(root.store, stop, step)
    return root


def report(*event: object) -> None:
    os.write(1, json.dumps(event).encode() + b"\n")


def append_on(log: Log) -> None:
    """One request after the other, every second one by a producer that numbers them, until the log says no."""
    for number in range(1_000_000):
        value = f"old-{number}"
        sequence = number // 2 if number % 2 else -1
        report("trying", value)
        stamp = ProducerStamp("p", 0, sequence) if sequence >= 0 else None
        (offset,) = log.append("t", [Record(value.encode())], producer=stamp).offsets()
        report("acked", value, offset, sequence)


def operate(log: Log, over: threading.Event) -> None:
    while not over.wait(0.05):
        try:
            log.flush("t")
            log.run_upkeep()
        except LakelogError:
            return


def main(order: Order) -> None:
    housekeeping.CHECKPOINT_EVERY = 5  # type: ignore[misc]
    upkeep.CLEAN_EVERY_S = 0.0  # type: ignore[misc]
    upkeep.FOLLOW_EVERY_S = 0.1  # type: ignore[misc]
    faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
    root = watched(order.place, order.options, Stop(order.step, order.hit), order.step)
    log = Log.open(root)
    if "t" not in log.topics():
        log.create_topic("t", config=CONFIG)
    over = threading.Event()
    operator = threading.Thread(target=operate, args=(log, over))
    operator.start()
    try:
        append_on(log)
    except LakelogError as error:
        report("ended", error.code, str(error))
    over.set()
    operator.join()
    log.close()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Order))
