"""What this machine does with the same requests without the log: the numbers beside which those of HTTP are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.http_bodies import make_requests
from benchmarks.http_cases import GENERATORS, can_drive, tell_absent
from benchmarks.http_load import MB
from benchmarks.http_pipeline import SPLITTERS, run_body_pipeline, time_decoding
from benchmarks.http_servers import ECHO, ServerProcess
from benchmarks.http_turns import row_of_loads, time_sync
from benchmarks.rows import Row, over_turns
from benchmarks.sizes import Size

_LARGE = 1_000


def run(place: Path, size: Size) -> Iterator[Row]:
    """The rows of the HTTP benchmarks stand beside baselines of their own turns; these are for looking at alone.

    `http.echo`: requests a second that a bare ASGI app on stock uvicorn (httptools, uvloop) answers, sent one record of
    100 bytes as v2's JSON. `http.sync`: a bare write + fdatasync as long as a body. `http.decode`: msgspec decodes the
    JSON of the bodies with its base64, and nothing else. `http.pipeline`: that, hashing, Arrow and parquet; one core.
    """
    yield from tell_absent("http.echo")
    yield from _echoes(place, size)
    for records in (1, 100, _LARGE):
        requests = make_requests("binary", records, 100, keyed=False, most=size.pool)
        times = [time_sync(place / "growing", requests.body_bytes, size.singles) for _ in range(size.turns)]
        yield over_turns(times, "ms", name="http.sync", params={"bytes": requests.body_bytes})
        rates = [time_decoding(requests, size.seconds) for _ in range(size.turns)]
        row = over_turns(rates, "records/s", name="http.decode", params={"records": records})
        row.also["MB/s"] = row.value / records * requests.body_bytes / MB
        yield row
    for form in SPLITTERS:
        for value_bytes, keyed in ((100, False), (100, True), (1_000, False)):
            requests = make_requests(form, _LARGE, value_bytes, keyed=keyed, most=size.pool)
            rates = [run_body_pipeline(requests, form, keyed=keyed, seconds=size.seconds) for _ in range(size.turns)]
            params = {"form": form, "records": _LARGE, "bytes": value_bytes, "keys": keyed}
            yield over_turns(rates, "records/s", name="http.pipeline", params=params)


def _echoes(place: Path, size: Size) -> Iterator[Row]:
    requests = make_requests("binary", 1, 100, keyed=False, most=size.pool)
    with ServerProcess(ECHO, place / "echo.log") as echo:
        for by, drive in GENERATORS.items():
            for connections in size.connections if can_drive(by) else ():
                loads = [
                    drive(f"{echo.url}/echo", requests, connections=connections, seconds=size.seconds)
                    for _ in range(size.turns)
                ]
                params = {"by": by, "connections": connections, "bytes": requests.body_bytes}
                yield row_of_loads("http.echo", params, loads, 1, "requests/s")
