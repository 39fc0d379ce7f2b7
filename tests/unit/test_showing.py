"""What commands show is the same whoever reads it, and gives no orders to a terminal."""

import io
import json

import pytest

from lakelog.cli.kit.arguments import moment_ms
from lakelog.cli.kit.output import as_time, write_csv, write_json, write_rows, write_table, write_thing

NAMES = ["offset", "value"]
ROWS = [(0, b"tea"), (1, b"\xff\x00"), (2, None), (3, "a\nb\x1b[31m\x7f")]


def shown(write: object, *args: object) -> str:
    out = io.StringIO()
    write(*args, out)
    return out.getvalue()


def test_a_table_keeps_each_row_on_its_line_without_orders_for_the_terminal():
    assert shown(write_table, NAMES, ROWS).splitlines() == [
        "offset  value",
        "------  ------------------",
        "0       tea",
        '1       {"base64": "/wA="}',
        "2",
        "3       a b\\x1b[31m\\x7f",
    ]


def test_json_is_an_object_a_line_that_says_the_same_text_whatever_is_in_it():
    lines = [json.loads(line) for line in shown(write_json, NAMES, ROWS).splitlines()]
    assert [line["value"] for line in lines] == ["tea", {"base64": "/wA="}, None, "a\nb\x1b[31m\x7f"]
    assert shown(write_rows, "json", NAMES, ROWS) == shown(write_json, NAMES, ROWS)


def test_no_rows_are_no_lines_of_json_and_a_head_for_people():
    assert shown(write_rows, "json", NAMES, []) == ""
    assert shown(write_rows, "text", NAMES, []).splitlines() == ["offset  value", "------  -----"]
    assert shown(write_csv, NAMES, []) == "offset,value\n"


def test_one_thing_is_its_facts_and_below_them_what_it_has_many_of():
    thing = {"name": "orders", "partitions": [{"partition": 0, "end": 7}], "configs": {"retention.ms": "5"}, "none": []}
    assert json.loads(shown(write_thing, "json", thing)) == thing
    assert shown(write_thing, "text", thing).splitlines() == [
        "name     orders",
        'configs  {"retention.ms": "5"}',
        "none     []",
        "",
        "partitions",
        "",
        "partition  end",
        "---------  ---",
        "0          7",
    ]


@pytest.mark.parametrize("given", ["2026-01-31T12:00:00.250Z", "2026-01-31T13:00:00.250+01:00", "1769860800250"])
def test_a_time_is_read_in_every_form_and_shown_in_one(given: str):
    assert as_time(moment_ms(given)) == "2026-01-31T12:00:00.250Z"
