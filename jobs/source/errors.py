"""Every way in which the source says no.

    SourceError (ValueError)
    ├── InvalidOption     an option that cannot be; nothing was read or stored
    ├── UnknownTopics     what is read or written is not there
    │   └── UnknownPartition
    ├── DataLoss          records that were to be read are gone, and `failOnDataLoss` is true
    ├── NotReadable       the server refused, or did not answer in time
    └── NotDecided        a batch that was to be stored once cannot be, and is not stored

Nothing here says it of a server's own errors: their words come through.
"""

from collections.abc import Mapping
from typing import Any


class SourceError(ValueError):
    """The root of the tree."""


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
    """Spark runs the batch again when the query is started again."""


class NotReadable(SourceError):
    """`status` is that of an answer, and None where there was none; `facts` are what it says besides."""

    def __init__(
        self, place: str, what: str, why: str, status: int | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        self.place, self.what, self.why, self.status, self.facts = place, what, why, status, facts or {}
        super().__init__(f"{what} of {place}: {why}")

    @property
    def code(self) -> int | None:
        """The server's own, which says more than the status."""
        return self.facts.get("error_code")
