"""Decoders, one for each format, from a body to the input of the log. Pure: bytes in, records or columns out.

They know syntax and shape. The log checks the sizes, times and partitions that a topic allows, for all formats. A
request is accepted whole or not at all: a Refusal names every bad record.
"""

from __future__ import annotations

from ingest_api.formats.decode.arrow import decode_arrow
from ingest_api.formats.decode.binary import decode_octets
from ingest_api.formats.decode.envelope import decode_envelope
from ingest_api.formats.decode.ndjson import decode_lines

__all__ = ["decode_arrow", "decode_envelope", "decode_lines", "decode_octets"]
