"""The journal as numbered objects in a store with put-if-absent: one for each group.

    journal/<number>.grp          a group, a fence or a void: see `object_scan`
    journal/aside-<number>.grp    with records that belong to no table as it is; never replayed

All lives share one sequence of numbers. A life begins with a fence, put at the next number: the former writer cannot
create that number, and so detects the takeover before it acknowledges anything more. Fences are kept, because a writer
that was suspended all the while could take a number that is free again; after a long silence it also checks the owners.
Voids and groups that were taken back are kept, too.

A write whose answer is lost may arrive late, so later groups wait until it is settled: a void takes its number; if it
was stored after all, the next group marks it as taken back.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from delta_log.journal.group_format import Frame, Payload, Place, RangeNote, notes_of
from delta_log.journal.object_scan import (
    BLIND,
    FENCE,
    PLAIN,
    TAKES_BACK,
    VOID,
    FoundObject,
    collect,
    decode_object,
    encode_object,
    guards_of,
    number_of,
    object_name,
    places_of,
)
from delta_log.journal.protocol import IN_DOUBT, Recovered
from delta_log.journal.unreadable_groups import unread_of_objects
from delta_log.model.errors import LakelogError, NotOwner, OutcomeUnknown, StorageRefused
from delta_log.stores import Store

LINGER_MS: Final = 50
#: Fences kept: an owner suspended for less than `_SILENT_S` can miss this many openings and still be fenced.
KEPT_FENCES: Final = 100
_SILENT_S: Final = 10.0
_READ_AT_ONCE: Final = 8
_KEPT_BYTES: Final = 32 * 1024 * 1024
#: A clock that includes the time of a machine's sleep, if the system has one.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_DIRECTORY: Final = "journal"
_log = logging.getLogger(__name__)


class ObjectJournal:
    """Journal in an object store, written by one thread at a time; other threads may call `read` and `release`.

    `newest_epoch` returns the epoch of the newest owner.
    """

    kept_segments = 1000
    copied_segments = 1000

    def __init__(
        self, store: Store, epoch: int, *, newest_epoch: Callable[[], int], linger_ms: int = LINGER_MS
    ) -> None:
        self.doubt: str | None = None  # an append settles it
        self.mended, self.mended_at = 0, float("-inf")
        self._store = store
        self._epoch = epoch
        self._newest_epoch = newest_epoch
        self._linger_s = linger_ms / 1000
        self._life = secrets.randbits(64)
        self._number = 0
        self._previous: list[RangeNote] = []
        self._doubt: list[bytes] = []
        self._take_back = False
        self._lost: NotOwner | None = None
        self._began = 0.0
        self._owner_at = 0.0
        self._lock = threading.Lock()
        self._kept: dict[int, int] = {}
        self._guards: set[int] = set()
        self._released: set[int] = set()
        self._bodies: OrderedDict[int, bytes] = OrderedDict()
        self._bodies_size = 0
        self._threads = ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="lakelog-journal")
        self._deleting = False

    def recover(self) -> Recovered:
        """Fence the former writer, then read the objects, to which it can add none any more."""
        groups: list[FoundObject] = []
        lengths: dict[int, int] = {}
        for number, data in self._read_all(self._fence()):
            group = decode_object(number, data)
            groups.append(group)
            lengths[number] = len(data)
            if not group.is_fence and group.kind != VOID:
                self._kept[number] = group.epoch
                self._keep_body(number, data)
        content = collect(groups)
        self._guards = self._forget_old(groups)
        return Recovered(
            content.frames,
            content.lost,
            content.damage,
            [],
            content.untraceable,
            unread_of_objects(groups, lengths),
            len(self._kept),
            sum(lengths.values()),
        )

    def pace(self) -> None:
        wait = self._began + self._linger_s - time.monotonic()
        if wait > 0:
            time.sleep(wait)

    def append(self, frames: Sequence[Frame], payloads: Sequence[Payload]) -> list[Place]:
        self._began = time.monotonic()
        if self._lost is not None:
            raise self._lost
        if self._doubt:
            self._settle_doubt()
        kind = TAKES_BACK if self._take_back else PLAIN
        while True:
            number = self._number
            data, position = self._encode(kind, frames, payloads)
            began = time.clock_gettime(_STEADY)
            if self._create(number, data):
                break
            self._step_over(number)
        self._check_owner(number, data)
        self._owner_at = began
        with self._lock:
            self._kept[number] = self._epoch
            if kind == TAKES_BACK:
                self._guards |= {number - 1, number}
        self._number, self._take_back, self._previous = number + 1, False, notes_of(frames)
        return places_of(self._epoch, number, position, payloads)

    def read(self, place: Place) -> bytes:
        number = place.segment
        with self._lock:
            known = self._kept.get(number) == place.epoch
            body = self._bodies.get(number)
            if body is not None:
                self._bodies.move_to_end(number)
        if not known:
            raise FileNotFoundError(f"journal object {number} was released")
        if body is None:
            body = self._store.read(_path(number))
            self._keep_body(number, body)
        return body[place.position : place.position + place.length]

    def segments(self) -> list[tuple[int, int]]:
        """The segments but the newest: the writer has not noted yet which tables need it."""
        with self._lock:
            return [(epoch, number) for number, epoch in self._kept.items() if number != self._number - 1]

    def release(self, segment: tuple[int, int], *, aside: bool = False) -> None:
        epoch, number = segment
        with self._lock:
            if number == self._number - 1 or self._kept.get(number) != epoch:
                return
        if aside:
            self._store.put(f"{_DIRECTORY}/aside-{object_name(number)}", self._store.read(_path(number)))
        with self._lock:
            self._kept.pop(number, None)
            self._forget_body(number)
            if number in self._guards:
                return
            self._released.add(number)
            if self._deleting:
                return
            self._deleting = True
        self._threads.submit(self._delete_released)

    def give_back(self) -> None:
        """Do nothing: no space is reserved."""

    def close(self, *, empty: bool) -> None:
        self._threads.shutdown(wait=True, cancel_futures=not empty)
        if empty and self._lost is None:
            staying = set(self._guards)
            if not self._bar():
                staying.add(self._number - 1)
            with self._lock:
                self._released.update(self._kept.keys() - staying)
                self._kept.clear()
            self._delete_released()

    def _bar(self) -> bool:
        """Make sure that an object remains behind all deleted ones, for later lives to continue from; True if so.

        Otherwise a late write of this life could find its number free, before the fence that has to refuse it.
        """
        newest = self._number - 1
        if newest in self._guards or newest not in self._kept:
            return True
        try:
            void, _ = self._encode(VOID)
            self._store.create(_path(self._number), void)
        except LakelogError as error:
            _log.warning("the newest object of the journal stays: %s", error)
            return False
        return True

    def _encode(self, kind: int, frames: Sequence[Frame] = (), payloads: Sequence[Payload] = ()) -> tuple[bytes, int]:
        return encode_object(
            self._number,
            kind,
            life=self._life,
            epoch=self._epoch,
            previous=self._previous,
            frames=frames,
            payloads=payloads,
        )

    def _create(self, number: int, data: bytes) -> bool:
        try:
            return self._store.create(_path(number), data)
        except OutcomeUnknown:
            self._doubt = [data]
            raise

    def _step_over(self, number: int) -> None:
        """Skip a number taken by a late fence of an earlier epoch; any other object there means a takeover."""
        found = self._read_object(number)
        if self._take_back or found is None or not found.is_fence or not 0 < found.epoch < self._epoch:
            raise self._replaced(number)
        self._guards.add(number)
        self._number, self._previous = number + 1, []

    def _settle_doubt(self) -> None:
        """Make sure that the group in doubt never counts; no later group is stored before."""
        number = self._number
        void, _ = self._encode(TAKES_BACK if self._take_back else VOID)
        self._doubt.append(void)
        try:
            self._take_back = not self._store.create(_path(number), void) and self._whose(number)
        except OutcomeUnknown as error:
            raise StorageRefused(IN_DOUBT, error.why) from error
        self._doubt = []
        self._guards |= {number - 1, number}
        self._number, self._previous = number + 1, []
        self.mended, self.mended_at = self.mended + 1, time.monotonic()

    def _whose(self, number: int) -> bool:
        """True if the group in doubt was stored after all, False if an earlier void of it was."""
        try:
            there = self._store.read(_path(number))
        except FileNotFoundError:
            raise StorageRefused(IN_DOUBT, "it comes and goes") from None
        if there not in self._doubt:
            raise self._replaced(number)
        return there == self._doubt[0]

    def _check_owner(self, number: int, data: bytes) -> None:
        """Check for a newer owner after a long silence: enough openings may have passed to free this number again."""
        if time.clock_gettime(_STEADY) - self._owner_at <= _SILENT_S:
            return
        try:
            newest = self._newest_epoch()
            if newest > self._epoch:
                self._store.delete(_path(number))
                raise self._replaced(number)
        except (StorageRefused, OutcomeUnknown) as error:
            self._doubt = [data]
            raise OutcomeUnknown("the journal", error) from error

    def _replaced(self, number: int) -> NotOwner:
        self._lost = NotOwner(f"somebody else wrote object {number} of the journal")
        return self._lost

    def _fence(self) -> list[int]:
        """Create a fence behind all objects; returns the numbers before it.

        A number before others may be free because its group was released. So the fence is the last object only once
        a listing made after its creation shows so.
        """
        taken = -1
        while True:
            numbers = self._list()
            self._number = max(taken, *numbers, -1) + 1
            newest = self._read_object(self._number - 1)
            if newest is not None and newest.epoch > self._epoch:
                raise NotOwner(f"the journal is being written in epoch {newest.epoch} by now")
            unreadable = newest is not None and not newest.readable
            if unreadable and self._newest_epoch() > self._epoch:
                raise NotOwner("the journal is being written by somebody else by now")
            self._previous = newest.ranges if newest is not None else []
            data, _ = self._encode(BLIND if newest is not None and unreadable and not newest.is_fence else FENCE)
            began = time.clock_gettime(_STEADY)
            created = self._store.create(_path(self._number), data)
            taken = self._number
            numbers = self._list()
            if created and max(numbers, default=taken) <= taken:
                self._owner_at = began
                self._number, self._previous = taken + 1, []
                return [number for number in numbers if number < taken]

    def _read_object(self, number: int) -> FoundObject | None:
        data = self._read(number) if number >= 0 else None
        return None if data is None else decode_object(number, data)

    def _list(self) -> list[int]:
        numbers = (number_of(entry.name) for entry in self._store.list(_DIRECTORY))
        return sorted(number for number in numbers if number is not None)

    def _read_all(self, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Read objects in order, some ahead; missing ones were released, as their records are in the tables."""
        following = iter(numbers)
        ahead = [(number, self._threads.submit(self._read, number)) for number in islice(following, _READ_AT_ONCE)]
        while ahead:
            number, reading = ahead.pop(0)
            data = reading.result()
            ahead += [(more, self._threads.submit(self._read, more)) for more in islice(following, 1)]
            if data is not None:
                yield number, data

    def _read(self, number: int) -> bytes | None:
        try:
            return self._store.read(_path(number))
        except FileNotFoundError:
            return None

    def _keep_body(self, number: int, body: bytes) -> None:
        with self._lock:
            self._forget_body(number)
            self._bodies[number] = body
            self._bodies_size += len(body)
            while self._bodies_size > _KEPT_BYTES and len(self._bodies) > 1:
                self._forget_body(next(iter(self._bodies)))

    def _forget_body(self, number: int) -> None:
        self._bodies_size -= len(self._bodies.pop(number, b""))

    def _delete_released(self) -> None:
        while True:
            with self._lock:
                numbers = sorted(self._released)
                if not numbers:
                    self._deleting = False
                    return
            done = self._delete(numbers)
            with self._lock:
                if not done:
                    self._deleting = False
                    return
                self._released.difference_update(numbers)

    def _forget_old(self, groups: Sequence[FoundObject]) -> set[int]:
        """Delete guards that are not needed any more; returns the others. Groups taken back are deleted first."""
        guards = guards_of(groups)
        fences = [group.number for group in groups if group.is_fence]
        oldest = fences[-KEPT_FENCES] if len(fences) >= KEPT_FENCES else -1
        for number in guards:
            if number < oldest and number not in self._kept:
                self._delete([number])
        return {number for number in guards if number >= oldest}

    def _delete(self, numbers: Sequence[int]) -> bool:
        """Delete released objects; False if that failed: it is retried later, or at the next start."""
        try:
            self._store.delete_all([_path(number) for number in numbers])
        except LakelogError as error:
            _log.warning("released journal objects stay for now: %s", error)
            return False
        return True


def _path(number: int) -> str:
    return f"{_DIRECTORY}/{object_name(number)}"
