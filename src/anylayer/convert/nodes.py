"""The errors of a file in low precision, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.graph import Value
from anylayer.graph.operators import SHAPES, is_discontinuous
from anylayer.network import Array
from anylayer.numerics import rms_error, rms_scale
from anylayer.source import Source, TracedNode


@dataclass(frozen=True, slots=True)
class NodeError:
    """The error of a node's output in a file, relative to the root mean square of the source's output.

    `added` is the part of the error that the node itself adds to the errors of its inputs.
    """

    name: str
    type: str
    error: float
    added: float


def node_errors(source: Source, want: Mapping[str, Array], results: Mapping[str, Array]) -> list[NodeError]:
    """Return the error of each node whose output is in `want` and in `results`, in computing order.

    want: the outputs of the nodes in the source, by name. results: those in the file.
    """
    errors: dict[str, float] = {}
    per_node = []
    for t in source.nodes:
        output_errors = [
            rms_error(results[name], want[name]) / rms_scale(want[name])
            for name in t.node.outputs
            if name in results
            and name in want
            and results[name].shape == want[name].shape
            and want[name].dtype.kind == "f"
        ]
        before = max((errors.get(name, 0.0) for name in t.node.inputs), default=0.0)
        error = max(output_errors, default=before)
        errors.update(dict.fromkeys(t.node.outputs, error))
        if output_errors and np.isfinite(error):
            per_node.append(NodeError(t.node.name, t.node.type, error, max(error - before, 0.0)))
    return per_node


def costliest(errors: Sequence[NodeError], source: Source) -> NodeError | None:
    """Return the node that adds most to the error and has no discontinuous operator, or None."""
    smooth = {t.node.name for t in source.nodes if not has_jump(t)}
    return max((e for e in errors if e.name in smooth), key=lambda e: e.added, default=None)


def has_jump(traced: TracedNode) -> bool:
    """Return whether a node applies a discontinuous operator to data. Operators on values that follow from sizes
    alone, such as the coordinates of a resizing, are ignored.
    """
    if traced.body is None:
        return False
    data: set[Value | None] = {*traced.body.inputs}
    for o in traced.body.ops:
        if o not in SHAPES and data.intersection(o.inputs):
            if is_discontinuous(o):
                return True
            data.update(o.outputs)
    return False


def after_jumps(source: Source) -> tuple[set[str], list[str]]:
    """Return the values that depend on a discontinuous operator, and the inputs of these operators' nodes."""
    after: set[str] = set()
    read: dict[str, None] = {}
    for t in source.nodes:
        if after.intersection(t.node.inputs):
            after.update(t.node.outputs)
        elif has_jump(t):
            after.update(t.node.outputs)
            read.update(dict.fromkeys(n for n in t.node.inputs if n))
    return after, [name for name in read if name not in source.inputs]
