"""A resize by factors, as OpenCV hands it to a custom layer: height's and width's factor as two blobs.

Keras writes the size as Shape(x)[1:3] * factors, older code as a Pack of two products. OpenCV fuses both
(modules/dnn/src/tensorflow/tf_graph_simplifier.cpp, UpsamplingKerasSubgraph and ResizeBilinearSubgraph).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from anylayer.network import Array
from anylayer.readers.tensorflow.functions import reference
from anylayer.readers.tensorflow.graph import GraphNode

_RESIZES = ("ResizeBilinear", "ResizeNearestNeighbor")
_SHAPES = ("Shape", "Const")
Known = Callable[[str], Array | None]


def factors(nodes: Mapping[str, GraphNode], node: GraphNode, text: str, known: Known) -> list[Array] | None:
    """The factors of a resize whose size (input `text`) is a multiple of a shape; None where it is not."""
    if node.op not in _RESIZES or len(node.inputs) != 2 or text != node.inputs[1]:
        return None
    size = nodes[reference(text)[0]]
    parts = size.inputs if size.op == "Pack" and len(size.inputs) == 2 else [text]
    found: list[Array] = []
    for part in parts:
        product = nodes[reference(part)[0]]
        factor = _factor(nodes, product, known)
        if factor is None or factor.size != 2 // len(parts):
            return None
        found += [np.array([[value]], factor.dtype) for value in factor.reshape(-1)]
    return found


def _factor(nodes: Mapping[str, GraphNode], product: GraphNode, known: Known) -> Array | None:
    """The constant that a part of a shape is multiplied by."""
    if product.op != "Mul" or len(product.inputs) != 2:
        return None
    for part, other in (product.inputs, product.inputs[::-1]):
        cut = nodes[reference(part)[0]]
        if cut.op == "StridedSlice" and cut.inputs and nodes[reference(cut.inputs[0])[0]].op in _SHAPES:
            return known(other)
    return None
