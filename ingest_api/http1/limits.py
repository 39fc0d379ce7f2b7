"""What a connection may take of us: bytes, fields, seconds. Values alone."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Every bound of the wire. Deadlines are kept to `sweep_s`: none strikes early, each at most two sweeps late."""

    head_bytes: int = 32 * KIB
    """Of one request head: its request line, its fields, its line ends."""
    head_fields: int = 100
    chunk_extra_bytes: int = 8 * KIB
    """Of the extensions and trailers of one chunked body. They are checked and dropped."""

    idle_first_s: float = 20.0
    """Without a byte since the connection was made."""
    head_s: float = 10.0
    """From the first byte of a head to its last, however its bytes drip."""
    body_grace_s: float = 20.0
    """For how long a body may come more slowly than `body_bytes_per_s`, or not at all, while the server reads."""
    body_bytes_per_s: int = 4 * KIB
    """0: any byte will do."""
    body_deadline_s: float = 600.0
    """For all of a body, without the time in which the server did not read."""
    keep_alive_s: float = 75.0
    """Between an answer and the first byte of the next request."""
    write_stall_s: float = 60.0
    """For a reader to take anything of what waits for it."""
    linger_s: float = 2.0
    """For a client to take in a last answer before the connection is closed, while what it still sends is dropped."""

    connections: int = 10_000
    """Open at once. One more is answered 503."""
    unread_bytes: int = 256 * KIB
    """Of a body that waits for the app; above it the socket is not read."""
    ahead_bytes: int = 64 * KIB
    """Of requests that were sent ahead of an answer; above it the socket is not read."""
    unsent_bytes: int = 256 * KIB
    """Of an answer that waits for its reader; above it `send` waits."""
    sweep_s: float = 0.5
    """Between two looks at all deadlines."""
