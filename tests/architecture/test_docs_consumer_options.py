"""The page about the HTTP API has every option of a consumer, with its default, and no other."""

from __future__ import annotations

import re

from consumer_groups.model.options import OPTIONS, SPELLINGS, Option
from tests.architecture.project_files import ROOT

PAGE = ROOT / "docs" / "reference" / "http-api.md"


def shown(option: Option) -> str:
    default = option.default
    if option.name == "name":
        return "a new one"
    if default is None:
        return "none"
    if isinstance(default, tuple):
        return f"`{','.join(default)}`"
    return f"`{str(default).lower()}`"


def read_section() -> str:
    return PAGE.read_text(encoding="utf-8").partition("\n## Consumer instances\n")[2].partition("\n## ")[0]


def test_every_other_spelling_is_told():
    section = " ".join(read_section().split())
    assert SPELLINGS
    for other, name in SPELLINGS.items():
        assert f"`{other}`, as Kafka and Strimzi's bridge spell it, is `{name}`" in section


def test_every_option_has_a_row_with_its_default_and_what_it_says():
    section = read_section()
    rows = re.findall(r"^\| `([a-z.]+)` \| (.+?) \| (\S.*) \|$", section, re.MULTILINE)
    assert [(name, default) for name, default, _ in rows] == [(each.name, shown(each)) for each in OPTIONS.values()]
