"""The journal, which makes an acknowledgement cheap: one protocol, an implementation for each kind of place."""

from delta_log.journal.local import LocalJournal
from delta_log.journal.memory import MemoryJournal
from delta_log.journal.protocol import Journal, Recovered

__all__ = ["Journal", "LocalJournal", "MemoryJournal", "Recovered"]
