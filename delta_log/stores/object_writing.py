"""Parts of a blob on their way into a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from delta_log.stores.protocol import Blob


class CountedParts:
    """Parts on their way: how much there was, and what kept them from coming to their end."""

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
