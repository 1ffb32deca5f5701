"""The page docs/open-sizes.md states what each layer leaves open."""

from __future__ import annotations

import pytest

from tests.layers.open_sizes import ALL, FORMATS, PAGE, row, tried

TYPES = [(format, type_) for format in FORMATS for type_ in tried(format)]


@pytest.mark.parametrize(("format", "type_"), TYPES)
def test_page_states_what_the_layer_leaves_open(format: str, type_: str) -> None:
    names, why = row(tried(format)[type_])
    part = PAGE.read_text("utf-8").partition(f"## {FORMATS[format]}\n")[2].partition("\n## ")[0]
    every, _, table = part.partition("\n\n|")
    if names == ALL:
        assert f"`{type_}`" in every, "stale: python -m tests.layers.open_sizes"
    else:
        line = next(t for t in table.splitlines() if t.startswith(f"| `{type_}` |"))
        assert line == f"| `{type_}` | {names} | {why.replace('|', chr(92) + '|')} |", "stale"
