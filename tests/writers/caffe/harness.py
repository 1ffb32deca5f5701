"""Shared code of the Caffe writer's tests: write a NumPy function as a Caffe network, read it back and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.testing import assert_same
from anylayer.tracing import trace
from anylayer.writers.caffe import save
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.from_graph import net_from_graph
from anylayer.writers.caffe.layers import CaffeNet


def traced(function: Callable[..., Any], inputs: Sequence[Array]) -> Graph:
    """Trace a function whose inputs are named x0, x1, ..."""

    def as_list(arrays: Sequence[Any]) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    graph = trace(as_list, [TensorType.of(x.shape, x.dtype) for x in inputs], scope="op")
    for i, value in enumerate(graph.inputs):
        value.name = f"x{i}"
    return graph


def layers_of(graph: Graph, dialect: str = "bvlc", **options: Any) -> CaffeNet:
    """Return the graph as Caffe layers, with outputs y0, y1, ..."""
    net = CaffeNet("test", dialect=dialect_of(dialect))
    net_from_graph(graph, net, [f"y{i}" for i in range(len(graph.outputs))], {"op": "layer 'op'"}, **options)
    return net


def check(
    folder: Path,
    function: Callable[..., Any],
    *inputs: Array,
    dialect: str = "bvlc",
    tolerance: float | None = None,
    **options: Any,
) -> list[str]:
    """Write a function for Caffe, read it back, compare. Return the layer types in order, without Input."""
    graph = traced(function, inputs)
    net = layers_of(graph, dialect, **options)
    *_, weights, text = save(net, folder / "net.prototxt")
    model = anylayer.read(text, weights, dialect=dialect).compile("numpy")
    got = model({f"x{i}": x for i, x in enumerate(inputs) if f"x{i}" in model.inputs})
    want = function(*inputs)
    for i, array in enumerate(want if isinstance(want, (tuple, list)) else [want]):
        assert_same(got[f"y{i}"], np.asarray(array, np.float32), f"{dialect}: y{i}", tolerance)
    return [layer.type for layer in net.layers if layer.type != "Input"]
