"""Binds the address to listen on, before anything else: a server that cannot listen need not open a log."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import resource
import socket
from typing import Final
from urllib.parse import quote

_BACKLOG: Final = 2048


class CannotListen(Exception):
    """The address cannot be used, for the reason in the message."""


def listen(host: str, port: int) -> socket.socket:
    """Make a listening socket; its connections wait until a server accepts them."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"the host {host!r} is not known here: {_reason(error)}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
    except OSError as error:
        listener.close()
        raise CannotListen(_why_not(host, port, error)) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL for programs on this machine."""
    if listener.family == socket.AF_UNIX:
        return f"http+unix://{quote(listener.getsockname(), safe='')}"
    address, port = listener.getsockname()[:2]
    if ipaddress.ip_address(address).is_unspecified:
        address = "::1" if ":" in address else "127.0.0.1"
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """True if no other machine can reach it."""
    if listener.family == socket.AF_UNIX:
        return True
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def allow_open_files(wanted: int) -> None:
    """Raise the limit of open files: connections need them, and a shell's limit is far below the system's."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    if now != resource.RLIM_INFINITY and now < allowed:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def _why_not(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} of {host} is in use by another program; stop it or choose another with --port"
        case errno.EACCES:
            return f"port {port} of {host} may not be used by this user; choose one above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"the host {host} is no address of this machine; choose another with --host, as 0.0.0.0 for all"
        case _:
            return f"port {port} of {host} cannot be used: {_reason(error)}"


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return str(getattr(error, "strerror", None) or error)
