"""Every way in which the source says no.

SourceError (ValueError)
├── InvalidOption     an option that cannot be; nothing was read
├── UnknownTopics     what is subscribed to is not there
├── DataLoss          records that were to be read are gone, and `failOnDataLoss` is true
└── NotReadable       the server refused, or did not answer in time
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
