"""The scale factors of a resize operation that a custom layer replaces.

Keras computes the output size as Shape(x)[1:3] * factors, older code as a Pack of two products. OpenCV fuses both,
and gives a custom layer the factors of height and width as two blobs
(modules/dnn/src/tensorflow/tf_graph_simplifier.cpp, UpsamplingKerasSubgraph and ResizeBilinearSubgraph).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from anylayer.network import Array
from anylayer.readers.tensorflow.functions import parse_name
from anylayer.readers.tensorflow.graph import GraphNode

_RESIZES = ("ResizeBilinear", "ResizeNearestNeighbor")
_SHAPES = ("Shape", "Const")
Constant = Callable[[str], Array | None]
"""Returns the values of an input if they are constant, else None."""


def resize_factors(
    nodes: Mapping[str, GraphNode], node: GraphNode, text: str, constant: Constant
) -> list[Array] | None:
    """Return the factors of height and width of a resize, each with shape (1, 1).

    `text` is the name of the input with the output size. Return None if that input is not computed as a shape
    times constant factors.
    """
    if node.op not in _RESIZES or len(node.inputs) != 2 or text != node.inputs[1]:
        return None
    size = nodes[parse_name(text)[0]]
    parts = size.inputs if size.op == "Pack" and len(size.inputs) == 2 else [text]
    factors: list[Array] = []
    for part in parts:
        product = nodes[parse_name(part)[0]]
        factor = _factor(nodes, product, constant)
        if factor is None or factor.size != 2 // len(parts):
            return None
        factors += [np.array([[value]], factor.dtype) for value in factor.reshape(-1)]
    return factors


def _factor(nodes: Mapping[str, GraphNode], product: GraphNode, constant: Constant) -> Array | None:
    """Return the constant that a slice of a shape is multiplied by, or None if `product` is not such a product."""
    if product.op != "Mul" or len(product.inputs) != 2:
        return None
    for part, other in (product.inputs, product.inputs[::-1]):
        sliced = nodes[parse_name(part)[0]]
        if sliced.op == "StridedSlice" and sliced.inputs and nodes[parse_name(sliced.inputs[0])[0]].op in _SHAPES:
            return constant(other)
    return None
