"""Tests of the outputs that replace those of a symbol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import anylayer
from anylayer.errors import InputError

_NODES = [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "Activation", "name": "relu", "attrs": {"act_type": "relu"}, "inputs": [[0, 0, 0]]},
    {"op": "Activation", "name": "last_output", "attrs": {"act_type": "tanh"}, "inputs": [[1, 0, 0]]},
    {"op": "Unknown", "name": "loss", "inputs": [[2, 0, 0]]},
]


@pytest.fixture
def symbol(tmp_path: Path) -> Path:
    path = tmp_path / "net-symbol.json"
    path.write_text(json.dumps({"nodes": _NODES, "arg_nodes": [0], "heads": [[3, 0, 0], [2, 0, 0]]}))
    return path


@pytest.mark.parametrize(
    ("names", "outputs", "types"),
    [
        ("relu", ["relu_output"], ["Activation"]),
        (["relu_output"], ["relu_output"], ["Activation"]),
        (["relu_output0"], ["relu_output"], ["Activation"]),
        (["last_output", "relu"], ["last_output_output", "relu_output"], ["Activation"] * 2),
    ],
)
def test_outputs_replace_those_of_the_symbol(
    symbol: Path, names: str | list[str], outputs: list[str], types: list[str]
) -> None:
    network = anylayer.read(symbol, outputs=names).network
    assert list(network.outputs) == outputs
    assert [node.type for node in network.nodes] == types


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["relo"], "outputs: there is no operator for 'relo'; did you mean 'relu'"),
        (["data"], "outputs: there is no operator for 'data'"),
        (["relu_output123456"], "outputs: there is no operator for 'relu_output123456'"),
        ([], "outputs: give at least one name"),
    ],
)
def test_other_outputs_are_refused(symbol: Path, names: list[str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        anylayer.read(symbol, outputs=names)
