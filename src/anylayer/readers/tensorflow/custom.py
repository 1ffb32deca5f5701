"""What the graph says about an operation that a custom layer computes: its data layout, its scale factors.

Keras computes the output size of a resize as Shape(x)[1:3] * factors, older code as a Pack of two products. OpenCV
fuses both, and gives a custom layer the factors of height and width as two blobs
(modules/dnn/src/tensorflow/tf_graph_simplifier.cpp, UpsamplingKerasSubgraph and ResizeBilinearSubgraph).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from anylayer.network import Array
from anylayer.readers.tensorflow.functions import parse_name
from anylayer.readers.tensorflow.graph import GraphNode
from anylayer.readers.tensorflow.structure import RESHAPES, TRANSPOSE

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


_STATED = {
    **dict.fromkeys(("NHWC", "NDHWC", "channels_last"), "NHWC"),
    **dict.fromkeys(("NCHW", "NCDHW", "channels_first"), "NCHW"),
}
_RESULTS = {(0, 3, 1, 2): "NCHW", (0, 2, 3, 1): "NHWC"}
"""The layout of a Transpose's output, by its permutation."""
_OTHER = {"NCHW": "NHWC", "NHWC": "NCHW"}


class Layouts:
    """The data layouts of the operations in a graph.

    `constant` returns the values of an input if they are constant, else None.
    """

    def __init__(self, nodes: Mapping[str, GraphNode], constant: Callable[[str], Array | None]) -> None:
        self._nodes, self._constant = nodes, constant
        self._consumers: dict[str, list[str]] | None = None

    def of(self, node: GraphNode) -> str:
        """Return "NCHW" or "NHWC" for an operation.

        It is the layout that the operation states, or else the nearest operation before it, or else the nearest
        one after it. Without any it is TensorFlow's default, NHWC.
        """
        before = self._search(node, self._producers_of, after=False)
        return before or self._search(node, self._consumers_of, after=True) or "NHWC"

    def _search(self, start: GraphNode, step: Callable[[str], Iterable[str]], *, after: bool) -> str:
        """Search breadth-first. Do not go beyond operations that change the meaning of the axes."""
        seen, frontier = {start.name}, [start.name]
        for name in frontier:  # names that are appended are visited later
            node = self._nodes[name]
            layout = self._layout_stated(node, of_inputs=after)
            if layout:
                return layout
            if name != start.name and (node.op in RESHAPES or node.op == TRANSPOSE):
                continue
            for other in step(name):
                if other in self._nodes and other not in seen:
                    seen.add(other)
                    frontier.append(other)
        return ""

    def _layout_stated(self, node: GraphNode, *, of_inputs: bool) -> str:
        """Return the layout that an operation states for its outputs or its inputs, or "" if it states none."""
        if node.op == TRANSPOSE and len(node.inputs) > 1:
            permutation = self._constant(node.inputs[1])
            result = "" if permutation is None else _RESULTS.get(tuple(permutation.ravel().tolist()), "")
            return _OTHER.get(result, "") if of_inputs else result
        return _STATED.get(str(node.attrs.get("data_format", "")), "")

    def _producers_of(self, name: str) -> list[str]:
        return [parse_name(text)[0] for text in self._nodes[name].inputs if not text.startswith("^")]

    def _consumers_of(self, name: str) -> list[str]:
        if self._consumers is None:
            self._consumers = {}
            for node in self._nodes.values():
                for producer in self._producers_of(node.name):
                    self._consumers.setdefault(producer, []).append(node.name)
        return self._consumers.get(name, [])
