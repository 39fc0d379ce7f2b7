"""Parts of a blob that is uploaded to a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from delta_log.stores.protocol import Blob


class CountedParts:
    """Iterator over parts; records their total size, and the error if their source failed."""

    def __init__(self, parts: Iterable[Blob]) -> None:
        self._parts = parts
        self.size = 0
        self.failed: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for part in self._parts:
                data = bytes(memoryview(part))
                self.size += len(data)
                if data:
                    yield data
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failed = error
            raise
