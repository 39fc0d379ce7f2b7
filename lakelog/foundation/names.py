"""Checks of topic and group names, as far as a client needs them: a name becomes part of a path. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from lakelog.foundation.errors import InvalidGroup, InvalidName

_TOPIC: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,248}")
_MOST_BYTES: Final = 255


def check_topic(topic: object) -> None:
    """Check a topic's name; the server may still refuse it."""
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise InvalidName(str(topic))


def group_segment(group: object) -> str:
    """Quote a group's name as one segment of a path; the server may still refuse it."""
    try:
        size = len(group.encode()) if isinstance(group, str) else 0
    except UnicodeEncodeError:
        size = 0
    if not isinstance(group, str) or not 0 < size <= _MOST_BYTES:
        raise InvalidGroup(group)
    quoted = quote(group, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted  # these are steps in a path
