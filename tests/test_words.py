"""Test the word list of `make check`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import words


def occurrences(text: str, phrase: str) -> list[tuple[int, str]]:
    """Return (line, text) of each occurrence of a phrase."""
    return [(line, hit) for _, _, line, hit in words.found({phrase: ""}, {Path("a.py"): text})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a maker", [(1, "maker")]),
        ("\n# two\n# makers", [(3, "makers")]),
        ("a pacemaker", []),
        ("a_maker", []),
        ("makerspace", []),
    ],
)
def test_phrase_matches_whole_words(text: str, expected: list[tuple[int, str]]) -> None:
    assert occurrences(text, "makers?") == expected


def test_phrase_matches_across_a_line_break() -> None:
    text = "# this is put\n    # off until later\n"
    assert occurrences(text, "put off") == [(1, "put # off")]


def test_names_of_tests_are_read_as_sentences() -> None:
    text = words.with_test_names("\n\ndef test_layer_that_nothing_reads(x: int) -> None:\n    nothing_reads(x)\n")
    assert occurrences(text, "nothing reads") == [(3, "nothing reads")]


def test_tree_contains_no_banned_phrase() -> None:
    texts = {path: words.with_test_names(path.read_text("utf-8").lower()) for path in words.files()}
    found = [f"{p.relative_to(words.ROOT)}:{line}: {hit}" for _, p, line, hit in words.found(words.BANNED, texts)]
    assert not found


def test_docstrings_without_a_verb_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        '''
def good():
    """Return one."""

def fragment():
    """Where the axis is the innermost."""

@property
def noun(self):
    """The number of axes."""
'''
    )
    assert [*words.fragments(path)] == [(5, "Where the axis is the innermost.")]


def test_docstrings_begin_with_a_verb() -> None:
    paths = [path for path in words.files() if path.suffix == ".py"]
    found = [f"{p.relative_to(words.ROOT)}:{line}: {text}" for p in paths for line, text in words.fragments(p)]
    assert not found
