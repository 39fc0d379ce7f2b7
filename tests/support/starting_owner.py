"""A process that opens roots when it is told to, appends three records to each, and one more when it is told to.

It is told by lines of JSON on its standard input, and says on its output what became of each:

    {"open": <place>, "name": <its own there>, "options": {}}
    {"last": true}                                                one record more, and the log is closed
    [{"epoch": 3, "acked": {"a-0": 0}, "why": null}]              `why` is the code of what it was refused for
"""

from __future__ import annotations

import json
import sys
from typing import Any

from delta_log import Log, Record, Settings
from delta_log.model.errors import LakelogError
from tests.support.stopping_owner import report, watched


def append(log: Log, values: list[str]) -> dict[str, Any]:
    acked: dict[str, int] = {}
    why = None
    try:
        for value in values:
            (acked[value],) = log.append("t", [Record(value.encode())]).offsets()
    except LakelogError as error:
        why = error.code
    return {"epoch": log.epoch, "acked": acked, "why": why}


def main() -> None:
    report("ready")
    log, name = None, ""
    for line in sys.stdin:
        told = json.loads(line)
        said: dict[str, Any] = {"epoch": None, "acked": {}, "why": None}
        if "open" in told:
            name = told["name"]
            try:
                log = Log.open(watched(told["open"], told["options"]), settings=Settings(upkeep=False))
                said = append(log, [f"{name}-{number}" for number in range(3)])
            except LakelogError as error:
                log, said["why"] = None, error.code
        elif log is not None:
            said = append(log, [f"last-{log.epoch}"])
            log.close()
        report(said)


if __name__ == "__main__":
    main()
