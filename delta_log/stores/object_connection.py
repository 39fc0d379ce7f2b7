"""Connects obstore to a bucket, from a URL, options, and environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from obstore.exceptions import BaseError
from obstore.store import from_url

from delta_log.model.errors import InvalidConfig
from delta_log.stores.object_options import split_options, variables_of_client

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0


def connect(scheme: str, url: str, options: Mapping[str, str], *, retries: int, retry_s: float) -> Any:
    of_store, of_client = split_options(scheme, variables_of_client(scheme, os.environ) | dict(options))
    retry: Any = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=retry_s),
        "backoff": {
            "init_backoff": timedelta(seconds=FIRST_PAUSE_S),
            "max_backoff": timedelta(seconds=LONGEST_PAUSE_S),
            "base": 2,
        },
    }
    open_url: Any = from_url
    try:
        return open_url(url, config=of_store or None, client_options=of_client or None, retry_config=retry)
    except (BaseError, OSError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise InvalidConfig(
            "store_option", sorted([*of_store, *of_client]), f"{url} cannot be opened: {why}"
        ) from error
