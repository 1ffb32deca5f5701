"""The templates of generated code: each is read by its code, and its placeholders are filled."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import anylayer
from anylayer.folders import fill

PACKAGE = Path(anylayer.__file__).parent
TEMPLATES = sorted(PACKAGE.rglob("templates/*"))


def test_a_text_is_not_searched_for_placeholders() -> None:
    assert fill("INSERT_a, INSERT_b;", a="INSERT_b", b="1") == "INSERT_b, 1;"


@pytest.mark.parametrize("values", [{}, {"a": "1"}, {"a": "1", "b": "2", "c": "3"}])
def test_other_placeholders_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="placeholders"):
        fill("INSERT_a INSERT_b", **values)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_code_beside_a_template_names_it(path: Path) -> None:
    room = path.parent.parent
    code = "".join(p.read_text("utf-8") for p in room.rglob("*.py"))
    shared = (
        (PACKAGE / "generators" / "_operators.py").read_text("utf-8") if room.parent.name == "generators" else ""
    )
    assert re.search(rf"""["']{re.escape(path.name)}["']""", code + shared)


def test_all_templates_are_known_to_git() -> None:
    """The wheel contains what git does not ignore."""
    root = PACKAGE.parent.parent
    ignored = subprocess.run(
        ["git", "check-ignore", *map(str, TEMPLATES)], cwd=root, capture_output=True, text=True
    )
    assert ignored.stdout == "" and len(TEMPLATES) > 20
