"""Convert a graph to an ncnn network: text and arrays, so the package ncnn is not needed."""

from __future__ import annotations

from anylayer.corrections import corrected
from anylayer.graph import Graph
from anylayer.writers.ncnn.builder import NcnnModel, lower_graph
from anylayer.writers.ncnn.data_movement import DATA_MOVEMENT
from anylayer.writers.ncnn.elementwise import ELEMENTWISE
from anylayer.writers.ncnn.products import PRODUCTS
from anylayer.writers.ncnn.windows import WINDOWS

__all__ = ["LOWERINGS", "NcnnModel", "to_ncnn"]

LOWERINGS = {**WINDOWS, **PRODUCTS, **ELEMENTWISE, **DATA_MOVEMENT}
"""ONNX operator -> the function that adds its ncnn layers."""


def to_ncnn(graph: Graph) -> NcnnModel:
    """Return the graph as an ncnn network, which computes one sample at a time.

    Raises EngineError, which names the first operator that ncnn cannot compute exactly like the graph.
    """
    return lower_graph(corrected(graph, "ncnn").graph, LOWERINGS)
