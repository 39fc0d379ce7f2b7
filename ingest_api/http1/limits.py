"""Limits of a connection: bytes, fields, seconds. Values alone."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class WireLimits:
    """The limits of connections. Deadlines are checked every `sweep_s`: none early, each at most two sweeps late."""

    head_bytes: int = 32 * KIB
    """Of one request head: its request line, its fields, its line ends."""
    head_fields: int = 100
    chunk_extra_bytes: int = 8 * KIB
    """Of the extensions and trailers of one chunked body. They are checked and dropped."""

    idle_first_s: float = 20.0
    """Without a byte since the connection was made."""
    head_s: float = 10.0
    """From the first byte of a head to its last, however slowly its bytes arrive."""
    body_grace_s: float = 20.0
    """Time for which a body may arrive more slowly than `body_bytes_per_s`, or not at all, while the server reads."""
    body_bytes_per_s: int = 4 * KIB
    """0: any byte is fast enough."""
    body_deadline_s: float = 600.0
    """For a whole body, not counting the time in which the server did not read."""
    keep_alive_s: float = 75.0
    """Between an answer and the first byte of the next request."""
    write_stall_s: float = 60.0
    """For a client to take any of the unsent bytes."""
    linger_s: float = 2.0
    """For a client to read a last answer before the connection is closed; bytes that it still sends are dropped."""

    connections: int = 10_000
    """Open at once. Further ones are answered 503."""
    unread_bytes: int = 256 * KIB
    """Of a body that waits for the app; above it the socket is not read."""
    ahead_bytes: int = 64 * KIB
    """Of requests that were sent ahead of an answer; above it the socket is not read."""
    unsent_bytes: int = 256 * KIB
    """Of an answer that its client has not taken; above it `send` waits."""
    sweep_s: float = 0.5
    """Between two checks of all deadlines."""
