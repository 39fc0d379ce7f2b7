"""The parameters of paths. An invalid one names nothing that exists: 404, not 422. Pure."""

from __future__ import annotations

from urllib.parse import quote

from delta_log.model.quoting import quoted as shown
from ingest_api.web.errors import UNKNOWN_PARTITION, Refusal
from ingest_api.web.request import Call
from ingest_api.web.route_spec import PATH_KINDS


def read_partition(call: Call) -> int:
    text = call.path["partition"]
    partition = PATH_KINDS["partition"][0].parse(text)
    if partition is None:
        raise Refusal(404, f"{call.path['topic']} has no partition {shown(text, 32)}", code=UNKNOWN_PARTITION)
    return partition


def segment(name: str) -> str:
    """Quote a name as one part of a path; a client would resolve plain `.` and `..` as steps."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted
