"""ncnn: a graph as an ncnn network. Importing this loads no package ncnn: what is written is text and arrays."""

from __future__ import annotations

from anylayer.graph import Graph
from anylayer.writers.ncnn.arranging import ARRANGING
from anylayer.writers.ncnn.builder import NcnnModel, write
from anylayer.writers.ncnn.elementwise import ELEMENTWISE
from anylayer.writers.ncnn.products import PRODUCTS
from anylayer.writers.ncnn.windows import WINDOWS

__all__ = ["FORMS", "NcnnModel", "to_ncnn"]

FORMS = {**WINDOWS, **PRODUCTS, **ELEMENTWISE, **ARRANGING}
"""ONNX operator -> how ncnn has it."""


def to_ncnn(graph: Graph) -> NcnnModel:
    """The graph as an ncnn network for one sample at a time.

    Raises EngineError naming the first operator that ncnn cannot express as the graph means it.
    """
    return write(graph, FORMS)
