"""The request of an attempt: path, headers, body. Pure.

A body is encoded once: a retry sends the same bytes under the same number.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lakelog.produce.batch import Payload, Stamp
from lakelog.produce.compression import compressor_of
from lakelog.produce.outbox import Attempt
from lakelog.transport.exchange import Request


class Wire:
    """Builds requests by a producer's settings."""

    def __init__(self, acks: str, compression_type: str) -> None:
        self._query = "?acks=0" if acks == "0" else ""
        self._compress = compressor_of(compression_type)
        self._headers = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
        if self._compress is not None:
            self._headers["Content-Encoding"] = compression_type

    def request(self, attempt: Attempt) -> Request:
        return self.request_of(attempt.topic, attempt.payload, attempt.stamp, attempt.timeout_s)

    def next_epoch(self, stamp: Stamp, timeout_s: float) -> Request:
        """Request that opens the next epoch of the producer."""
        body = msgspec.json.encode({"transactional_id": stamp.producer_id})
        return Request("POST", "/producers", {"Content-Type": "application/json"}, body, timeout_s)

    def request_of(
        self,
        topic: str,
        payload: Payload,
        stamp: Stamp | None,
        timeout_s: float,
        more: Mapping[str, str] | None = None,
    ) -> Request:
        """Request that stores the payload. `more`: further headers."""
        body = payload.encoded
        if body is None:
            body = payload.encode()
            if self._compress is not None:
                body = self._compress(body)
            payload.encoded = body
        headers: Mapping[str, str] = self._headers
        if stamp is not None:
            headers = {
                **headers,
                "Producer-Id": stamp.producer_id,
                "Producer-Epoch": str(stamp.epoch),
                "Producer-Seq": str(stamp.sequence),
            }
        if more is not None:
            headers = {**headers, **more}
        return Request("POST", f"/topics/{topic}{self._query}", headers, body, timeout_s)
