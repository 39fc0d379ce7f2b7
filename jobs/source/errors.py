"""Errors of the source.

    SourceError (ValueError)
    ├── InvalidOption     an invalid option; nothing was read or stored
    ├── UnknownTopics     a topic to read or write does not exist
    │   └── UnknownPartition
    ├── DataLoss          records to read are gone, and `failOnDataLoss` is true
    ├── NotReadable       the server refused, or did not answer in time
    └── NotDecided        a batch cannot be stored exactly once, and is not stored

Messages of a server's own errors are passed on unchanged.
"""

from collections.abc import Mapping
from typing import Any


class SourceError(ValueError):
    """Base of all errors of the source."""


class InvalidOption(SourceError):
    def __init__(self, option: str, why: str) -> None:
        self.option, self.why = option, why
        super().__init__(f"option {option}: {why}")


class UnknownTopics(SourceError):
    def __init__(self, topics: list[str], place: str) -> None:
        self.topics, self.place = topics, place
        named = ", ".join(repr(topic) for topic in topics)
        super().__init__(f"there is no topic {named} in {place}")


class UnknownPartition(UnknownTopics):
    def __init__(self, topic: str, place: str, why: str) -> None:
        SourceError.__init__(self, f"{why}, in {place}")
        self.topics, self.place = [topic], place


class DataLoss(SourceError):
    def __init__(self, losses: list[str]) -> None:
        self.losses = losses
        super().__init__(
            f"records that were to be read are gone: {'; '.join(losses)}. With failOnDataLoss=false the query goes on "
            "at the first record that is there"
        )


class NotDecided(SourceError):
    """The batch is not stored; Spark runs it again when the query is restarted."""


class NotReadable(SourceError):
    """A refusal by the server, or no answer. `status`: of the answer, None without one; `facts`: its JSON body."""

    def __init__(
        self, place: str, what: str, why: str, status: int | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        self.place, self.what, self.why, self.status, self.facts = place, what, why, status, facts or {}
        super().__init__(f"{what} of {place}: {why}")

    @property
    def code(self) -> int | None:
        """The server's own error code, more specific than the status."""
        return self.facts.get("error_code")
