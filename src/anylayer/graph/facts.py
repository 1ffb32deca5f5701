"""Facts about operators, for rewrite rules, corrections and writers. Each fact is computed here and nowhere else.

A function returns None if the fact does not follow from the graph, for example because an argument is computed
when the network runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import RECURRENT, Trait
from anylayer.graph.sizes import is_static
from anylayer.network import Array

Producers = Mapping[Value, Op]
"""The operator that produces each value: `Graph.producers`, or a table of several graphs."""


def producer(producers: Producers, value: Value | None, op: str = "") -> Op | None:
    """Return the ONNX operator that produces a value.

    op: the operator that is wanted; "" takes any.
    Returns None for a constant, an input, an absent value, a call, and where another operator produces the value.
    """
    op_before = None if value is None else producers.get(value)
    return op_before if op_before is not None and not op_before.domain and op in ("", op_before.op) else None


def producer_through(producers: Producers, value: Value | None, passed: Trait) -> Op | None:
    """Return the ONNX operator that produces a value, or that of which it is the result of operators in `passed`,
    each of their first input.
    """
    o = producer(producers, value)
    while o is not None and o in passed:
        o = producer(producers, o.inputs[0])
    return o


def values_before(
    ops: Sequence[Op],
    is_end: Callable[[Op], bool],
    passes: Callable[[Op], bool],
    *,
    kind: str = "",
    index: int | None = None,
) -> set[Value]:
    """Search backwards from some operators, the ends, and return the inputs of all operators that are visited.

    ops: all operators in computing order.
    is_end: returns whether an operator is an end.
    passes: returns whether the search continues from an operator's outputs to its inputs.
    kind: the kind of dtype of the values to return and to continue from, for example "f"; "" stands for all.
    index: the index of the only input of an end to return; None stands for all.
    """
    visited: set[Value] = set()
    for o in reversed(ops):
        leads = passes(o) and any(v in visited for v in o.outputs)
        inputs: Sequence[Value | None] = ()
        if leads or is_end(o):
            inputs = o.inputs if leads or index is None else o.inputs[index : index + 1]
        visited.update(v for v in inputs if v is not None and kind in ("", v.dtype.kind))
    return visited


# ------------------------------------------------------------------------ constants


def number(value: Value | None) -> float | None:
    """Return a constant of one element as a Python float, whatever its shape and dtype."""
    if value is None or value.const is None or value.const.size != 1:
        return None
    return float(value.const.reshape(()))


def is_number(value: Value | None, expected: float) -> bool:
    """Return whether a value is a constant of one element that equals `expected` within a relative 1e-6."""
    constant = number(value)
    return constant is not None and abs(constant - expected) <= 1e-6 * abs(expected)


def integers(value: Value | None) -> list[int] | None:
    """Return the elements of an integer constant in C order."""
    if value is None or value.const is None or value.const.dtype.kind not in "iu":
        return None
    return [int(v) for v in value.const.reshape(-1)]


def per_channel(value: Value | None, shape: Sequence[Any]) -> Array | None:
    """Return a float32 constant that broadcasts to `shape` (N, C, ...) as one float64 number per channel.

    Returns an array of shape (C,), or None where the constant varies along another axis or has more axes than
    `shape`.
    """
    if value is None or value.const is None or value.dtype != np.float32:
        return None
    if value.const.ndim > len(shape) or len(shape) < 2:
        return None
    sizes = (1,) * (len(shape) - value.const.ndim) + value.const.shape
    if any(d != 1 for i, d in enumerate(sizes) if i != 1) or sizes[1] not in (1, shape[1]):
        return None
    return np.broadcast_to(value.const.astype(np.float64).reshape(-1), (shape[1],))


# ---------------------------------------------------------------------- positions


class AxisCut(NamedTuple):
    """What a Slice selects along one axis: `range(start, stop, step)`, as indices that count from the front.

    With a negative step, `stop` is -1 where the first element is selected.
    """

    axis: int
    start: int
    stop: int
    step: int

    @property
    def indices(self) -> range:
        """The selected indices."""
        return range(self.start, self.stop, self.step)


def slice_cuts(op: Op) -> list[AxisCut] | None:
    """Return what a Slice selects, for each axis that it names, in its order.

    Returns None where the bounds are computed, or where the size of a named axis is dynamic.
    """
    x = op.inputs[0]
    starts, ends, axes, steps = (*op.inputs[1:], None, None)[:4]
    if x is None:
        return None
    first, last = integers(starts), integers(ends)
    if first is None or last is None:
        return None
    named = list(range(len(first))) if axes is None else integers(axes)
    by = [1] * len(first) if steps is None else integers(steps)
    if named is None or by is None:
        return None
    named = [a % len(x.shape) for a in named]
    if not is_static([x.shape[a] for a in named]):
        return None
    return [AxisCut(a, *slice(s, e, n).indices(x.shape[a])) for a, s, e, n in zip(named, first, last, by)]


def gathered(op: Op) -> tuple[int, Array] | None:
    """Return (axis, indices) of a Gather with a constant list of indices, both counted from the front.

    Returns None for indices that are computed or not one-dimensional, and along an axis with a dynamic size.
    """
    if op.op != "Gather" or op.inputs[0] is None or op.inputs[1] is None:
        return None
    indices, shape = op.inputs[1].const, op.inputs[0].shape
    axis = op["axis"] % max(len(shape), 1)
    if indices is None or indices.ndim != 1 or not is_static(shape[axis : axis + 1]):
        return None
    return axis, indices % shape[axis]


def repetition(indices: Array, size: int) -> int:
    """Return n where the indices repeat each of `size` elements n times, in order, with n above 1; else 0."""
    count = len(indices) // size if size else 0
    same = count > 1 and len(indices) == count * size and (indices == np.arange(len(indices)) // count).all()
    return count if same else 0


def reduced_axes(op: Op) -> list[int] | None:
    """Return the axes that a reduction names, counted from the front, in its order.

    Returns all axes where it names none. Returns None where the axes are computed, and where an operator without
    axes is the identity (`noop_with_empty_axes`).
    """
    x = op.inputs[0]
    if x is None:
        return None
    axes = [] if op.input(1) is None else integers(op.input(1))
    if axes is None:
        return None
    if not axes:
        return None if op["noop_with_empty_axes"] else list(range(len(x.shape)))
    return [int(a) % len(x.shape) for a in axes]


class Padding(NamedTuple):
    """What a Pad adds before and after each axis of its input, and the number that it adds."""

    begins: list[int]
    ends: list[int]
    value: float


def padding_of(op: Op) -> Padding | None:
    """Return what a Pad adds, in any mode. Returns None where the pads, the axes or the number are computed."""
    x, amounts = op.inputs[0], integers(op.inputs[1])
    fill, axes = (*op.inputs[2:], None, None)[:2]
    value = 0.0 if fill is None else number(fill)
    named = integers(axes) if axes is not None else None if x is None else list(range(len(x.shape)))
    if x is None or amounts is None or value is None or named is None:
        return None
    begins, ends = [0] * len(x.shape), [0] * len(x.shape)
    for axis, before, after in zip(named, amounts, amounts[len(named) :]):
        begins[axis], ends[axis] = before, after
    return Padding(begins, ends, value)


def shifted_exponential(producers: Producers, value: Value | None) -> tuple[Value, list[int]] | None:
    """Return (x, axes) where a value is exp(x - max(x)) with the maximum along these axes, sorted."""
    power = producer(producers, value, "Exp")
    shifted = producer(producers, power.inputs[0], "Sub") if power is not None else None
    top = producer(producers, shifted.inputs[1], "ReduceMax") if shifted is not None else None
    x = shifted.inputs[0] if shifted is not None else None
    if x is None or top is None or top.inputs[0] is not x:
        return None
    axes = reduced_axes(top)
    return None if axes is None else (x, sorted(axes))


# ------------------------------------------------------------------------- windows


class Window(NamedTuple):
    """The windows of a convolution or pooling, one number per spatial axis."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begins: list[int]
    """The padding before the first cell."""
    ends: list[int]
    """The padding after the last cell."""

    @property
    def extents(self) -> list[int]:
        """The number of cells from a window's first to its last, both counted."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]

    @property
    def pads(self) -> list[int]:
        """The padding as the attribute `pads` spells it: all begins, then all ends."""
        return [*self.begins, *self.ends]


def window_of(op: Op) -> Window | None:
    """Return the windows of a Conv, ConvTranspose, MaxPool, AveragePool or a global pooling.

    Returns None if `auto_pad` determines the padding.
    """
    if op.inputs[0] is None:
        return None
    if op.op.startswith("Global"):
        kernel, n = op.inputs[0].shape[2:], len(op.inputs[0].shape) - 2
        return Window([int(k) for k in kernel], [1] * n, [1] * n, [0] * n, [0] * n)
    if op["auto_pad"] != "NOTSET":
        return None
    kernel = op["kernel_shape"]
    if kernel is None:
        kernel = () if op.inputs[1] is None else op.inputs[1].shape[2:]
    n = len(kernel)
    strides, dilations = (list(map(int, op[name] or [1] * n)) for name in ("strides", "dilations"))
    pads = [int(p) for p in op["pads"] or [0] * 2 * n]
    return Window([int(k) for k in kernel], strides, dilations, pads[:n], pads[n:])


def multiply_adds(ops: Iterable[Op]) -> int:
    """Return the number of multiply-adds in convolutions, matrix products and recurrences, for one run.

    The number for an operator with a dynamic size is 0.
    """
    total = 0
    for op in ops:
        shapes = [v.shape if v is not None else () for v in op.inputs]
        if any(not isinstance(d, int) for s in [*shapes, op.outputs[0].shape] for d in s):
            continue
        out = math.prod(op.outputs[0].shape)
        if op.op == "Conv":
            total += out * math.prod(shapes[1][1:])
        elif op.op == "ConvTranspose":
            total += math.prod(shapes[0]) * math.prod(shapes[1][1:])
        elif op.op == "MatMul":
            total += out * shapes[0][-1]
        elif op.op == "Gemm":
            total += out * shapes[0][0 if op["transA"] else 1]
        elif op in RECURRENT:
            steps = shapes[0][0] * shapes[0][1]
            total += steps * (math.prod(shapes[1]) + math.prod(shapes[2]))
    return total
