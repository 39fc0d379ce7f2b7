"""The journal, which makes acknowledgements cheap: one protocol, an implementation for each kind of root."""

from delta_log.journal.local import LocalJournal
from delta_log.journal.memory import MemoryJournal
from delta_log.journal.protocol import Journal, Recovered

__all__ = ["Journal", "LocalJournal", "MemoryJournal", "Recovered"]
