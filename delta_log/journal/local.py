"""The journal as files: preallocated segments, one write and one fdatasync a group.

    journal/<epoch>-<number>-<life>.seg   groups of that life; a later number proves the earlier segment whole
    journal/spare-<n>                     zero-filled, waiting for its turn

A segment is filled with zeros, or used once more after its groups reached the tables, so that a sync writes data and
no metadata: half the latency of a growing file. A group's header names epoch, segment, number and the random number of
its life, so neither what an earlier life left behind the end nor what a producer sent is ever taken for a group.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from delta_log.disk import Disk, Probe, make_directories, no_probe
from delta_log.errors import OutcomeUnknown, StorageRefused
from delta_log.frames import (
    HEADER_SIZE,
    Frame,
    GroupHeader,
    Payload,
    Place,
    RangeNote,
    checksum,
    encode_directory,
    encode_header,
    notes_of,
)
from delta_log.journal.protocol import Recovered
from delta_log.journal_doubts import unread_of_segments
from delta_log.journal_scan import SegmentScan, find_lost, scan_segment

SEGMENT_SIZE: Final = 16 * 1024 * 1024
#: What nobody had time to prepare is kept small, so that the request which needs it waits little.
_UNPREPARED_SIZE: Final = 1024 * 1024
#: How many empty segments are kept, and how many are made before they are needed.
_SPARES: Final = 16
_AHEAD: Final = 2
_NAME = re.compile(r"(\d{10})-(\d{10})-([0-9a-f]{16})\.seg")
_ZEROS: Final = bytes(1024 * 1024)
_log = logging.getLogger(__name__)


class LocalJournal:
    """Written by one thread at a time; `read` and `release` may come from others.

    One class past 300 lines: writing, rolling, recovering and recycling share one file and where it is synced to.
    """

    kept_segments = 32
    copied_segments = 1

    def __init__(
        self,
        directory: Path,
        epoch: int,
        *,
        disk: Disk | None = None,
        probe: Probe = no_probe,
        segment_size: int = SEGMENT_SIZE,
    ) -> None:
        self._directory = directory
        self._epoch = epoch
        self._lives = {epoch: secrets.randbits(64)}
        self._disk = disk or Disk()
        self._at = probe
        self._size = segment_size
        self._fd = -1
        self._segment = -1
        self._capacity = 0
        self._synced = (0, 0)
        self._number = self._index = 0
        self._previous: list[RangeNote] = []
        self._broken: str | None = None
        self._closed_segments: list[tuple[int, int]] = []
        self._spares: list[str] = []
        self._spare_names = 0
        self._lock = threading.Lock()
        self._asked = False
        self._preparing = ThreadPoolExecutor(1, thread_name_prefix="lakelog-journal")

    def recover(self) -> Recovered:
        make_directories(self._disk, self._directory)
        self._collect_spares()
        names = [found for found in map(_NAME.fullmatch, os.listdir(self._directory)) if found]
        kept = sorted((int(name[1]), int(name[2])) for name in names)
        self._lives |= {int(name[1]): int(name[3], 16) for name in names}
        found = Recovered(segments=len(kept))
        for epoch in sorted({epoch for epoch, _ in kept}):
            self._recover_epoch(epoch, [number for of, number in kept if of == epoch], found)
        self._closed_segments = kept
        return found

    def pace(self) -> None:
        """As fast as the disk can."""

    def append(self, frames: Sequence[Frame], payloads: Sequence[Payload]) -> list[Place]:
        if self._broken is not None:
            raise StorageRefused("the journal, which needs a restart,", self._broken)
        directory = encode_directory(self._previous, list(frames))
        total = HEADER_SIZE + len(directory) + sum(map(len, payloads))
        if self._fd < 0 or self._synced[1] + total >= self._capacity:
            self._roll(total)
        position = self._synced[1] if self._synced[0] == self._segment else 0
        header = GroupHeader(
            self._lives[self._epoch],
            self._epoch,
            self._segment,
            self._number,
            self._index,
            *self._synced,
            len(directory),
            checksum(directory),
            total - HEADER_SIZE - len(directory),
        )
        self._write(position, [encode_header(header), directory, *payloads])
        self._number += 1
        self._index += 1
        self._synced = (self._segment, position + total)
        self._previous = notes_of(frames)
        if not self._asked and 2 * (position + total) > self._capacity:
            self._asked = True
            self._preparing.submit(self._prepare_spares)
        return self._places(position + HEADER_SIZE + len(directory), payloads)

    def read(self, place: Place) -> bytes:
        segment = (place.epoch, place.segment)
        fd = os.open(self._path(*segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            payload = os.pread(fd, place.length, place.position)
        finally:
            os.close(fd)
        with self._lock:
            if segment != (self._epoch, self._segment) and segment not in self._closed_segments:
                raise FileNotFoundError(f"journal segment {segment} was released, and may be another one by now")
        return payload

    def segments(self) -> list[tuple[int, int]]:
        with self._lock:
            return list(self._closed_segments)

    def release(self, segment: tuple[int, int], *, aside: bool = False) -> None:
        path = self._path(*segment)
        with self._lock:
            if segment not in self._closed_segments:
                return
            self._closed_segments.remove(segment)
            if aside:
                self._disk.rename(path, str(self._directory / f"aside-{os.path.basename(path)}"))
                return
            recycle = len(self._spares) < _SPARES and os.path.getsize(path) == self._size
            if recycle:
                spare = self._spare_path()
                self._disk.rename(path, spare)
                self._spares.append(spare)
            else:
                self._disk.unlink(path)
        self._at("journal.released")

    def close(self, *, empty: bool) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1
        self._preparing.shutdown(wait=True, cancel_futures=True)
        if empty and self._broken is None:
            for name in os.listdir(self._directory):
                if _NAME.fullmatch(name) or name.startswith("spare-"):
                    self._disk.unlink(str(self._directory / name))
                    self._at("journal.emptied")
            self._disk.sync_directory(str(self._directory))

    def _prepare_spares(self) -> None:
        """Have zero-filled files ready before they are needed, off the acknowledgement path."""
        while True:
            with self._lock:
                if len(self._spares) >= _AHEAD:
                    return
                path = self._spare_path()
            try:
                self._fill(path)
            except OSError as error:
                _log.warning("no spare journal segment could be made: %s", error)
                return
            with self._lock:
                self._spares.append(path)

    def _write(self, position: int, parts: list[Payload]) -> None:
        self._at("journal.before_write")
        try:
            self._disk.write_all(self._fd, parts, position)
            self._at("journal.written")
            self._disk.sync_data(self._fd)
        except OSError as error:
            self._take_back(position, error)
            raise StorageRefused("the journal", error) from error
        self._at("journal.synced")

    def _take_back(self, position: int, cause: OSError) -> None:
        """After a failed write or sync the bytes may be anywhere: cut them off durably, or never write again."""
        try:
            self._disk.truncate(self._fd, position)
            self._disk.sync(self._fd)
            self._disk.close(self._fd)
        except OSError as error:
            self._broken = f"{cause}; cutting the failed write off: {error}"
            _log.error("journal broken, restart needed: %s", self._broken)
            raise OutcomeUnknown("the journal", self._broken) from error
        with self._lock:
            self._closed_segments.append((self._epoch, self._segment))
        self._fd = -1

    def _roll(self, wanted: int) -> None:
        """Close the segment and go on in the next one."""
        number = self._segment + 1
        try:
            with self._lock:
                spare = self._spares.pop() if self._spares and wanted < self._size else None
            size = self._size
            if spare is None:
                spare = self._spare_path()
                size = max(min(self._size, _UNPREPARED_SIZE), wanted + 1)
                self._fill(spare, size)
            path = self._path(self._epoch, number)
            self._disk.rename(spare, path)
            self._at("journal.renamed")
            self._disk.sync_directory(str(self._directory))
            self._at("journal.rolled")
            fd = self._disk.open(path, os.O_RDWR)
        except OSError as error:
            raise StorageRefused("a new journal segment", error) from error
        if self._fd >= 0:
            self._disk.close(self._fd)
            with self._lock:
                self._closed_segments.append((self._epoch, self._segment))
        self._fd, self._segment, self._capacity, self._index = fd, number, size, 0
        self._asked = False

    def _fill(self, path: str, size: int | None = None) -> None:
        fd = self._disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            remaining, position = size or self._size, 0
            while position < remaining:
                part = memoryview(_ZEROS)[: remaining - position]
                self._disk.write(fd, part, position)
                position += len(part)
            self._disk.sync(fd)
        except OSError:
            self._disk.unlink(path)
            raise
        finally:
            self._disk.close(fd)

    def _recover_epoch(self, epoch: int, numbers: list[int], found: Recovered) -> None:
        scans: list[SegmentScan] = []
        marks: dict[int, int] = {}
        lengths: dict[int, int] = {}
        for number in reversed(numbers):
            path = self._path(epoch, number)
            data = Path(path).read_bytes()
            scan = scan_segment(
                data,
                life=self._lives[epoch],
                epoch=epoch,
                segment=number,
                closed=number != numbers[-1],
                synced_length=marks.get(number, 0),
            )
            for header in (group.header for group in scan.groups):
                marks[header.synced_segment] = max(marks.get(header.synced_segment, 0), header.synced_length)
            self._settle(path, scan, len(data))
            lengths[number] = len(data)
            name = os.path.basename(path)
            found.damage += [f"{name}: {damage}" for damage in scan.damage]
            found.torn += [f"{name} from byte {scan.end}"] if scan.torn else []
            found.size += scan.end
            scans.insert(0, scan)
        lost, untraceable = find_lost(scans)
        found.lost += lost
        found.untraceable += untraceable
        found.unread += unread_of_segments(scans, lengths)
        found.frames += [frame for scan in scans for group in scan.groups for frame in group.frames]

    def _settle(self, path: str, scan: SegmentScan, length: int) -> None:
        """Sync what a dead writer may have left unsynced before anybody is shown it, and cut what lies behind it.

        No group fills its segment to the last byte, so a file that ends with a group says that it was synced.
        """
        fd = self._disk.open(path, os.O_RDWR)
        try:
            self._disk.sync(fd)
            if scan.end < length:
                self._disk.truncate(fd, scan.end)
                self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def _collect_spares(self) -> None:
        for name in os.listdir(self._directory):
            if name.startswith("spare-"):
                path = str(self._directory / name)
                whole = os.path.getsize(path) == self._size and len(self._spares) < _SPARES
                if whole:
                    renamed = self._spare_path()
                    self._disk.rename(path, renamed)
                    self._spares.append(renamed)
                else:
                    self._disk.unlink(path)

    def _places(self, position: int, payloads: Sequence[Payload]) -> list[Place]:
        places: list[Place] = []
        for payload in payloads:
            places.append(Place(self._epoch, self._segment, position, len(payload)))
            position += len(payload)
        return places

    def _path(self, epoch: int, number: int) -> str:
        return str(self._directory / f"{epoch:010d}-{number:010d}-{self._lives[epoch]:016x}.seg")

    def _spare_path(self) -> str:
        self._spare_names += 1
        return str(self._directory / f"spare-{self._epoch:010d}-{self._spare_names:06d}")
