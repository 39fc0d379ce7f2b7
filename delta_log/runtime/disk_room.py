"""Free space of a log's disk: checked before writes, updated by refused writes, and maintained by one thread.

`fullness` decides; this module acts. A root without a directory always has space.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from delta_log.model.errors import DiskFull, LakelogError, is_full
from delta_log.runtime.ballast import Ballast
from delta_log.runtime.fullness import Fullness, Look, ballast_size, decide_step, leaves_enough, reserve_of, settle_fill

LOOKS_EVERY_S: Final = 1.0
_WHY: Final = "the disk is full; it goes on by itself when there is room"
_log = logging.getLogger(__name__)


class DiskRoom:
    """Disk state of one root. While `full`, no records are accepted; operations that free space may continue.

    While `sealed`, nothing at all is written: the owner could not write its epoch file yet.
    """

    def __init__(self) -> None:
        self.full = False
        self.sealed = False
        #: target size of the ballast, and its actual size
        self.size = 0
        self.held = 0
        self.wake = threading.Event()
        self._reserve = 0
        self._lock = threading.Lock()
        self._refused = 0
        self._by_quota = False

    @property
    def why_full(self) -> str | None:
        return _WHY if self.full else None

    def check_records(self, what: str = "the request") -> None:
        """Raise DiskFull if only operations that free space may write."""
        if self.full:
            raise DiskFull(what, _WHY, by="")

    def check_small(self, what: str, size: int = 0) -> None:
        """Raise DiskFull if `size` more bytes would leave too little reserve for operations that free space."""
        if self.sealed or (self.full and not leaves_enough(self._reserve, size, self.size)):
            raise DiskFull(what, _WHY, by="")

    def bound_small(self, limit: int) -> int:
        """The part of `limit` that may be written at once: on a full disk a larger write would wait for ever."""
        if not self.full or not self.size:
            return limit
        return min(limit, max(0, self._reserve - self.size // 2))

    def check_open(self, what: str) -> None:
        """Raise DiskFull if nothing may be written."""
        if self.sealed:
            raise DiskFull(what, _WHY, by="")

    def seal(self) -> None:
        self.sealed = self.full = True

    def unseal(self) -> None:
        self.sealed = False

    def refused(self, error: OSError) -> None:
        """Record a write refused for lack of space; other errors are ignored."""
        if not is_full(error):
            return
        with self._lock:
            self._refused += 1
            self._by_quota = self._by_quota or is_full(error, by_quota=True)
        self.full = True
        self.wake.set()

    def take_refusals(self) -> tuple[int, bool]:
        """Number of refusals since the last call, and whether a quota caused any of them."""
        with self._lock:
            taken = self._refused, self._by_quota
            self._refused, self._by_quota = 0, False
        return taken

    def publish(self, known: Fullness, look: Look, size: int) -> None:
        """Publish the state after a look; it stays full if a write was refused meanwhile."""
        with self._lock:
            self.size, self.held = size, look.held
            self._reserve = reserve_of(known, look)
            self.full = known.full or self._refused > 0 or self.sealed


class BallastThread:
    """Looks at the disk every second and at each refusal, and keeps, gives back and restores the ballast."""

    def __init__(
        self,
        room: DiskRoom,
        ballast: Ballast,
        wanted: int,
        *,
        free_bytes: Callable[[], tuple[int, int]],
        give_back_more: Callable[[], None],
    ) -> None:
        self._room = room
        self._ballast = ballast
        self._wanted = wanted
        self._free_bytes = free_bytes
        self._give_back_more = give_back_more
        self._known = Fullness()
        #: the write for which a start had no space
        self.claim: Callable[[], None] | None = None
        self._stopping = False
        self._looking = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="lakelog-ballast", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._room.wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def give_slice(self) -> bool:
        """Give back a slice at once, for an operation that frees space; False if none is left."""
        with self._looking:
            return self._room.full and self._ballast.give_back(1) > 0

    def look(self, *, may_fill: bool = True) -> None:
        """Look at the disk once, and act on it."""
        with self._looking:
            self._look(may_fill=may_fill)

    def _look(self, *, may_fill: bool) -> None:
        refused, by_quota = self._room.take_refusals()
        free, total = self._free_bytes()
        size = ballast_size(self._wanted, total)
        look = Look(time.monotonic(), free, self._ballast.held, refused, by_quota)
        step = decide_step(self._known, look, size)
        after = step.after
        if after.full and not self._known.full:
            _log.warning("the disk is full: %d bytes are free; no records are taken until there is room", free)
        if after.full:
            self._give_back_more()
        if step.give_back:
            given = self._ballast.give_back(step.give_back)
            _log.info("gave %d bytes of the ballast back; %d are left", given, look.held - given)
        if step.fill and may_fill:
            after = settle_fill(after, look.now, whole=self._fill(size))
        if self._known.full and not after.full:
            _log.info("there is room on the disk: records are taken again")
        self._known = after
        self._try_to_claim()
        look = look._replace(free=self._free_bytes()[0], held=self._ballast.held)
        self._room.publish(after, look, size)

    def _try_to_claim(self) -> None:
        if self.claim is not None:
            try:
                self.claim()
            except DiskFull:
                return
            self.claim = None
            self._room.unseal()

    def _fill(self, size: int) -> bool:
        try:
            self._ballast.fill(size)
        except OSError as error:
            _log.info("the ballast of %d bytes cannot be made now: %s", size, error)
            return False
        return True

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.look()
            except (OSError, LakelogError) as error:
                _log.warning("the room on the disk cannot be looked at: %s", error)
            self._room.wake.wait(LOOKS_EVERY_S)
            self._room.wake.clear()
