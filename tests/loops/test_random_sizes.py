"""Random layers with open sizes compute what NumPy does at sizes that were not traced. The examples are fixed."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from anylayer.errors import LayerError
from anylayer.graph import Graph
from anylayer.graph.expressions import symbol
from anylayer.graph.symbolic import new_size
from anylayer.layer import load_layers
from anylayer.layer.bound import Bound, bind
from anylayer.loops import CppFunction, Opened, lower, opened, to_cpp
from anylayer.network import Array, Node, TensorType
from anylayer.tracing import trace
from tests.loops.harness import build, call, needs_compiler

pytestmark = needs_compiler

STEPS = """
v * 2 + 1
np.abs(v)
v[:, ::-1]
v.transpose(0, 2, 1)
v.reshape(v.shape[0], -1, 1)
np.concatenate([v, v * 2], axis=1)
np.repeat(v, 2, axis=2)
v.sum(axis=2, keepdims=True)
v - v.mean(axis=(1, 2), keepdims=True)
v / np.sqrt((v * v).sum(axis=1, keepdims=True) + np.float32(1e-3))
np.pad(v, ((0, 0), (1, 2), (0, 1)))
v[:, :1]
np.take(v, np.arange(v.shape[1]) // 2, axis=1)
v @ v.transpose(0, 2, 1)
v.swapaxes(1, 2).reshape(v.shape)
np.tile(v, (1, 2, 1))
v * np.arange(v.shape[2], dtype=np.float32)
np.pad(v, ((0, 0), (1, 1), (1, 1)), mode="edge")
np.maximum(v, v[:, :1])
v.max(axis=1, keepdims=True) * v
np.where(v > 0, v, v * np.float32(0.1))
v[:, 1:] + v[:, :-1]
v + v[:, :3][:, 2:3]
v[:, :, :2][:, :, 1:2] * v
np.squeeze(v[:, :2][:, 1:], axis=1)[:, None] - v
np.cumsum(v, axis=1)
np.stack([v, v + 1], axis=1).reshape(v.shape[0], -1, v.shape[2])
""".strip().splitlines()
HEAD = """
import numpy as np


class A:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
"""
_LAYERS = 40


def layer(steps: list[str], folder: Path) -> Bound:
    """Return a layer that computes these steps."""
    folder.mkdir()
    body = "".join(f"        v = {step}\n" for step in ["inputs[0]", *steps])
    (folder / "layers.py").write_text(f"{HEAD}{body}        return [v]\n")
    found = load_layers([f"A={folder / 'layers.py'}:A"])["A"]
    return bind(Node("a", "A", ["x"], ["y"], {}, []), [found], [TensorType.of((2, 4, 6))])


def others(source: Opened, code: CppFunction, choose: random.Random) -> list[tuple[dict[str, int], Array]]:
    """Return other sizes that the code allows, with an input of each."""
    found = []
    for seed in range(3):
        sizes = {s: max(1, v + choose.randint(-2, 5)) for s, v in source.traced.items()}
        shape = tuple(e.value(sizes) for e in code.inputs[0].shape)
        if all(g.holds(sizes) for g in source.guards):
            found.append((sizes, np.random.default_rng(seed).standard_normal(shape).astype(np.float32)))
    return found


def test_layers_with_open_sizes_equal_numpy_at_other_sizes(tmp_path: Path) -> None:
    choose, made = random.Random(5), []
    for i in range(_LAYERS):
        steps = [choose.choice(STEPS) for _ in range(choose.randint(1, 4))]
        bound = layer(steps, tmp_path / str(i))
        source = opened(bound)
        made.append((steps, bound, source, to_cpp(lower(source), f"layer_{i}")))
    library, compared = build([code for *_, code in made], tmp_path), 0
    for steps, bound, source, code in made:
        for sizes, x in others(source, code, choose):
            (want,) = Bound(bound.node, bound.definition, [TensorType.of(x.shape)])([x])
            if want.size:
                (got,) = call(library, code, [x], sizes) or [np.zeros(0)]
                assert got.shape == want.shape, (steps, sizes)
                error = np.abs(got - want).max()
                assert error <= 1e-5 * max(1e-6, np.abs(want).max()), (steps, sizes)
                compared += 1
    assert compared > 2 * _LAYERS and sum(bool(source.sizes) for _, _, source, _ in made) > 0.9 * _LAYERS


def test_size_that_may_be_one_is_not_broadcast() -> None:
    graph, kind = Graph(), np.dtype(np.float32)
    x = graph.input("x", (new_size(1, symbol("H")),), kind)
    y = graph.input("y", (new_size(6, symbol("W")),), kind)
    graph.outputs.append(graph.emit("Add", [x, y], [(y.shape, y.dtype)])[0])
    with pytest.raises(LayerError, match="cannot become loops: an axis of size H is broadcast to size W, and"):
        lower(graph)


def test_chain_of_many_operators_for_each_element_is_refused() -> None:
    def chain(inputs: list[Array]) -> list[Array]:
        x = inputs[0]
        for _ in range(1000):
            x = np.tanh(x)
        return [x]

    graph = trace(chain, [TensorType.of((3,))])
    with pytest.raises(LayerError, match="a chain of more operators than one expression holds"):
        lower(graph, by_element=True)
    assert to_cpp(lower(graph), "chain").text.count("hyperbolic_tangent") == 1000
