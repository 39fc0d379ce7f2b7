"""What a killed process left unsynced is in the page cache: the next life sees it, and must not rely on it."""

from contextlib import suppress
from pathlib import Path

import pytest

from delta_log import Log, Record
from delta_log.model.errors import LakelogError
from tests.support.ledger import Ledger
from tests.support.logs import crash
from tests.support.powercut import PowerCut
from tests.support.recording_disk import Killed, RecordingDisk
from tests.support.workload import CONFIG, SETTINGS


class DiesBeforeSyncing(RecordingDisk):
    """Killed between giving a file its name and syncing the directory."""

    directory = ""

    def sync_directory(self, path: str) -> None:
        if self.directory and path.endswith(self.directory):
            self.kill_at = len(self.steps)
        super().sync_directory(path)


@pytest.mark.parametrize("directory", ["orders/_delta_log", "orders/partition=0", "journal"])
def test_what_the_next_life_finds_in_a_table_is_durable_before_the_journal_lets_go_of_it(
    tmp_path: Path, directory: str
):
    disk = DiesBeforeSyncing(tmp_path / "root")
    log = Log.open(tmp_path / "root", settings=SETTINGS, disk=disk)
    ids = {topic: log.create_topic(topic, 1, CONFIG).id for topic in ("orders", "clicks")}
    ledger = Ledger(("created", topic, id_) for topic, id_ in ids.items())
    log.append("orders", [Record(b"promised")])
    ledger.take(("acked", "orders", ids["orders"], 0, 0, ["promised"]))
    disk.directory = directory
    with suppress(Killed, LakelogError):
        log.flush("orders")
        log.append("orders", [Record(b"x" * 10_000)])
    assert disk.kill_at is not None
    crash(log)

    disk.directory, disk.kill_at = "", None
    log = Log.open(tmp_path / "root", settings=SETTINGS, disk=disk)
    for number in range(8):
        log.append("clicks", [Record(b"%d" % number * 1500)])
        log.flush("clicks")
    steps = len(disk.steps)
    crash(log)

    cut = PowerCut(disk.steps)
    cut.go_to(steps)
    cut.survivors(tmp_path / "left")
    with Log.open(tmp_path / "left", settings=SETTINGS) as left:
        ledger.check(left)
        assert left.offsets("clicks", 0).end_offset == 8
