"""What cannot be used is refused at once, in words."""

from pathlib import Path

import pytest

from delta_log import Log, Record, Settings
from delta_log.model.errors import InvalidConfig, InvalidRecord, InvalidRequest, NotARoot


def test_a_kind_of_place_that_is_not_known_is_no_directory_of_that_name(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotARoot, match="not on ftp"):
        Log.open("ftp://somewhere/else")
    assert not list(tmp_path.iterdir())


def test_topic_defaults_are_checked_before_anything_is_opened(tmp_path: Path):
    with pytest.raises(InvalidConfig, match=r"retention\.mss"):
        Log.open(tmp_path / "root", settings=Settings(topic_defaults={"retention.mss": 1}))
    assert not (tmp_path / "root").exists()


def test_one_record_is_not_a_request():
    with Log.open("memory://") as log:
        log.create_topic("t")
        with pytest.raises(InvalidRecord, match="a sequence of records"):
            log.append("t", Record(b"alone"))  # pyright: ignore[reportArgumentType]
        assert log.offsets("t", 0).end_offset == 0


def test_a_column_that_is_not_there_is_named():
    with Log.open("memory://") as log:
        log.create_topic("t")
        log.append("t", [Record(b"v")])
        with pytest.raises(InvalidRequest, match="valu"):
            log.read("t", 0, 0, columns=("valu",))
