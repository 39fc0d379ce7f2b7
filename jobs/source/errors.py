"""Every way in which the source says no.

    SourceError (ValueError)
    ├── InvalidOption     an option that cannot be; nothing was read or stored
    ├── UnknownTopics     what is read or written is not there
    │   └── UnknownPartition
    ├── DataLoss          records that were to be read are gone, and `failOnDataLoss` is true
    └── NotReadable       the server refused, or did not answer in time

Nothing here says it of a server's own errors: their words come through.
"""


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


class NotReadable(SourceError):
    def __init__(self, place: str, what: str, why: str) -> None:
        self.place, self.what, self.why = place, what, why
        super().__init__(f"{what} of {place}: {why}")
