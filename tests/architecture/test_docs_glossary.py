"""docs/glossary.md has each word once, in their order, with one sentence that says what it is."""

import re

import pytest

from tests.architecture.project_files import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)[1:]
WORDS = [word for word, _ in ROWS]


def plain(word: str) -> str:
    return word.replace(",", "")


def test_each_word_stands_there_once_and_in_order():
    assert len(WORDS) >= 60
    assert len(set(WORDS)) == len(WORDS)
    assert sorted(WORDS, key=plain) == WORDS


@pytest.mark.parametrize(("word", "meaning"), ROWS)
def test_a_word_has_one_sentence(word: str, meaning: str):
    assert re.fullmatch(r"[A-Z`][^.]*(\.[^. ][^.]*)*\.", meaning.strip()), word
    assert len(meaning) <= 180, word


@pytest.mark.parametrize("word", re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", PAGE))
def test_a_word_that_another_refers_to_is_there(word: str):
    assert word in WORDS
