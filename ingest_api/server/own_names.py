"""The names of this machine, as the system and its resolver have them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress


def own_names() -> set[str]:
    """The host name, with and without a domain. Needs no network."""
    name = socket.gethostname()
    return {part for part in (name, name.partition(".")[0]) if part}


def look_up_own_names(learn: Callable[[Iterable[str]], None]) -> None:
    """Call `learn` with the fully qualified name, from a thread.

    A resolver that does not answer takes many seconds; neither a start nor a stop waits for it.
    """

    def look_up() -> None:
        with suppress(OSError, UnicodeError):
            learn({socket.getfqdn()})

    threading.Thread(target=look_up, name="own-name", daemon=True).start()
