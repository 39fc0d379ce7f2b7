"""A bin: files of a table that compaction merges into one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from delta_log.model.types import DataFile


@dataclass(frozen=True, slots=True)
class Bin:
    """Adjacent files of one partition, in offset order, to be merged into one file with the same records."""

    inputs: tuple[DataFile, ...]

    @property
    def partition(self) -> int:
        return self.inputs[0].partition

    @property
    def base_offset(self) -> int:
        return self.inputs[0].base_offset

    @property
    def last_offset(self) -> int:
        return self.inputs[-1].last_offset

    @property
    def count(self) -> int:
        return sum(file.count for file in self.inputs)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.inputs)

    @property
    def modified_ms(self) -> int:
        """The time for the merged file: the commit time of its oldest content."""
        return min(file.modified_ms for file in self.inputs)

    def __str__(self) -> str:
        head = (
            f"partition {self.partition}: merge {len(self.inputs)} files into one, offsets "
            f"{self.base_offset} to {self.last_offset}, {self.count} records, {self.size} bytes"
        )
        return "\n".join([head, *(f"  {file.path} ({file.size} bytes)" for file in self.inputs)])
