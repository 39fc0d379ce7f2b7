"""What a caller stores with a transaction, for tests that do not mind what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pages:
    """Joined they are one after the other; the note tells them."""

    values: Sequence[Any]
    name: str = "pages"
    each_takes: int = 0

    @property
    def size(self) -> int:
        return len(self.values) * self.each_takes

    def join(self, before: Pages) -> Pages:
        return Pages([*before.values, *self.values], self.name, self.each_takes)

    def note(self) -> Any:
        return list(self.values)
