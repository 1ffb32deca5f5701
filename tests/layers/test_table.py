"""Tests of layer types that are rows of a table."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from anylayer.errors import LayerError
from anylayer.layer import Layer, attribute
from anylayer.layer.arguments import integer
from anylayer.layers import _table
from anylayer.layers._table import operators, row
from anylayer.network import Node


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[Layer]]:
    """Return the layer types of a table, by name."""
    classes: dict[str, type[Layer]] = {}
    monkeypatch.setattr(_table, "layer", lambda name, **_: lambda cls: classes.setdefault(name, cls))

    def scale(x: object, count: int, factor: float, *, outputs: int) -> list[object]:
        return [x * count * factor] * outputs

    details = "count is a constant. " * 9
    operators(
        type("Base", (Layer,), {"message": "attr"}),
        "Source: {name} in {}.",
        {
            "Scale": row(
                "Scale x.", scale, "a.cc", details, {"elementwise": True}, factor=attribute("float"), count=integer
            )
        },
    )
    return classes


def test_row_takes_inputs_attributes_constants_and_what_the_layer_knows(types: dict[str, type[Layer]]) -> None:
    layer = types["Scale"]()
    layer.prepare(Node("l", "Scale", ["x", "n"], ["y", "z"], {"attr": {"factor": 0.5}}), None)
    assert [*inspect.signature(layer.forward).parameters] == ["x", "count"]
    assert layer.forward(np.float32(3), np.int64(4)) == [6, 6] and types["Scale"].elementwise
    with pytest.raises(LayerError, match="count must be integers, got float64"):
        layer.forward(np.float32(3), np.float64(4))


def test_docstring_of_row_is_wrapped_and_names_its_source(types: dict[str, type[Layer]]) -> None:
    lines = (inspect.getdoc(types["Scale"]) or "").splitlines()
    assert lines[0] == "Scale x." and lines[-1] == "Source: Scale in a.cc."
    assert " ".join(lines[2:-1]) == ("count is a constant. " * 9).strip() and max(map(len, lines)) <= 111
