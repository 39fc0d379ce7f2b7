"""Decoders, one for each format, from a body to what the log takes. Pure: bytes in, records or columns out.

They know syntax and shape. Which sizes, times and partitions a topic allows is the log's to say, once for all formats.
All of a request is taken or none of it: a Refusal names every record that is bad.
"""

from __future__ import annotations

from ingest_api.formats.decode.arrow import decode_arrow
from ingest_api.formats.decode.binary import decode_octets
from ingest_api.formats.decode.envelope import decode_envelope
from ingest_api.formats.decode.ndjson import decode_lines

__all__ = ["decode_arrow", "decode_envelope", "decode_lines", "decode_octets"]
