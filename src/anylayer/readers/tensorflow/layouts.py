"""The data layout of an operation that does not state it: the layout of the nearest operation that does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from anylayer.network import Array
from anylayer.readers.tensorflow.functions import parse_name
from anylayer.readers.tensorflow.graph import GraphNode
from anylayer.readers.tensorflow.structure import RESHAPES, TRANSPOSE

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
