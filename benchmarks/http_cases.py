"""One case of producing over HTTP: measured against a running server, and checked for what is really stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.http_bodies import make_requests
from benchmarks.http_generator import drive_python
from benchmarks.http_load import HttpLoad, Requests
from benchmarks.http_servers import Asker
from benchmarks.rows import Param, Row
from benchmarks.sizes import Size
from benchmarks.wrk import ABSENT, PROGRAM, drive_wrk

WRK, PYTHON = "wrk", "python"
GENERATORS: Final[Mapping[str, Callable[..., HttpLoad]]] = {WRK: drive_wrk, PYTHON: drive_python}
_OK: Final = 200
_WORTH_A_SECOND: Final = 0.5


@dataclass(frozen=True, slots=True)
class Case:
    form: str
    records: int
    connections: int
    value_bytes: int = 100
    keyed: bool = False
    by: str = WRK

    @property
    def params(self) -> dict[str, Param]:
        return {
            "by": self.by,
            "form": self.form,
            "records": self.records,
            "connections": self.connections,
            "bytes": self.value_bytes,
            "keys": self.keyed,
        }

    @property
    def topic(self) -> str:
        keyed = "keyed" if self.keyed else "bare"
        return f"{self.by}-{self.form}-{self.records}-{self.connections}-{self.value_bytes}-{keyed}"

    def requests(self, size: Size) -> Requests:
        return make_requests(self.form, self.records, self.value_bytes, keyed=self.keyed, most=size.pool)


def can_drive(by: str) -> bool:
    return by != WRK or PROGRAM is not None


def pick_generator(seconds: float) -> str:
    """The one that measures best what lasts so long: wrk knows whole seconds only."""
    return WRK if can_drive(WRK) and seconds >= _WORTH_A_SECOND else PYTHON


def tell_absent(name: str) -> list[Row]:
    """A line instead of the rows that need a generator which is not here."""
    return [] if can_drive(WRK) else [Row(name=name, params={"by": WRK}, value=0, unit="rows", note=ABSENT)]


def measure(url: str, case: Case, requests: Requests, seconds: float) -> HttpLoad:
    """On a topic of its own, which is gone afterwards: the background works for the case that runs."""
    path = f"/topics/{case.topic}"
    with Asker(url) as asker:
        asker.create_topic(case.topic)
        status, body = asker.ask("POST", path + requests.query, requests.bodies[0], requests.headers)
        if status != _OK:
            raise RuntimeError(f"{case}: the server answered {status}: {body[:500]!r}")
        before = asker.settled_count(case.topic)
        if before != case.records:
            raise RuntimeError(f"{case}: {case.records} records were acknowledged, and {before} are stored")
        load = GENERATORS[case.by](url + path, requests, connections=case.connections, seconds=seconds)
        under_way = case.connections if case.by == WRK else 0
        check_stored(case, load, asker.settled_count(case.topic) - before, under_way)
        asker.wait_tabled(case.topic)
        asker.delete_topic(case.topic)
    return load


def check_stored(case: Case, load: HttpLoad, stored: int, under_way: int) -> None:
    """All that was acknowledged, and requests whole; beyond that only what the generator did not wait for."""
    least = load.acknowledged * case.records
    most = least + (under_way + load.refused + load.broken) * case.records
    if not least <= stored <= most or stored % case.records:
        raise RuntimeError(f"{case}: {least} records were acknowledged, at most {most} sent, and {stored} are stored")
