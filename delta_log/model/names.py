"""Rules for the names of topics and for ids.

Knows the rules for names, and that two topics must differ after case folding and `.` → `_` (they are folders,
and metric labels). Must not know which topics exist: comparing collision keys is the caller's.
"""

from __future__ import annotations

import re
import unicodedata

from delta_log.model.errors import InvalidName

TOPIC_NAME_MAX = 249
ID_BYTES_MAX = 255

_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_INTERNAL = "__"
_RESERVED = frozenset({".", "..", "_delta_log"})
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_topic_name(name: str, *, internal: bool = False) -> None:
    """Refuse a name that cannot be a topic's, or that is an internal topic's unless `internal`."""
    rule = _broken_topic_rule(name, internal=internal)
    if rule is not None:
        raise InvalidName(_shown(name), rule)


def is_internal(name: str) -> bool:
    """True for the name of an internal table."""
    return name.startswith(_INTERNAL)


def collision_key(name: str) -> str:
    """The key by which names collide: two topics with the same key cannot coexist."""
    return name.casefold().replace(".", "_")


def check_id(what: str, text: str) -> None:
    """Refuse `text` if it is no valid id; `what` names its kind ("group id", "member id") in the error."""
    rule = _broken_id_rule(text)
    if rule is not None:
        raise InvalidName(_shown(text), f"a {what} {rule}")


def _broken_topic_rule(name: str, *, internal: bool) -> str | None:
    rules = (
        (
            not 1 <= len(name) <= TOPIC_NAME_MAX,
            f"a topic name has 1 to {TOPIC_NAME_MAX} characters, not {len(name)}",
        ),
        (name in _RESERVED, "this name is reserved"),
        (not _TOPIC.fullmatch(name), "a topic name has only ASCII letters, digits, '.', '_' and '-'"),
        (name.startswith(("-", ".")), "a topic name does not begin with '-' or '.'"),
        (name.endswith("."), "a topic name does not end with '.'"),
        (is_internal(name) and not internal, "names that begin with '__' are internal"),
    )
    return next((rule for broken, rule in rules if broken), None)


def _broken_id_rule(text: str) -> str | None:
    if text.isascii() and text.isprintable() and 1 <= len(text) <= ID_BYTES_MAX:
        return None  # fast path for nearly all
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "cannot hold a lone surrogate: it is not UTF-8"
    if not 1 <= size <= ID_BYTES_MAX:
        return f"has 1 to {ID_BYTES_MAX} bytes of UTF-8, not {size}"
    if _CONTROL.search(text):
        return "has no control characters or line separators"
    if not unicodedata.is_normalized("NFC", text):
        return "is in Unicode normal form C"
    return None


def _shown(text: str) -> str:
    """Shorten a name for an error message: a client may have sent a megabyte."""
    return text if len(text) <= ID_BYTES_MAX else text[:ID_BYTES_MAX] + "…"
