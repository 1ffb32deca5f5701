"""NMS. The operators that `ops.nms` records, NonMaxSuppression and the padding of its result, are replaced by one
operator Suppress."""

from __future__ import annotations

import numpy as np

from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import number
from anylayer.loops.ir import Suppress
from anylayer.loops.lowering import Lowering, Unsupported, given, nests, optional, sizes_of
from anylayer.loops.reductions import in_memory


class PaddedNms:
    """A replacement for the NonMaxSuppression operators of `graph` and for the operators that read or pad their
    results.

    Each group becomes one operator Suppress of the graph `done`, whose output has a static shape.
    """

    def __init__(self, graph: Graph, done: Graph) -> None:
        self.done = done
        self.shapes = {op.inputs[0]: op.outputs[0].shape for op in graph.ops if op.op == "Pad"}
        for op in graph.ops:
            if op.op not in ("Pad", "Shape") or (op.op == "Shape" and op.attrs):
                for v in op.inputs:
                    self.shapes.pop(v, None)
        self.made: dict[Value, list[Value]] = {}

    def replaced(self, op: Op, inputs: list[Value | None]) -> list[Value] | None:
        """Return the values that replace an operator's outputs, or None if the operator is not part of an NMS.

        inputs: the operator's inputs in `done`.
        """
        place, scope = op.place, op.scope
        if op.op == "NonMaxSuppression" and not op.domain and op.outputs[0] in self.shapes:
            types = [(self.shapes[op.outputs[0]], np.int64), ((1,), np.int64)]
            attrs = {"center_point_box": op["center_point_box"]}
            made = self.done.emit("Suppress", inputs, types, attrs, place=place, scope=scope)
            self.made[made[0]] = made
            return made[:1]
        found = self.made.get(inputs[0]) if inputs and inputs[0] is not None else None
        if found is not None and op.op == "Pad":
            return found[:1]
        if found is not None and op.op == "Shape":
            size = [found[1], self.done.constant(np.array([3]))]
            return self.done.emit("Concat", size, [((2,), np.int64)], {"axis": 0}, place=place, scope=scope)
        return None


@nests("Suppress")
def _suppress(low: Lowering, op: Op) -> None:
    boxes, scores = given(op), given(op, 1)
    kept, overlap, least = (number(optional(op, i)) for i in (2, 3, 4))
    if low.by_element:
        raise Unsupported("an NMS in a kernel for GPUs")
    if kept is None or any(optional(op, i) is not None and n is None for i, n in ((3, overlap), (4, least))):
        raise Unsupported("an NMS whose limits are computed")
    if op["center_point_box"] or not boxes.dtype == scores.dtype == np.float32:
        raise Unsupported("an NMS of boxes that have centers, or are not float32")
    sources = in_memory(low, scores), in_memory(low, boxes)
    rows, count = (low.new_buffer(v) for v in op.outputs)
    low.flush([Suppress(*sources, rows, count, sizes_of(scores), int(kept), overlap or 0.0, least)])
