"""Settings of an admin: Kafka's settings under Kafka's names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.foundation.settings import INT32_MAX, SHARED, Setting, Whole, read_settings
from lakelog.transport.backoff import Backoff
from lakelog.transport.retry import Patience

ADMIN_SETTINGS: Final = (
    *SHARED,
    Setting("retries", Whole(0, INT32_MAX), INT32_MAX, "How often a request is sent again."),
    Setting("default.api.timeout.ms", Whole(1, INT32_MAX), 60_000, "How long a call may last, with all its repeats."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """The settings, with underscores in place of dots."""

    bootstrap_servers: str
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    retries: int
    default_api_timeout_ms: int

    @classmethod
    def of(cls, given: Mapping[str, object]) -> AdminSettings:
        return cls(**read_settings(given, ADMIN_SETTINGS))

    @property
    def patience(self) -> Patience:
        backoff = Backoff(self.retry_backoff_ms / 1000, max(self.retry_backoff_ms, self.retry_backoff_max_ms) / 1000)
        total_s, request_s = self.default_api_timeout_ms / 1000, self.request_timeout_ms / 1000
        return Patience(self.bootstrap_servers, total_s, request_s, self.retries, backoff)
