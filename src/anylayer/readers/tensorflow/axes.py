"""The order of axes around an operation that does not state its own: that of its nearest neighbor which does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from anylayer.network import Array
from anylayer.readers.tensorflow.functions import reference
from anylayer.readers.tensorflow.graph import GraphNode
from anylayer.readers.tensorflow.structure import RESHAPES, TRANSPOSE

_STATED = {
    **dict.fromkeys(("NHWC", "NDHWC", "channels_last"), "NHWC"),
    **dict.fromkeys(("NCHW", "NCDHW", "channels_first"), "NCHW"),
}
_TURNS = {(0, 3, 1, 2): "NCHW", (0, 2, 3, 1): "NHWC"}
"""What a Transpose gives, by its permutation."""
_OTHER = {"NCHW": "NHWC", "NHWC": "NCHW"}


class Axes:
    """The operations of a graph, asked for their order of axes."""

    def __init__(self, nodes: Mapping[str, GraphNode], known: Callable[[str], Array | None]) -> None:
        self._nodes, self._known = nodes, known
        self._consumers: dict[str, list[str]] | None = None

    def of(self, node: GraphNode) -> str:
        """Return "NCHW" or "NHWC" for an operation: as it states it, as an operation before it does, as one
        behind it does, or else TensorFlow's own order, NHWC."""
        return self._search(node, self._above, False) or self._search(node, self._below, True) or "NHWC"

    def _search(self, start: GraphNode, step: Callable[[str], Iterable[str]], down: bool) -> str:
        seen, frontier = {start.name}, [start.name]
        for name in frontier:  # breadth first: what is appended is visited later
            node = self._nodes[name]
            found = self._told(node, down)
            if found:
                return found
            if name != start.name and (node.op in RESHAPES or node.op == TRANSPOSE):
                continue
            for other in step(name):
                if other in self._nodes and other not in seen:
                    seen.add(other)
                    frontier.append(other)
        return ""

    def _told(self, node: GraphNode, down: bool) -> str:
        """What an operation tells of the values that it gives, or with `down` of those it reads; "" for
        nothing.
        """
        if node.op == TRANSPOSE and len(node.inputs) > 1:
            order = self._known(node.inputs[1])
            given = "" if order is None else _TURNS.get(tuple(order.ravel().tolist()), "")
            return _OTHER.get(given, "") if down else given
        return _STATED.get(str(node.attrs.get("data_format", "")), "")

    def _above(self, name: str) -> list[str]:
        return [reference(text)[0] for text in self._nodes[name].inputs if not text.startswith("^")]

    def _below(self, name: str) -> list[str]:
        if self._consumers is None:
            self._consumers = {}
            for node in self._nodes.values():
                for producer in self._above(node.name):
                    self._consumers.setdefault(producer, []).append(node.name)
        return self._consumers.get(name, [])
