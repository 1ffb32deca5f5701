"""Recognize groups of operators for which torch has one function: repetition, bilinear interpolation, sums of rows
with weights, and convolutions with a bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.generators.pytorch.operators import UNREAD, live_operators
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Producers, gathered, is_number, producer, repetition
from anylayer.graph.sizes import is_static
from anylayer.network import Array, TensorType
from anylayer.ops._interpolation import Interpolation, attributes_of, repeating
from anylayer.optimize.rewrites.interpolation import interpolated
from anylayer.optimize.simplify import simplify
from anylayer.tracing import trace


def recognized(graph: Graph, plain: Mapping[str, bool], user_nodes: Set[str] = frozenset()) -> list[Op]:
    """Return the operators of a graph after recognized groups are replaced by one operator each. Operators whose
    outputs have no consumers are removed.

    plain: for each node whether it has no weights. Other nodes stay: weights must be parameters of the module.
    user_nodes: the nodes of the user's classes, whose operators stay in their functions.
    """
    forms = (_repeated, _interpolated, _sampled, _weighted_rows)
    biased = _folded_biases(graph, {n for n, free in plain.items() if free} - user_nodes)
    replaced = [
        next(filter(None, (form(op, graph.producers) for form in forms)), op) if plain.get(op.scope) else op
        for op in (biased.get(op, op) for op in graph.ops)
        if op is not None
    ]
    return live_operators(replaced, graph.outputs)


def _folded_biases(graph: Graph, nodes: Set[str]) -> dict[Op, Op | None]:
    """Return what replaces operators if convolutions of these nodes take the sums after them as their biases.

    A transposition may stand between both. None stands for a sum, whose result the operator before it has then.
    """
    changes: dict[Op, Op | None] = {}
    uses = Counter(v for op in graph.ops for v in op.inputs)
    uses.update(graph.outputs)
    for op in graph.ops:
        value, bias = next(((v, w.const) for v, w in _terms(op) if w.const is not None), (None, None))
        if value is None or bias is None or uses[value] != 1:
            continue
        moved = producer(graph.producers, value, "Transpose")
        before = moved.inputs[0] if moved is not None else value
        conv = producer(graph.producers, before, "Conv")
        if conv is None or conv.input(2) is not None or before is None or uses[before] != 1:
            continue
        rank = len(before.shape)
        axis = list(moved["perm"] or reversed(range(rank))).index(1) if moved is not None else 1
        channels = bias.reshape((1,) * (rank - bias.ndim) + bias.shape) if bias.ndim <= rank else bias
        if (
            channels.shape != tuple(before.shape[1] if i == axis else 1 for i in range(rank))
            or value.shape != op.outputs[0].shape
            or not {op.scope, conv.scope} <= nodes
        ):
            continue
        inputs = [*conv.inputs[:2], graph.constant(channels.reshape(-1))]
        result = [op.outputs[0]]
        changes[conv] = replace(conv, inputs=inputs, outputs=result if moved is None else conv.outputs)
        if moved is not None:
            changes[moved] = replace(moved, outputs=result)
        changes[op] = None
    return changes


def _terms(op: Op) -> list[tuple[Value, Value]]:
    """Return both orders of the inputs of a sum."""
    if op.op != "Add" or None in op.inputs:
        return []
    a, b = (v for v in op.inputs if v is not None)
    return [(a, b), (b, a)]


def _repeated(op: Op, producers: Producers) -> Op | None:
    """Return Resize for one Gather, or two, that repeat each row and column of (N, C, H, W) in order."""
    x = op.inputs[0] if _repeats(op) else None
    inner = producer(producers, x, "Gather")
    if inner is not None and _repeats(inner) and inner.scope == op.scope:
        x = inner.inputs[0]
    if x is None:
        return None
    return replace(op, op="Resize", inputs=[x, None, None, None], attrs=attributes_of(repeating([2])))


def _repeats(op: Op) -> bool:
    found, x = gathered(op), op.inputs[0] if op.inputs else None
    if found is None or x is None or len(x.shape) != 4 or x.dtype.kind != "f" or found[0] < 2:
        return False
    return repetition(found[1], x.shape[found[0]]) > 0


@dataclass(frozen=True, slots=True)
class _NodeOps:
    """The producers of the values of one node."""

    producers: Producers
    scope: str

    def producer(self, value: Value | None, op: str = "") -> Op | None:
        """Return the operator of this node that produces a value, if it is an `op`."""
        found = producer(self.producers, value, op)
        return found if found is not None and found.scope == self.scope else None


def _interpolated(op: Op, producers: Producers) -> Op | None:
    """Return Resize for sums of rows and columns with the weights of a linear interpolation."""
    if op.op not in ("Add", "Sub", "MatMul"):
        return None
    interpolation = interpolated(_NodeOps(producers, op.scope), op)
    if interpolation is None:
        return None
    x, coordinates = interpolation
    attrs = attributes_of(Interpolation(coordinates=coordinates))
    return replace(op, op="Resize", inputs=[x, None, None, None], attrs=attrs)


def _bilinear(x: Array, place: Array) -> Any:
    """Sample x (N, C, H, W) at the places (N, row and column, P) with zeros outside."""
    n, c, h, w = x.shape
    low, total = np.floor(place), np.float32(0)
    for down in (0, 1):
        for right in (0, 1):
            at = low + np.array([[down], [right]], np.float32)
            near = 1 - np.abs(place - at)
            inside = (at[:, 0] >= 0) & (at[:, 0] < h) & (at[:, 1] >= 0) & (at[:, 1] < w)
            weight = near[:, 0] * near[:, 1] * inside.astype(np.float32)
            row = np.clip(at[:, 0], np.float32(0), np.float32(h - 1)).astype(np.int64)
            column = np.clip(at[:, 1], np.float32(0), np.float32(w - 1)).astype(np.int64)
            index = np.broadcast_to((row * w + column)[:, None], (n, c, place.shape[2]))
            total = total + np.take_along_axis(x.reshape(n, c, h * w), index, axis=2) * weight[:, None]
    return total


def _sampled(op: Op, producers: Producers) -> Op | None:
    """Return BilinearSample for sums of the four neighbors of places in (N, C, H, W), if the places are computed
    from coordinates between -1 and 1 as torch.nn.functional.grid_sample computes them."""
    layer = _NodeOps(producers, op.scope)
    products = [p for v in op.inputs if (p := layer.producer(v, "Mul"))] if op.op == "Add" else []
    reads = [g for p in products for v in p.inputs if (g := layer.producer(v, "GatherElements"))]
    plane = layer.producer(reads[0].inputs[0], "Reshape") if len(reads) == 1 else None
    x = plane.inputs[0] if plane is not None else None
    if x is None or len(x.shape) != 4 or x.dtype != np.float32 or len(op.outputs[0].shape) != 3:
        return None
    points = op.outputs[0].shape[2]
    batch = 1 + max(2, *map(int, (*x.shape[1:], points)))  # a size that nothing else has
    kinds = [TensorType.of((batch, *x.shape[1:])), TensorType.of((batch, 2, points))]
    pattern = simplify(trace(lambda arrays: [_bilinear(*arrays)], kinds), exact=True)
    search = _FormSearch(layer, pattern.producers, batch, x.shape[0])
    if not search.same(pattern.outputs[0], op.outputs[0]) or search.found.get(pattern.inputs[0]) is not x:
        return None
    return _normalized(op, layer, x, search.found[pattern.inputs[1]])


def _normalized(op: Op, layer: _NodeOps, x: Value, place: Value) -> Op | None:
    """Return BilinearSample for places (t + 1) * size / 2, where size is h, or h - 1, or (t + 1) * h / 2 - 0.5."""
    shifted = layer.producer(place, "Sub")
    centers = shifted is not None and is_number(shifted.inputs[1], 0.5)
    scaled = layer.producer(shifted.inputs[0] if shifted is not None and centers else place, "Mul")
    for total, factor in (scaled.inputs, scaled.inputs[::-1]) if scaled is not None else ():
        added = layer.producer(total, "Add")
        for t, one in (added.inputs, added.inputs[::-1]) if added is not None else ():
            if (
                t is None
                or factor is None
                or factor.const is None
                or not is_number(one, 1)
                or t.shape != place.shape
            ):
                continue
            found = factor.const.reshape(-1) if factor.const.shape in ((2, 1), (1, 2, 1)) else np.zeros(2)
            size = np.array([int(d) for d in x.shape[2:]])
            for edge, given in (
                (0, {"align_corners": not centers, "pad": not centers}),
                (1, {"align_corners": True}),
            ):
                if np.array_equal(found, ((size - edge) / 2).astype(np.float32)) and not (edge and centers):
                    return replace(op, op="BilinearSample", inputs=[x, t], attrs=given)
    return None


def _weighted_rows(op: Op, producers: Producers) -> Op | None:
    """Return WeightedRows for a sum of products of rows, which Gathers read from one matrix, and a number per row.

    Its inputs are the matrix, the indices and the weights.
    """
    layer = _NodeOps(producers, op.scope)
    values = [op.outputs[0]]
    products: list[tuple[Op, Value]] = []
    while values:
        value = values.pop()
        added = layer.producer(value, "Add")
        if added is not None:
            values += [v for v in added.inputs if v is not None and not is_number(v, 0)]
            continue
        product = layer.producer(value, "Mul")
        terms = (product.inputs, product.inputs[::-1]) if product is not None else ()
        pairs = [(layer.producer(rows, "Gather"), weight) for rows, weight in terms]
        found = [(rows, weight) for rows, weight in pairs if rows is not None and weight is not None]
        if len(found) != 1 or value.shape != op.outputs[0].shape:
            return None
        products = found + products
    if len(products) < 2:
        return None
    matrix = products[0][0].inputs[0]
    indices = [rows.inputs[1] for rows, _ in products]
    weights = [weight for _, weight in products]
    wanted = (*op.outputs[0].shape[:-1], 1)
    if (
        matrix is None
        or len(matrix.shape) != 2
        or not is_static(matrix.shape)
        or matrix.dtype != np.float32
        or any(rows.inputs[0] is not matrix or rows["axis"] % 2 for rows, _ in products)
        or any(at is None or at.const is not None or at.shape != wanted[:-1] for at in indices)
        or any(weight.shape != wanted or weight.dtype != matrix.dtype for weight in weights)
    ):
        return None
    return replace(op, op="WeightedRows", inputs=[matrix, *indices, *weights])


@dataclass(slots=True)
class _FormSearch:
    """The search for a traced pattern in a node. `found` maps the values of the pattern to those of the graph.

    batch: the batch size of the pattern, which stands for the batch size `size` of the graph.
    """

    layer: _NodeOps
    pattern: Producers
    batch: int
    size: Any
    found: dict[Value, Value]

    def __init__(self, layer: _NodeOps, pattern: Producers, batch: int, size: Any) -> None:
        self.layer, self.pattern, self.batch, self.size, self.found = layer, pattern, batch, size, {}

    def same(self, wanted: Value | None, value: Value | None) -> bool:
        """Return whether a value is computed as a value of the pattern."""
        if wanted is None or value is None:
            return wanted is value
        if wanted in self.found:
            return self.found[wanted] is value
        if wanted.const is not None or value.const is not None:
            return wanted.const is not None and value.const is not None and _equal(wanted.const, value.const)
        if wanted.dtype != value.dtype or not self._same_shape(wanted.shape, value.shape):
            return False
        pattern = self.pattern.get(wanted)
        if pattern is not None:
            op = self.layer.producer(value, pattern.op)
            if op is None or op.attrs != pattern.attrs or not self._same_inputs(pattern, op):
                return False
        self.found[wanted] = value
        return True

    def _same_inputs(self, pattern: Op, op: Op) -> bool:
        if len(pattern.inputs) != len(op.inputs):
            return False
        ignored = UNREAD.get(pattern.op, ())
        return all(i in ignored or self.same(*pair) for i, pair in enumerate(zip(pattern.inputs, op.inputs)))

    def _same_shape(self, wanted: Sequence[Any], shape: Sequence[Any]) -> bool:
        pairs = zip(wanted, shape)
        return len(wanted) == len(shape) and all(d == (self.size if w == self.batch else w) for w, d in pairs)


def _equal(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and np.array_equal(a, b)
