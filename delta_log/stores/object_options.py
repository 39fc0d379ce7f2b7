"""Options of an object store, and their names. Pure.

    --store-option aws_endpoint=http://127.0.0.1:9000 --store-option aws_allow_http=true

The names are those of obstore: the stores' own environment variables in lower case; options not given here are taken
from the environment. delta-rs uses the same names, so one mapping serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from delta_log.model.errors import InvalidConfig

SCHEMES: Final = {"s3": "aws_", "gs": "google_", "az": "azure_"}
#: Options of the connection, not of the store.
_OF_CLIENT: Final = frozenset((
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url",
    "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
))  # fmt: skip
_FLAGS: Final = frozenset((
    "allow_http", "allow_invalid_certificates", "http1_only", "http2_only", "randomize_addresses"
))  # fmt: skip
_YES: Final = ("true", "1", "yes", "on")
_NO: Final = ("false", "0", "no", "off")


def split_options(scheme: str, options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Split options into those of the store, and those of the connection to it."""
    prefix = SCHEMES[scheme]
    of_store: dict[str, str] = {}
    of_client: dict[str, Any] = {}
    for name, value in options.items():
        key = name.lower()
        bare = key.removeprefix(prefix)
        if bare in _OF_CLIENT:
            of_client[bare] = _flag(key, value) if bare in _FLAGS else value
        else:
            of_store[key] = value
    return of_store, of_client


def variables_of_client(scheme: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Connection options from the environment, where obstore itself reads only the store's options."""
    prefix = SCHEMES[scheme]
    known = ((name.lower(), value) for name, value in environment.items())
    return {name: value for name, value in known if name.startswith(prefix) and name.removeprefix(prefix) in _OF_CLIENT}


def _flag(name: str, value: str) -> bool:
    if value.lower() in _YES:
        return True
    if value.lower() in _NO:
        return False
    raise InvalidConfig(name, value, "it is true or false")
