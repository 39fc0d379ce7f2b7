"""The journal as files: preallocated segments, one write and one fdatasync a group.

    journal/<epoch>-<number>-<life>.seg   groups of that life; a later number proves the earlier segment whole
    journal/spare-<n>                     zero-filled, for later use

A segment is filled with zeros, or reused after its groups reached the tables, so that a sync writes data and no
metadata: half the latency of a growing file. A group's header names epoch, segment, number and the random number of
its life, so neither old content behind the end nor producers' data is ever mistaken for a group.

A failed write is truncated. While that fails, too, its outcome is in doubt: nothing is appended, and a thread retries
with fresh descriptors until the write is truncated and a new segment is ready.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from delta_log.journal.group_format import (
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
from delta_log.journal.protocol import IN_DOUBT, Recovered
from delta_log.journal.segment_scan import SegmentScan, find_lost, scan_segment
from delta_log.journal.settler import Settler
from delta_log.journal.unreadable_groups import unread_of_segments
from delta_log.model.errors import Corruption, NotOwner, OutcomeUnknown, StorageRefused, refusal_of
from delta_log.runtime.disk_room import DiskRoom
from delta_log.runtime.syscalls import Disk, Probe, make_directories, no_probe

SEGMENT_SIZE: Final = 16 * 1024 * 1024
#: Size of a segment that was not prepared ahead: small, so that the request which needs it waits little.
_UNPREPARED_SIZE: Final = 1024 * 1024
#: The same on a full disk, where only little is written.
_SCARCE_SIZE: Final = 64 * 1024
#: Number of empty segments kept at most, and prepared ahead.
_SPARES: Final = 16
_AHEAD: Final = 2
_NAME = re.compile(r"(\d{10})-(\d{10})-([0-9a-f]{16})\.seg")
_ZEROS: Final = bytes(1024 * 1024)
_log = logging.getLogger(__name__)


class LocalJournal:
    """Journal in local files, written by one thread at a time; other threads may call `read` and `release`.

    While `doubt` is set, the writing thread's state belongs to the thread that settles it. `still_held` raises if this
    owner may have lost the root. One class past 300 lines: writing, rolling, recovering and recycling share one file
    and the position up to which it is synced.
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
        room: DiskRoom | None = None,
        still_held: Callable[[], None] = lambda: None,
    ) -> None:
        self.doubt: str | None = None
        self.mended = 0
        self.mended_at = float("-inf")
        self._directory = directory
        self._epoch = epoch
        self._lives = {epoch: secrets.randbits(64)}
        self._disk = disk or Disk()
        self._at = probe
        self._room = room or DiskRoom()
        self._size = segment_size
        self._fd = -1
        self._segment = -1
        self._capacity = 0
        self._synced = (0, 0)
        self._number = self._index = 0
        self._previous: list[RangeNote] = []
        self._still_held = still_held
        self._settler: Settler | None = None
        self._lost: NotOwner | None = None
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
        """Do not wait: the disk sets the pace."""

    def append(self, frames: Sequence[Frame], payloads: Sequence[Payload]) -> list[Place]:
        if self.doubt is not None:
            raise self._lost or StorageRefused(IN_DOUBT, self.doubt)
        if self._room.sealed:
            self._room.check_open("the journal")
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
        try:
            fd = os.open(self._path(*segment), os.O_RDONLY | os.O_CLOEXEC)
            try:
                payload = os.pread(fd, place.length, place.position)
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageRefused(f"journal segment {segment}", error) from error
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
            try:
                self._set_free(path, aside=aside)
            except FileNotFoundError:
                pass  # removed earlier, by a call that reported failure
            except OSError as error:
                _log.warning("a released journal segment stays for now: %s", error)
                return
            self._closed_segments.remove(segment)
        self._at("journal.released")

    def _set_free(self, path: str, *, aside: bool) -> None:
        if aside:
            self._disk.rename(path, str(self._directory / f"aside-{os.path.basename(path)}"))
        elif not self._room.full and len(self._spares) < _SPARES and os.path.getsize(path) == self._size:
            spare = self._spare_path()
            self._disk.rename(path, spare)
            self._spares.append(spare)
        else:
            self._disk.unlink(path)

    def give_back(self) -> None:
        """Delete the spare segments but one, as freeing room is journaled, too."""
        with self._lock:
            while len(self._spares) > 1:
                self._disk.unlink(self._spares.pop())

    def close(self, *, empty: bool) -> None:
        if self._settler is not None:
            self._settler.stop()
        if self._fd >= 0:
            self._close_quietly(self._fd)
            self._fd = -1
        self._preparing.shutdown(wait=True, cancel_futures=True)
        if empty and self.doubt is None:
            try:
                self._delete_all()
            except OSError as error:
                _log.warning("the journal, of which the tables have everything, stays for now: %s", error)

    def _delete_all(self) -> None:
        for name in os.listdir(self._directory):
            if _NAME.fullmatch(name) or name.startswith("spare-"):
                self._disk.unlink(str(self._directory / name))
                self._at("journal.emptied")
        self._disk.sync_directory(str(self._directory))

    def _prepare_spares(self) -> None:
        """Prepare zero-filled files ahead, off the acknowledgement path."""
        while True:
            with self._lock:
                if len(self._spares) >= _AHEAD or self._room.full:
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
            self._room.refused(error)
            raise refusal_of("the journal", error) from error
        self._at("journal.synced")

    def _take_back(self, position: int, cause: OSError) -> None:
        """Truncate after a failed write or sync; nothing is appended before, as the bytes may or may not be stored."""
        fd, self._fd = self._fd, -1
        try:
            self._disk.truncate(fd, position)
            self._disk.sync(fd)
        except OSError as error:
            self._close_quietly(fd)
            self.doubt = f"{cause}; cutting the failed write off: {error}"
            _log.error(
                "the journal's last write is in doubt, and nothing is written until it is cut off: %s", self.doubt
            )
            self._settler = Settler(partial(self._settle_doubt, position, time.monotonic()))
            raise OutcomeUnknown("the journal", self.doubt) from error
        self._close_quietly(fd)
        with self._lock:
            self._closed_segments.append((self._epoch, self._segment))

    def _settle_doubt(self, position: int, since: float) -> bool:
        """Truncate the doubtful write and begin a segment; True if done, or if another process has the root."""
        doubtful = (self._epoch, self._segment)
        try:
            self._still_held()
            self._cut_off(position)
            self._roll(0)
        except NotOwner as error:
            self._lost = error
            return True
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may be the one that succeeds
            self.doubt = str(error) or repr(error)
            return False
        with self._lock:
            self._closed_segments.append(doubtful)
        self.mended += 1
        self.mended_at = time.monotonic()
        _log.warning("the journal goes on after %.1f s: what was in doubt is cut off", self.mended_at - since)
        self.doubt = None  # the last step: from here on the segment belongs to the writing thread again
        return True

    def _cut_off(self, position: int) -> None:
        """Truncate durably with a fresh descriptor, and read all acknowledged groups back from the disk.

        A failed sync may have left pages marked clean that are not on the disk: truncating to one byte more, then to
        `position`, forces the end to be written again. A file without the acknowledged groups is another one: it is
        left alone.
        """
        path = self._path(self._epoch, self._segment)
        fd = self._disk.open(path, os.O_RDWR)
        try:
            self._check_acknowledged(fd, path, position)
            self._disk.truncate(fd, position + 1)
            self._disk.truncate(fd, position)
            self._disk.sync(fd)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            self._check_acknowledged(fd, path, position)
        finally:
            self._close_quietly(fd)

    def _check_acknowledged(self, fd: int, path: str, position: int) -> None:
        scan = scan_segment(
            os.pread(fd, position, 0),
            life=self._lives[self._epoch],
            epoch=self._epoch,
            segment=self._segment,
            closed=True,
            synced_length=position,
        )
        if scan.damage or len(scan.groups) != self._index:
            why = "not all that was acknowledged is there any more; a restart says what is missing"
            raise Corruption(f"journal segment {os.path.basename(path)}", why)

    def _roll(self, wanted: int) -> None:
        """Close the segment and continue in the next one."""
        number, size = self._segment + 1, self._size
        path = self._path(self._epoch, number)
        with self._lock:
            prepared = bool(self._spares) and wanted < size
            spare = self._spares.pop() if prepared else self._spare_path()
        try:
            if not prepared:
                size = max(min(size, _SCARCE_SIZE if self._room.full else _UNPREPARED_SIZE), wanted + 1)
                self._fill(spare, size)
            self._disk.rename(spare, path)
            self._at("journal.renamed")
            self._disk.sync_directory(str(self._directory))
            self._at("journal.rolled")
            fd = self._disk.open(path, os.O_RDWR)
        except OSError as error:
            for half_made in (spare, path):
                with suppress(OSError):
                    self._disk.unlink(str(half_made))
            self._room.refused(error)
            raise refusal_of("a new journal segment", error) from error
        if self._fd >= 0:
            self._close_quietly(self._fd)
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
            self._close_quietly(fd)

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
            self._settle(path, scan, data, marks.get(number, 0))
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

    def _settle(self, path: str, scan: SegmentScan, data: bytes, synced_length: int) -> None:
        """Make a dead writer's possibly unsynced groups durable before they are visible, and truncate behind them.

        Bytes not known to be synced are written again: if a sync of the dead writer failed, the system may return
        bytes that it counts as written and that are not on the disk; a sync alone would skip them.
        No group fills its segment to the last byte, so a file that ends with a group was synced.
        """
        fd = self._disk.open(path, os.O_RDWR)
        try:
            if scan.end > synced_length:
                self._disk.write(fd, memoryview(data)[synced_length : scan.end], synced_length)
            self._disk.sync(fd)
            if scan.end < len(data):
                self._disk.truncate(fd, scan.end)
                self._disk.sync(fd)
        finally:
            self._close_quietly(fd)

    def _close_quietly(self, fd: int) -> None:
        """Close and ignore errors: all that matters was synced, and the descriptor is gone in any case."""
        with suppress(OSError):
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


def delete_spares(directory: Path, disk: Disk) -> bool:
    """Delete the empty segments of a root that is held and whose journal is not open; True if there were any."""
    deleted = False
    with suppress(FileNotFoundError):
        for name in os.listdir(directory):
            if name.startswith("spare-"):
                disk.unlink(str(directory / name))
                deleted = True
    return deleted
