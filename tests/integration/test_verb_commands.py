"""`lakelog check`, `repair`, `backup` and `restore` as processes, on roots that are sound, damaged, in use, or none."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_log import Log
from lakelog import Admin, Producer
from lakelog.cli.kit.exit_codes import (
    ABSENT,
    CALLED_WRONGLY,
    IN_THE_WAY,
    INTERRUPTED,
    NOBODY_READS,
    NOT_AS_IT_SHOULD_BE,
    NOT_NOW,
    WRONG_ROOT,
)
from tests.support import damaged_roots as roots
from tests.support.commands import (
    call_at_terminal,
    call_lakelog,
    call_main,
    call_without_reader,
    calling_lakelog,
    end,
)
from tests.support.serving import serving, wait_for


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Died with a journal that has more than its tables."""
    return roots.make_dead_root(tmp_path_factory.mktemp("sound") / "root")


@pytest.fixture(scope="module")
def _damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a data file that the journal can give back."""
    root = roots.make_dead_root(tmp_path_factory.mktemp("damaged") / "root")
    roots.flip(roots.topic_files(root)[1])
    return root


@pytest.fixture
def damaged(_damaged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_damaged, tmp_path / "root"))


def test_a_sound_root_is_told_as_such_for_people_and_programs(sound: Path):
    before = roots.content_of(sound)
    done = call_lakelog("check", "--data", sound)
    assert (done.code, done.err) == (0, "")
    plan, verdict = done.out.splitlines()
    assert plan.startswith("plan: read ")
    assert verdict.startswith(f"{sound}: sound; 3 tables, ")
    said = call_lakelog("check", "--output", "json", env={"LAKELOG_DATA": str(sound)}).said
    assert (said["root"], said["sound"], said["tables"], said["findings"]) == (str(sound), True, 3, [])
    planned = call_lakelog("check", "--data", sound, "--dry-run")
    assert (planned.code, planned.out.splitlines()) == (0, [plan])
    assert roots.content_of(sound) == before


def test_damage_is_named_and_has_an_exit_code(damaged: Path):
    file = roots.topic_files(damaged)[1].name
    done = call_lakelog("check", "--data", damaged, "--output", "json")
    assert done.code == NOT_AS_IT_SHOULD_BE
    assert [(each["severity"], Path(each["place"]).name) for each in done.said["findings"]] == [("damage", file)]
    assert call_without_reader("check", "--data", damaged) == (NOBODY_READS, "", "")


def test_a_repair_shows_its_plan_and_does_it_only_when_told_to(damaged: Path):
    before = roots.content_of(damaged)
    planned = call_lakelog("repair", "--data", damaged, "--dry-run")
    assert planned.code == 0
    plan = planned.out.splitlines()[0]
    assert plan.startswith("plan: topics/orders/partition=0/")
    refused = call_lakelog("repair", "--data", damaged)
    assert (refused.code, refused.out.splitlines()) == (CALLED_WRONGLY, [plan])
    assert refused.failure == "lakelog repair: nothing was done; say --yes to have this plan carried out"
    assert roots.content_of(damaged) == before
    done = call_lakelog("repair", "--data", damaged, "--yes", "--output", "json")
    assert (done.code, done.said["sound"], done.said["left"], len(done.said["cures"])) == (0, True, [], 1)
    assert done.err.splitlines() == [plan]
    assert roots.values(damaged) == roots.expected()


def test_at_a_terminal_a_repair_asks(damaged: Path):
    before = roots.content_of(damaged)
    question = "Carry this out? [y/N] "
    assert call_at_terminal("repair", "--data", damaged, asked=question, answer=signal.SIGINT).code == INTERRUPTED
    no = call_at_terminal("repair", "--data", damaged, asked=question, answer="\n")
    assert (no.code, "nothing was done" in no.out) == (CALLED_WRONGLY, True)
    assert roots.content_of(damaged) == before
    yes = call_at_terminal("repair", "--data", damaged, asked=question, answer="y\n")
    assert (yes.code, "did 1 cure; 0 things are left" in yes.out) == (0, True)
    assert roots.values(damaged) == roots.expected()


def test_what_no_cure_is_for_is_left_and_can_be_given_up(tmp_path: Path):
    root = roots.make_dead_root(tmp_path / "root", journal=False)
    roots.remove(roots.topic_files(root)[1])
    left = call_main("repair", "--data", root)
    assert left.code == NOT_AS_IT_SHOULD_BE
    assert "not cured: " in left.out
    wrong = call_main("repair", "--data", root, "--give-up", "orders:0:8")
    assert wrong.code == CALLED_WRONGLY
    assert "write it as orders:0:8-15" in wrong.failure
    done = call_main("repair", "--data", root, "--give-up", "orders:0:8-15", "--yes")
    assert (done.code, done.err) == (0, "")
    assert roots.values(root) == [*roots.expected()[:8], *roots.expected()[16:]]


def test_a_backup_of_a_running_server_is_restored_and_sound(tmp_path: Path):
    """The server says where its root is; what only its journal has is in the copy, too."""
    root, copy, restored = tmp_path / "root", tmp_path / "copy", tmp_path / "restored"
    with serving(root, topic_defaults={"lakelog.commit.interval.ms": 3_600_000}) as server:
        settings = {"bootstrap.servers": server.url}
        with Admin(settings) as admin, Producer(settings) as producer:
            admin.create_topic("orders", partitions=1)
            for number in range(10):
                producer.send("orders", b"%d" % number).result()
        planned = call_lakelog("backup", copy, "--server", server.url, "--dry-run")
        assert (planned.code, copy.exists()) == (0, False)
        done = call_lakelog("backup", copy, "--server", server.url, "--output", "json")
        assert (done.code, done.said["complete"]) == (0, True)
        tables = {each["table"]: each for each in done.said["tables"]}
        assert (tables["orders"]["start_offsets"], tables["orders"]["end_offsets"]) == ([0], [10])
        assert call_lakelog("check", "--server", server.url).code == 0
        asked = call_lakelog("repair", "--server", server.url, "--yes")
        assert asked.code == NOT_NOW
        assert asked.failure.endswith("; stop that process, or ask it")
        server.kill()
        gone = call_lakelog("check", env={"LAKELOG_SERVER": server.url})
        assert gone.code == NOT_NOW
        assert "does not answer" in gone.failure
    done = call_lakelog("restore", copy, cwd=tmp_path, env={"LAKELOG_DATA": str(restored)})
    assert (done.code, done.err) == (0, "")
    assert f"{copy} copied to {restored}" in done.out
    assert call_main("check", "--data", restored).code == 0
    with Log.open(restored) as log:
        assert roots.read_values(log) == [b"%d" % number for number in range(10)]


def test_a_copy_says_before_how_much_it_is_and_once_behind_it_what_is_in_it(sound: Path, tmp_path: Path):
    copy, restored = tmp_path / "copy", tmp_path / "restored"
    for words in (("backup", copy, "--data", sound), ("restore", copy, "--data", restored)):
        planned = call_main(*words, "--dry-run").out.splitlines()
        plan, *tables, copied = call_main(*words).out.splitlines()
        assert planned[-1] == plan
        assert plan.removeprefix("plan: ") == copied.replace(" copied to ", " would be copied to ")
        assert [line.removeprefix("plan: ") for line in planned[:-1]] == tables
        assert [line.partition(":")[0] for line in tables] == ["__producers", "__readers", "orders"]


def test_what_is_there_is_never_replaced_by_a_copy(sound: Path, tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    assert call_main("backup", tmp_path / "copy", "--data", sound).code == 0
    for words, says in (
        (("backup", tmp_path / "full", "--data", sound), "is not empty, and no backup; name an empty place"),
        (("restore", tmp_path / "copy", "--data", tmp_path / "full"), "is not empty, and no backup; name a backup"),
        (("restore", tmp_path / "copy", "--data", sound), "holds a root already, and none is replaced; name a backup"),
        (("restore", sound, "--data", tmp_path / "new"), "is a root, and no backup that `lakelog backup` made; name a"),
    ):
        refused = call_main(*words)
        assert (refused.code, refused.out) == (IN_THE_WAY, "")
        assert says in refused.failure
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
    assert not (tmp_path / "new").exists()


def test_a_copy_that_lacks_something_says_so(damaged: Path, tmp_path: Path):
    roots.empty(roots.entries(damaged)[-1])
    done = call_main("backup", tmp_path / "copy", "--data", damaged)
    assert done.code == NOT_AS_IT_SHOULD_BE
    assert "not in it: orders: " in done.out


def test_places_without_a_root_are_told_what_to_do(sound: Path, tmp_path: Path):
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "lakelog.json").write_text(json.dumps({"cluster_id": "x", "format": 99}))
    for words, code, says in (
        (
            ("check", "--data", tmp_path / "absent"),
            WRONG_ROOT,
            "it has no lakelog.json; name another place with --data",
        ),
        (("backup", tmp_path / "copy", "--data", newer), WRONG_ROOT, "newer than this version, which knows 1: install"),
        (("restore", tmp_path / "absent", "--data", tmp_path / "copy"), WRONG_ROOT, "no lakelog.json; name a backup"),
        (("repair", "--data", "ftp://somewhere"), WRONG_ROOT, "not on ftp://; name another place with --data ROOT"),
        (
            ("check", "--data", sound, "--server", "http://x"),
            CALLED_WRONGLY,
            "both --data and --server are given; name",
        ),
    ):
        done = call_main(*words)
        assert (done.code, done.out) == (code, "")
        assert says in done.failure
    assert not (tmp_path / "copy").exists()


def test_a_server_whose_root_is_elsewhere_or_in_memory_is_told_from_one_that_is_here(sound: Path, tmp_path: Path):
    with serving(None) as server:
        done = call_main("check", "--server", server.url)
        assert done.code == WRONG_ROOT
        assert "keeps its log in memory, where nobody else can read it; ask it by" in done.failure
    with serving(tmp_path / "root") as server:
        (tmp_path / "root").rename(tmp_path / "moved")
        done = call_lakelog("check", "--server", server.url)
        assert done.code == WRONG_ROOT
        assert (
            f"has its root at {tmp_path / 'root'}, which from here is another place: it has no lakelog.json; run"
            in (done.failure)
        )
        shutil.copytree(sound, tmp_path / "root")
        done = call_main("check", "--server", server.url)
        assert (done.code, "what is there is cluster " in done.failure) == (WRONG_ROOT, True)
        roots.cut(tmp_path / "root" / "lakelog.json")
        done = call_main("check", "--server", server.url)
        assert (done.code, "damage: lakelog.json: it cannot be read" in done.out) == (NOT_AS_IT_SHOULD_BE, True)
        server.kill()


def test_an_exported_table_is_everybody_s_and_no_topic(sound: Path, tmp_path: Path):
    root = Path(shutil.copytree(sound, tmp_path / "root"))
    before = roots.content_of(root)
    refused = call_lakelog("topics", "export", "orders", "--data", root)
    assert (refused.code, refused.failure.rpartition("; ")[2]) == (2, "say --yes to have this plan carried out")
    assert refused.out.startswith("plan: bring 8 records from the journal into ")
    assert call_main("topics", "export", "orders", "--data", root, "--dry-run").out.startswith(refused.out)
    assert call_main("topics", "export", "absent", "--data", root).code == ABSENT
    with Log.open(tmp_path / "used") as log:
        log.create_topic("orders")
        assert call_main("topics", "export", "orders", "--data", tmp_path / "used", "--yes").code == NOT_NOW
    assert roots.content_of(root) == before
    done = call_main("topics", "export", "orders", "--data", root, "--yes", "--output", "json")
    assert (done.code, done.said["already"], done.said["location"]) == (0, False, f"{root}/topics/orders")
    DeltaTable(done.said["location"]).delete("value = X'303030303030'")
    assert DeltaTable(done.said["location"]).to_pyarrow_table().num_rows == len(roots.expected()) - 1
    again = call_main("topics", "export", "orders", "--data", root)
    assert (again.code, "it was exported before; nothing to do" in again.out) == (0, True)


@pytest.mark.parametrize("words", [("check",), ("sql", "SELECT 1")], ids=["check", "sql"])
def test_ctrl_c_ends_a_command_that_waits_for_a_server(words: tuple[str, ...]):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with calling_lakelog(*words, "--server", url) as process:
            connection, _ = silent.accept()
            assert wait_for(lambda: connection.recv(4096), "a request")
            assert end(process, signal.SIGINT) == (INTERRUPTED, "", "")
            connection.close()
