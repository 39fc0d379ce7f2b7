"""Every line of the log reads well on a terminal, is one object for a program, and keeps nobody waiting."""

from __future__ import annotations

import io
import json
import logging
import threading

import pytest

from ingest_api.observe import log_writer as logs
from ingest_api.observe.log_format import JsonLines, TextLines
from ingest_api.observe.log_writer import LogWriter, logging_to
from tests.support.logs import DEADLINE_S, eventually

EXAMPLE = logging.getLogger("lakelog.example")


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is held up for a second may end its work all the same: none of these tests is about that bound."""
    monkeypatch.setattr(logs, "_TO_END_S", DEADLINE_S)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Stuck(io.StringIO):
    """Somebody who does not read on."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.reads_on = threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.reads_on.wait(20)
        return super().write(text)


class Gone(io.StringIO):
    """Somebody who was there once."""

    asked = 0

    def write(self, text: str) -> int:
        self.asked += 1
        raise BrokenPipeError


def record_of(message: str) -> logging.LogRecord:
    return logging.LogRecord("lakelog.example", logging.INFO, "", 0, message, (), None)


def lines_of(stream: io.StringIO, log_format: str = "text", level: str = "info") -> list[str]:
    with logging_to(stream, log_format=log_format, level=level):
        EXAMPLE.debug("hidden")
        EXAMPLE.info("read %d of %s", 5, "orders", extra={"request_id": "r-1"})
        try:
            int("broken\nvalue")
        except ValueError:
            EXAMPLE.exception("failed")
    return stream.getvalue().splitlines()


def test_a_line_for_people_has_time_level_logger_message_and_request_id():
    first, second, *trace = lines_of(io.StringIO())
    assert first[12:] == " INFO    lakelog.example: read 5 of orders [r-1]"
    assert first[2] == first[5] == ":"
    assert second.endswith("ERROR   lakelog.example: failed")
    assert trace[0].startswith("Traceback")
    assert trace[-1].startswith("ValueError: ")


def test_a_line_for_programs_is_one_object_with_the_trace_as_a_field():
    first, second = map(json.loads, lines_of(io.StringIO(), "json"))
    assert first.pop("time").endswith("Z")
    assert first == {"level": "info", "logger": "lakelog.example", "message": "read 5 of orders", "request_id": "r-1"}
    assert second["level"] == "error"
    assert second["exception"].splitlines()[-1].startswith("ValueError: ")


def test_facts_of_a_line_are_fields_and_cannot_take_the_place_of_ours():
    stream = io.StringIO()
    with logging_to(stream, log_format="json", level="info"):
        EXAMPLE.info("answered", extra={"facts": {"status": 200, "level": "forged"}})
    line = json.loads(stream.getvalue())
    assert (line["status"], line["level"]) == (200, "info")


@pytest.mark.parametrize(("stream", "is_json"), [(Terminal(), False), (io.StringIO(), True)])
def test_auto_is_for_people_on_a_terminal_and_for_programs_elsewhere(stream: io.StringIO, *, is_json: bool):
    assert lines_of(stream, "auto")[0].startswith("{") == is_json


def test_what_a_client_sent_makes_no_line_of_its_own_and_does_not_speak_to_the_terminal():
    record = record_of("a\r\n12:00 ERROR forged\x1b[2J")
    assert TextLines().format(record).endswith(r": a\r\n12:00 ERROR forged\x1b[2J")
    assert "\n" not in JsonLines().format(record)


def test_debug_is_written_when_it_is_asked_for():
    assert any("hidden" in line for line in lines_of(io.StringIO(), level="debug"))


def test_the_loggers_of_the_server_below_speak_through_it_but_only_of_trouble():
    stream = io.StringIO()
    with logging_to(stream, log_format="text", level="info"):
        logging.getLogger("uvicorn.error").info("Started")
        logging.getLogger("uvicorn.error").error("Trouble")
    assert "Trouble" in stream.getvalue()
    assert "Started" not in stream.getvalue()


def test_afterwards_logging_is_as_it_was():
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    lines_of(io.StringIO())
    assert (root.handlers, root.level) == before
    assert not any(thread.name == "lakelog-logs" for thread in threading.enumerate())


def test_a_message_that_cannot_be_worded_harms_nobody():
    stream = io.StringIO()
    with logging_to(stream, log_format="json", level="info"):
        EXAMPLE.info("%d", "no number")
        EXAMPLE.info("\ud800")
        EXAMPLE.info("the next one")
    assert stream.getvalue().count("could not be put into words") == 2
    assert "the next one" in stream.getvalue()


def test_who_does_not_read_the_log_keeps_nobody_waiting_and_is_told_what_was_left_out():
    stream = Stuck()
    writer = LogWriter(stream, TextLines(), most_waiting=10)
    writer.handle(record_of("first"))
    assert stream.entered.wait(20)
    for number in range(15):
        writer.handle(record_of(f"line {number}"))
    stream.reads_on.set()
    eventually(lambda: "5 lines of the log were left out" in stream.getvalue(), "the count")
    writer.close()
    assert "line 9" in stream.getvalue()
    assert "line 10" not in stream.getvalue()


def test_a_reader_who_is_gone_does_not_end_the_writer():
    stream = Gone()
    writer = LogWriter(stream, TextLines())
    writer.handle(record_of("nobody reads this"))
    eventually(lambda: stream.asked == 1, "the first line")
    writer.handle(record_of("nor this"))
    eventually(lambda: stream.asked == 2, "the second line")
    writer.close()
