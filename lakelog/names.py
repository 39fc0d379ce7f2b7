"""What a topic may be called, as far as a client must know: a name becomes a part of a path as it is. Pure."""

from __future__ import annotations

import re
from typing import Final

from lakelog.errors import InvalidName

_TOPIC: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")


def check_topic(topic: object) -> None:
    """The server may refuse what passes here."""
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise InvalidName(str(topic))
