"""Identifiers and comments from untrusted text."""

from __future__ import annotations

import keyword
from pathlib import Path

import pytest

from anylayer.generators._names import Names, comment, common_folder

ATTACKS = sorted((Path(__file__).parent / "attacks").glob("*.txt"))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda p: p.stem)
def test_attack_becomes_plain_identifier(attack: Path) -> None:
    name = Names({*keyword.kwlist, "torch", "forward"}).new(attack.read_bytes().decode())
    assert name.isidentifier() and name.isascii() and len(name) <= 80
    assert not keyword.iskeyword(name) and not name.startswith("_") and name not in ("torch", "forward")


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda p: p.stem)
def test_attack_stays_inside_comment(attack: Path) -> None:
    text = comment(attack.read_bytes().decode())
    assert len(f"# {text}\n".splitlines()) == 1 and "\\" not in text
    assert not {"\u202e", "\u2066", "\x00"} & set(text)


def test_each_name_is_given_once() -> None:
    names = Names({"a"})
    assert [names.new(n) for n in ("a", "a.b", "a/b", "a_b", "3d", "", "?")] == [
        *("a_2", "a_b", "a_b_2", "a_b_3", "value_3d", "value", "value_2")
    ]


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (["model/a/b", "model/c", ""], "model/"),
        (["a", "b/c"], ""),
        (["ab/c", "abc/d"], ""),
        ([], ""),
    ],
)
def test_common_folder_is_that_of_all_names(names: list[str], folder: str) -> None:
    assert common_folder(names) == folder
