"""kill -9 of a process that keeps a ledger: every promise holds, and no unit is there by half."""

import textwrap
from itertools import repeat
from pathlib import Path

import pytest

from delta_log import Log, Settings
from tests.support import marking_worker
from tests.support.keyed_rows import READERS_OF_DELTA, TABLES, is_table, state
from tests.support.killing import Worker
from tests.support.logs import values_of
from tests.support.marking import check_turns

SETTINGS = Settings(upkeep=False, segment_bytes=64 * 1024)
#: How often each is come to before the process dies there; history begins to go after a hundred commits.
STEPS = {
    "journal.written": 30,
    "journal.synced": 60,
    "journal.released": 1,
    "table.file_written": 5,
    "table.files_written": 6,
    "table.committed": 7,
    "fold.file_written": 3,
    "fold.committed": 3,
    "checkpoint.written": 2,
    "cleanup.files_deleted": 330,
    "cleanup.entry_deleted": 4,
}
#: What a first life makes before anything else: at this hit of `store.staged` a table has a directory and no entry yet.
MADE = {"t": 3, "__marks": 4, "__readers": 5}


class Promises:
    """All that were reported, life after life."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        self.records: dict[int, int] = {}

    def run(self, root: Path, *, worker: Path = Path(marking_worker.__file__), **how: object) -> None:
        step, hit = str(how.get("step", "-")), int(str(how.get("hit", 1)))
        process = Worker(root, 0, step=step, hit=hit, worker=worker)
        kill_after = how.get("kill_after")
        for kind, *said in process.run(kill_after=None if kill_after is None else int(str(kill_after))):
            if kind == "kept":
                self.turns[said[0]] = max(said[1], self.turns.get(said[0], 0))
            else:
                self.records[said[0]] = said[1]
        assert process.was_killed, process.story

    def check(self, root: Path) -> None:
        """Open what is left, once as it is, and once more after it was closed; then as others read it."""
        for _ in range(2):
            with Log.open(root, settings=SETTINGS) as log:
                ledger = log.open_ledger(TABLES)
                self.turns = check_turns(ledger, self.turns)
                values = [int(value or b"-1") for value in values_of(log, "t")] if "t" in log.topics() else []
                assert values == list(range(len(values)))
                assert {offset: values[offset] for offset in self.records if offset < len(values)} == self.records
                found = state(ledger)
        for table in TABLES:
            location = root / "topics" / table.name
            assert is_table(location) or not found[table.name]
            for by in READERS_OF_DELTA.values() if is_table(location) else ():
                assert by(str(location), table) == found[table.name]


def test_what_was_promised_survives_kills_at_random_moments(tmp_path: Path):
    """Three of them, and more where not all of the threads have had their turns by then."""
    promises = Promises()

    def fewest() -> int:
        return min(*(promises.turns.get(name, 0) for name in ("one", "two", "loop")), len(promises.records))

    for number, kill_after in enumerate((300, 777, 150, *repeat(300, 10))):
        if number < 3 or fewest() <= 20:
            promises.run(tmp_path / "root", kill_after=kill_after)
            promises.check(tmp_path / "root")
    assert fewest() > 20


def test_what_was_promised_survives_kills_in_a_row_that_nobody_looks_after(tmp_path: Path):
    promises = Promises()
    for kill_after in (200, 20, 3, 100):
        promises.run(tmp_path / "root", kill_after=kill_after)
    promises.check(tmp_path / "root")


@pytest.mark.parametrize("step", STEPS)
def test_what_was_promised_survives_a_kill_at(tmp_path: Path, step: str):
    promises = Promises()
    promises.run(tmp_path / "root", step=step, hit=STEPS[step])
    promises.check(tmp_path / "root")


@pytest.mark.parametrize("table", MADE)
def test_a_kill_while_a_table_is_made_leaves_none_for_anybody_and_the_next_life_makes_it(tmp_path: Path, table: str):
    root, promises = tmp_path / "root", Promises()
    promises.run(root, step="store.staged", hit=MADE[table])
    assert (root / "topics" / table / "_delta_log").is_dir()
    assert not is_table(root / "topics" / table)
    promises.check(root)
    promises.run(root, kill_after=50)
    promises.check(root)
    assert promises.turns["first"] == 1
    assert is_table(root / "topics" / table)


#: What the journal loses shows as long as no table has it: none is brought up to date.
ONLY_JOURNALED = """
        def operate(worker):
            hold_tables(worker.log)
            worker._permits.release(1_000_000)
        marking_worker.Worker.operate = operate
        """
BROKEN = {
    "half of a unit": ONLY_JOURNALED
    + """
        def append(journal, frames, payloads, real=LocalJournal.append):
            cut = len(frames) - (len(frames) > 1)
            places = real(journal, frames[:cut], payloads[:cut])
            return places + places[:1] * (len(frames) - cut)
        LocalJournal.append = append
        """,
    "an acknowledgement before the write": ONLY_JOURNALED
    + """
        def write(journal, position, parts, real=LocalJournal._write):
            kept.append((position, list(parts)))
            if len(kept) > 10:
                real(journal, *kept.pop(0))
        LocalJournal._write = write
        """,
    "tombstones that go too early": """
        def surviving(codec, rows, *, whole, real=RowCodec.surviving):
            return real(codec, rows, whole=True)
        RowCodec.surviving = surviving
        """,
    "a compaction that forgets rows": """
        def surviving(codec, rows, *, whole, real=RowCodec.surviving):
            return real(codec, rows.slice(rows.num_rows // 4), whole=whole)
        RowCodec.surviving = surviving
        """,
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_kill_shows_the_loss_where_the_log_makes(tmp_path: Path, broken: str):
    script = tmp_path / "broken_worker.py"
    script.write_text(
        "import sys\n"
        "from delta_log.journal.local import LocalJournal\n"
        "from delta_log.records.keyed_table import RowCodec\n"
        "from tests.support import marking_worker\n"
        "from tests.support.logs import hold_tables\n"
        "kept = []\n" + textwrap.dedent(BROKEN[broken]) + "marking_worker.main(*sys.argv[1:])\n"
    )
    promises = Promises()
    how = {"step": "fold.committed", "hit": 20} if "RowCodec" in BROKEN[broken] else {"kill_after": 400}
    promises.run(tmp_path / "root", worker=script, **how)
    with pytest.raises(AssertionError):
        promises.check(tmp_path / "root")
