"""Transaction ids. Pure.

    <transactional id, base64url>.<epoch>.<nonce>

By its id the outcome of a transaction is known even if nothing of it is kept: one that was begun not too long ago, and
was not committed, was aborted. The nonce has the time of the begin, and distinguishes transactions of the same epoch if
the transactional id was forgotten in between. An id is the right to commit: its 128 random bits prevent guessing.
Ids of earlier versions had 20, and are still accepted.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import Final, NamedTuple

_ID = re.compile(r"([A-Za-z0-9_-]{1,340})\.(0|[1-9][0-9]{0,9})\.([0-9a-f]{16}|[0-9a-f]{43})")


_MOMENTS: Final = 16**11
#: Number of random bits in a nonce.
RANDOM_BITS: Final = 128


class TransactionKey(NamedTuple):
    """The parts of an id. The epoch distinguishes the holders of a transactional id, and each holder's transactions."""

    transactional_id: str
    epoch: int
    nonce: str

    @classmethod
    def fresh(cls, transactional_id: str, epoch: int, begun_ms: int, chance: int) -> TransactionKey:
        """Make a key. `chance`: a random number of RANDOM_BITS bits."""
        return cls(transactional_id, epoch, f"{begun_ms % _MOMENTS:011x}{chance:032x}")

    @property
    def begun_ms(self) -> int:
        return int(self.nonce[:11], 16)

    @property
    def id(self) -> str:
        name = urlsafe_b64encode(self.transactional_id.encode()).rstrip(b"=").decode()
        return f"{name}.{self.epoch}.{self.nonce}"


def parse_id(text: str) -> TransactionKey | None:
    """Parse an id; None if no transaction can have such an id."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    try:
        name = urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)).decode()
    except (Error, UnicodeDecodeError):
        return None
    key = TransactionKey(name, int(found[2]), found[3])
    return key if key.id == text else None
