"""NMS. One operator Suppress replaces those that `ops.nms` records: NonMaxSuppression and its padding."""

from __future__ import annotations

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import number
from anylayer.loops.composites import LOOPS
from anylayer.loops.ir import Suppress
from anylayer.loops.lowering import Lowering, Unsupported, given, nests, optional, sizes_of
from anylayer.loops.reductions import in_memory
from anylayer.optimize.rules import Rewriter, rule


@rule("NonMaxSuppression", kind="must", targets=LOOPS)
def _padded(new: Rewriter, op: Op) -> list[Value] | None:
    """Compute an NMS whose result is padded to a static shape by Suppress, which also counts the boxes."""
    uses = [o for o in new.old.ops if op.outputs[0] in o.inputs]
    shapes = [o.outputs[0].shape for o in uses if o.op == "Pad"]
    if not shapes or any(o.op != "Pad" and (o.op != "Shape" or o.attrs) for o in uses):
        return None
    types = [(shapes[-1], np.int64), ((1,), np.int64)]
    attrs = {"center_point_box": op["center_point_box"]}
    return new.graph.emit("Suppress", op.inputs, types, attrs, place=op.place, scope=op.scope)[:1]


@rule("Pad", kind="must", targets=LOOPS)
def _rows(new: Rewriter, op: Op) -> list[Value] | None:
    """Remove the padding of an NMS: the result of Suppress has its shape."""
    nms = new.producer(op.inputs[0], "Suppress")
    return None if nms is None or nms.outputs[0].shape != op.outputs[0].shape else nms.outputs[:1]


@rule("Shape", kind="must", targets=LOOPS)
def _count(new: Rewriter, op: Op) -> list[Value] | None:
    """Return the number of boxes that Suppress counts, and 3."""
    nms = new.producer(op.inputs[0], "Suppress")
    return None if nms is None else new.emit(op, "Concat", [nms.outputs[1], new.ints([3])], axis=0)


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
