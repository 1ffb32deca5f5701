"""What operators do with views of their inputs: see optimize.layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.optimize.layout import Arranger, fitted, handles
from anylayer.optimize.views import View, inverse, permuted, whole

Views = list["View | None"]
_MOST_BYTES = 1 << 25
"""The most bytes of weights that are copied to spare their input a transposition."""


def _present(views: Views) -> list[View]:
    return [v for v in views if v is not None]


def _ints(view: View | None) -> list[int] | None:
    """The whole numbers of a constant."""
    if view is None or view.base.const is None or view.base.const.dtype.kind not in "iu":
        return None
    return [int(v) for v in view.base.const.reshape(-1)]


# ------------------------------------------------------------------ elements in another order


@handles("Identity")
def _identity(do: Arranger, o: Op, views: Views) -> list[View] | None:
    return _present(views)


@handles("Transpose")
def _transpose(do: Arranger, o: Op, views: Views) -> list[View] | None:
    return [_present(views)[0].transposed(o.attrs["perm"])]


@handles("Reshape")
def _reshape(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """A reshape of a view is one; elements that lie in their order are reshaped when they are asked for, but for
    what only moves axes of size 1, which is a transposition too."""
    x = _present(views)[0]
    y = x.reshaped(o.outputs[0].shape)
    if y is None:
        return None
    return [whole(do.in_place(y, o.outputs[0].name))] if y.in_order and y.axes is None else [y]


# ------------------------------------------------------------------------------ element by element


@handles(
    *("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid", "HardSwish", "Softplus", "Softsign"),
    *("Gelu", "Mish", "ThresholdedRelu", "Erf", "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Sign", "Clip"),
    *("Floor", "Ceil", "Round", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh"),
    *("Acosh", "Atanh", "Not", "BitwiseNot", "IsNaN", "IsInf", "Cast"),
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr"),
    *("BitwiseXor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Where", "PRelu"),
)
def _elementwise(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """Works on any layout that all operands are brought into; an operand may be broadcast."""
    shape = o.outputs[0].shape
    own = _present(views)
    best, least = None, sum(map(do.cost, own)) + 1  # of layouts that cost the same, one that moves axes
    for leader in own:
        if leader.shape != shape or not leader.moves_axes or leader.base.const is not None:
            continue
        operands = [None if v is None else _operand(do, v, leader) for v in views]
        if any(v is None for v, given in zip(operands, views) if given is not None):
            continue
        price = sum(map(do.cost, _present(operands)))
        if price < least:
            best, least = (leader, operands), price
    if best is None:
        return None
    leader, operands = best
    inputs = [None if v is None else do.in_place(v) for v in operands]
    made = do.emit(o, inputs, [leader.base.shape])[0]
    return [replace(leader, base=made)]


def _operand(do: Arranger, view: View, leader: View) -> View | None:
    """An operand beside the base of the leader's view."""
    if view.base is leader.base and (view.pieces, view.order, view.shape) == (
        leader.pieces,
        leader.order,
        leader.shape,
    ):
        return whole(view.base)
    return fitted(do, view, leader)


# ------------------------------------------------------------------------------------ along an axis


def _first(do: Arranger, views: Views) -> View | None:
    """The first input as a transposition that moves axes."""
    x = views[0]
    if x is None or not x.moves_axes:
        return None
    x = do.by_axes(x)
    return x if x is not None and x.axes is not None and x.moves_axes else None


def _axes(view: View) -> tuple[int, ...]:
    if view.axes is None:
        raise ValueError("a view that is no transposition")
    return view.axes


def _back(values: Sequence[Value], axes: Sequence[int]) -> list[View]:
    """Values that lie as the base of a view with these axes."""
    return [permuted(v, axes) for v in values]


def _to_base(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """A shape, or one number an axis, in the order of the base."""
    return [shape[i] for i in inverse(axes)]


@handles("Concat")
def _concat(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """Concat in the layout of one of the parts: the cheapest for all of them together. A part whose axes are taken
    apart (shuffled channels) offers the layout that it has once its pieces are brought together."""
    parts = _present(views)
    return _joined(do, o, parts) or _joined(do, o, [do.by_axes(v) or v for v in parts])


def _joined(do: Arranger, o: Op, parts: Sequence[View]) -> list[View] | None:
    best, least = None, sum(map(do.cost, parts)) + 1
    for axes in {v.axes for v in parts if v.axes is not None and v.moves_axes}:
        moved = [v.transposed(inverse(axes)) for v in parts]
        price = sum(map(do.cost, moved))
        if price < least:
            best, least = (axes, moved), price
    if best is None:
        return None
    axes, moved = best
    shape = _to_base(o.outputs[0].shape, axes)
    axis = axes[o.attrs["axis"] % len(axes)]
    return _back(do.emit(o, [do.in_place(v) for v in moved], [shape], axis=axis), axes)


@handles("Split")
def _split(do: Arranger, o: Op, views: Views) -> list[View] | None:
    x = _first(do, views)
    if x is None:
        return None
    axes = _axes(x)
    shapes = [_to_base(v.shape, axes) for v in o.outputs]
    inputs = [x.base, *(None if v is None else do.in_place(v) for v in views[1:])]
    return _back(do.emit(o, inputs, shapes, axis=axes[o.attrs.get("axis", 0) % len(axes)]), axes)


@handles("Slice")
def _slice(do: Arranger, o: Op, views: Views) -> list[View] | None:
    x = _first(do, views)
    named = _ints(views[3]) if len(views) > 3 else None
    if x is None or named is None:
        return None
    axes = _axes(x)
    moved = do.ints([axes[a % len(axes)] for a in named])
    inputs: list[Value | None] = [None if v is None else do.in_place(v) for v in views]
    inputs[0], inputs[3] = x.base, moved
    return _back(do.emit(o, inputs, [_to_base(o.outputs[0].shape, axes)]), axes)


@handles("Pad")
def _pad(do: Arranger, o: Op, views: Views) -> list[View] | None:
    x, pads = _first(do, views), _ints(views[1])
    if x is None or pads is None or len(views) > 3:
        return None
    axes = _axes(x)
    rank = len(axes)
    moved = do.ints([*_to_base(pads[:rank], axes), *_to_base(pads[rank:], axes)])
    inputs = [x.base, moved, *(None if v is None else do.in_place(v) for v in views[2:])]
    return _back(do.emit(o, inputs, [_to_base(o.outputs[0].shape, axes)]), axes)


@handles("Expand", "Tile")
def _repeated(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """One number an axis says how large it becomes, or how often it is repeated."""
    x, counts = _first(do, views), _ints(views[1])
    if x is None or counts is None or len(counts) != len(x.shape):
        return None
    axes = _axes(x)
    moved = do.ints(_to_base(counts, axes))
    return _back(do.emit(o, [x.base, moved], [_to_base(o.outputs[0].shape, axes)]), axes)


@handles("Resize")
def _resize(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """With sizes for all axes and nothing else."""
    x = _first(do, views)
    if x is None or len(views) != 4 or views[1] is not None or views[2] is not None or "axes" in o.attrs:
        return None
    if o.attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    axes = _axes(x)
    shape = _to_base(o.outputs[0].shape, axes)
    return _back(do.emit(o, [x.base, None, None, do.ints(shape)], [shape]), axes)


@handles("Gather")
def _gather(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """Picks by a list; of an axis that becomes the innermost only where it grows, since there single numbers are
    copied."""
    x, indices = _first(do, views), views[1]
    if x is None or indices is None or len(indices.shape) != 1 or indices.base.const is None:
        return None
    axes, own = _axes(x), o.attrs.get("axis", 0) % len(x.shape)
    axis = axes[own]
    shape = _to_base(o.outputs[0].shape, axes)
    if axis == len(axes) - 1 and own != axis and len(indices.base.const) <= x.shape[own]:
        return None
    return _back(do.emit(o, [x.base, indices.base], [shape], axis=axis), axes)


@handles("CumSum")
def _cumsum(do: Arranger, o: Op, views: Views) -> list[View] | None:
    x, axis = _first(do, views), _ints(views[1])
    if x is None or axis is None or views[1] is None:
        return None
    axes = _axes(x)
    place = do.constant(np.asarray(axes[axis[0] % len(axes)], views[1].base.dtype))
    return _back(do.emit(o, [x.base, place], [x.base.shape]), axes)


@handles("Softmax", "LogSoftmax")
def _softmax(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """Where the axis is still the innermost: engines transpose for others."""
    x = _first(do, views)
    if x is None:
        return None
    axes = _axes(x)
    axis = axes[o.attrs.get("axis", -1) % len(axes)]
    if any(d != 1 for d in x.base.shape[axis + 1 :]):
        return None
    return _back(do.emit(o, [x.base], [x.base.shape], axis=axis), axes)


@handles("BatchNormalization", "InstanceNormalization", "LRN")
def _channels(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """Where the channels are axis 1 in the base, too, and the batch axis 0."""
    x = _first(do, views)
    if x is None or _axes(x)[:2] != (0, 1) or len(o.outputs) != 1:
        return None
    inputs = [x.base, *(do.in_place(v) for v in _present(views[1:]))]
    return _back(do.emit(o, inputs, [x.base.shape]), _axes(x))


_SUMS = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")


@handles(*_SUMS, "ReduceMax", "ReduceMin")
def _reduce(do: Arranger, o: Op, views: Views) -> list[View] | None:
    x, named = _first(do, views), _ints(views[1]) if len(views) > 1 else None
    if x is None or not named or (do.exact and o.op in _SUMS):
        return None
    axes = _axes(x)
    gone = sorted(axes[a % len(axes)] for a in named)
    return _without(do, o, x, gone, [x.base, do.ints(gone)])


@handles("ArgMax", "ArgMin")
def _arg(do: Arranger, o: Op, views: Views) -> list[View] | None:
    x = _first(do, views)
    if x is None:
        return None
    axes = _axes(x)
    axis = axes[o.attrs.get("axis", 0) % len(axes)]
    return _without(do, o, x, [axis], [x.base], axis=axis)


def _without(
    do: Arranger, o: Op, x: View, gone: Sequence[int], inputs: Sequence[Value], **attrs: Any
) -> list[View] | None:
    """A reduction over these axes of the base, which stay as 1 or go."""
    axes, base = _axes(x), x.base.shape
    if o.attrs.get("keepdims", 1):
        shape = [1 if i in gone else d for i, d in enumerate(base)]
        return _back(do.emit(o, inputs, [shape], **attrs), axes)
    left = [i for i in range(len(base)) if i not in gone]
    made = do.emit(o, inputs, [[base[i] for i in left]], **attrs)
    return _back(made, [left.index(a) for a in axes if a in left])


@handles("TopK")
def _top_k(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """Where the axis is still the innermost."""
    x, count = _first(do, views), views[1]
    if x is None or count is None:
        return None
    axes = _axes(x)
    axis = axes[o.attrs.get("axis", -1) % len(axes)]
    if any(d != 1 for d in x.base.shape[axis + 1 :]):
        return None
    shapes = [_to_base(v.shape, axes) for v in o.outputs]
    return _back(do.emit(o, [x.base, do.in_place(count)], shapes, axis=axis), axes)


# ---------------------------------------------------------------------------------- matrix products


@handles("MatMul", "Gemm")
def _product(do: Arranger, o: Op, views: Views) -> list[View] | None:
    """Of rows whose elements lie in another order, the weights' rows are put into that order instead; not where
    these are so many that they had better stay where they are mapped from a file: then the few elements move."""
    x, weights = views[0], views[1]
    if x is None or weights is None or weights.base.const is None or do.exact or o.attrs.get("transA"):
        return None
    array = weights.base.const
    if array.ndim != 2 or len(x.shape) < 2 or x.in_order or array.nbytes > _MOST_BYTES:
        return None
    row = x.groups()[-1]
    others = len(x.order) - len(row)
    if x.order[:others] != tuple(range(others)):
        return None
    turned = bool(o.attrs.get("transB"))
    kept = array.T if turned else array
    place = [x.order[others:].index(others + i) for i in range(len(row))]
    sizes = [x.pieces[i] for i in x.order[others:]]
    rows = kept.reshape(*sizes, -1).transpose(*place, len(row)).reshape(kept.shape)
    rows = np.ascontiguousarray(rows.T if turned else rows)
    flat = View(x.base, x.pieces, tuple(range(len(x.order))), x.shape)
    inputs = [do.in_place(flat), do.constant(rows), *(do.in_place(v) for v in _present(views[2:]))]
    return [whole(do.emit(o, inputs, [o.outputs[0].shape])[0])]
