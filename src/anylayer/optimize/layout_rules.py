"""How operators are applied to views of their inputs: see optimize.layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anylayer.graph.arrangement import inverse
from anylayer.graph.facts import integers
from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import ELEMENTWISE, REDUCTIONS, SUMS
from anylayer.optimize.layout import LayoutPropagation, broadcast_view
from anylayer.optimize.rules import rule
from anylayer.optimize.views import View, identity_view, transposed_view

Views = list["View | None"]
_MAX_WEIGHT_BYTES = 1 << 25
"""The limit for weights that are copied, with permuted rows, to save a Transpose of the input: 32 MiB."""


def _present(views: Views) -> list[View]:
    return [v for v in views if v is not None]


def _integers(view: View | None) -> list[int] | None:
    return None if view is None else integers(view.base)


# ------------------------------------------------------------------ elements are moved


@rule("Identity", stage="layout")
def _identity(do: LayoutPropagation, o: Op) -> list[View] | None:
    return _present(do.operands)


@rule("Transpose", stage="layout")
def _transpose(do: LayoutPropagation, o: Op) -> list[View] | None:
    return [_present(do.operands)[0].transposed(o["perm"])]


@rule("Reshape", stage="layout")
def _reshape(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Reshape the view. A view that keeps the order of elements is materialized at once, unless it is a
    transposition that only moves axes of size 1."""
    x = _present(do.operands)[0]
    y = x.reshaped(o.outputs[0].shape)
    if y is None:
        return None
    return [identity_view(do.materialize(y, o.outputs[0].name))] if y.keeps_order and y.axes is None else [y]


# ------------------------------------------------------------------------- elementwise


@rule(*ELEMENTWISE, stage="layout")
def _elementwise(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Apply the operator in the layout of one of its operands, such that the least data is moved. Operands may
    broadcast. Return None if this moves more data than materializing all operands.
    """
    shape = o.outputs[0].shape
    own = _present(do.operands)
    best, lowest = None, sum(map(do.cost, own)) + 1  # + 1: at the same cost a layout that moves axes is preferred
    for leader in own:
        if leader.shape != shape or not leader.moves_axes or leader.base.const is not None:
            continue
        operands = [None if v is None else _operand(v, leader) for v in do.operands]
        if any(v is None for v, given in zip(operands, do.operands) if given is not None):
            continue
        cost = sum(map(do.cost, _present(operands)))
        if cost < lowest:
            best, lowest = (leader, operands), cost
    if best is None:
        return None
    leader, operands = best
    inputs = [None if v is None else do.materialize(v) for v in operands]
    return [replace(leader, base=do.emit(o, inputs, [leader.base.shape])[0])]


def _operand(view: View, leader: View) -> View | None:
    """Return an operand as a view that broadcasts to the base of `leader`, the view whose layout is used."""
    if view.base is leader.base and (view.pieces, view.permutation, view.shape) == (
        leader.pieces,
        leader.permutation,
        leader.shape,
    ):
        return identity_view(view.base)
    return broadcast_view(view, leader)


# -------------------------------------------------------------------------- along an axis


def _first(do: LayoutPropagation) -> View | None:
    """Return the first input as a transposition that moves axes, or None."""
    x = do.operands[0]
    if x is None or not x.moves_axes:
        return None
    x = do.as_transposition(x)
    return x if x is not None and x.axes is not None and x.moves_axes else None


def _axes(view: View) -> tuple[int, ...]:
    if view.axes is None:
        raise ValueError("the view is not a transposition")
    return view.axes


def _back(values: Sequence[Value], axes: Sequence[int]) -> list[View]:
    """Return values in the layout of a view's base as views with the view's axes."""
    return [transposed_view(v, axes) for v in values]


def _to_base(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Permute a list with one number per axis of a view to the order of the axes of its base."""
    return [shape[i] for i in inverse(axes)]


@rule("Concat", stage="layout")
def _concat(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Concatenate in the layout of the part for which the least data moves.

    If no part is a transposition, views with split axes (shuffled channels) are made transpositions first.
    """
    parts = _present(do.operands)
    return _concatenated(do, o, parts) or _concatenated(do, o, [do.as_transposition(v) or v for v in parts])


def _concatenated(do: LayoutPropagation, o: Op, parts: Sequence[View]) -> list[View] | None:
    best, lowest = None, sum(map(do.cost, parts)) + 1
    for axes in {v.axes for v in parts if v.axes is not None and v.moves_axes}:
        moved = [v.transposed(inverse(axes)) for v in parts]
        cost = sum(map(do.cost, moved))
        if cost < lowest:
            best, lowest = (axes, moved), cost
    if best is None:
        return None
    axes, moved = best
    shape = _to_base(o.outputs[0].shape, axes)
    axis = axes[o["axis"] % len(axes)]
    return _back(do.emit(o, [do.materialize(v) for v in moved], [shape], axis=axis), axes)


@rule("Split", stage="layout")
def _split(do: LayoutPropagation, o: Op) -> list[View] | None:
    x = _first(do)
    if x is None:
        return None
    axes = _axes(x)
    shapes = [_to_base(v.shape, axes) for v in o.outputs]
    inputs = [x.base, *(None if v is None else do.materialize(v) for v in do.operands[1:])]
    return _back(do.emit(o, inputs, shapes, axis=axes[o["axis"] % len(axes)]), axes)


@rule("Slice", stage="layout")
def _slice(do: LayoutPropagation, o: Op) -> list[View] | None:
    x = _first(do)
    named = _integers(do.operands[3]) if len(do.operands) > 3 else None
    if x is None or named is None:
        return None
    axes = _axes(x)
    moved = do.ints([axes[a % len(axes)] for a in named])
    inputs: list[Value | None] = [None if v is None else do.materialize(v) for v in do.operands]
    inputs[0], inputs[3] = x.base, moved
    return _back(do.emit(o, inputs, [_to_base(o.outputs[0].shape, axes)]), axes)


@rule("Pad", stage="layout")
def _pad(do: LayoutPropagation, o: Op) -> list[View] | None:
    x, pads = _first(do), _integers(do.operands[1])
    if x is None or pads is None or len(do.operands) > 3:
        return None
    axes = _axes(x)
    rank = len(axes)
    moved = do.ints([*_to_base(pads[:rank], axes), *_to_base(pads[rank:], axes)])
    inputs = [x.base, moved, *(None if v is None else do.materialize(v) for v in do.operands[2:])]
    return _back(do.emit(o, inputs, [_to_base(o.outputs[0].shape, axes)]), axes)


@rule("Expand", "Tile", stage="layout")
def _repeated(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Permute the second operand of Expand or Tile, which has one number per axis."""
    x, counts = _first(do), _integers(do.operands[1])
    if x is None or counts is None or len(counts) != len(x.shape):
        return None
    axes = _axes(x)
    moved = do.ints(_to_base(counts, axes))
    return _back(do.emit(o, [x.base, moved], [_to_base(o.outputs[0].shape, axes)]), axes)


@rule("Resize", stage="layout")
def _resize(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Permute the sizes, where they are given for all axes."""
    x = _first(do)
    if x is None or len(do.operands) != 4 or do.operands[1:3] != [None, None] or "axes" in o.attrs:
        return None
    if o["keep_aspect_ratio_policy"] != "stretch":
        return None
    axes = _axes(x)
    shape = _to_base(o.outputs[0].shape, axes)
    return _back(do.emit(o, [x.base, None, None, do.ints(shape)], [shape]), axes)


@rule("Gather", stage="layout")
def _gather(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Select by a constant list of indices. Along an axis that becomes the innermost one, a Gather copies single
    numbers, which is slow. There the rule applies only if the result is larger than the input.
    """
    x, indices = _first(do), do.operands[1]
    if x is None or indices is None or len(indices.shape) != 1 or indices.base.const is None:
        return None
    axes, own = _axes(x), o["axis"] % len(x.shape)
    axis = axes[own]
    shape = _to_base(o.outputs[0].shape, axes)
    if axis == len(axes) - 1 and own != axis and len(indices.base.const) <= x.shape[own]:
        return None
    return _back(do.emit(o, [x.base, indices.base], [shape], axis=axis), axes)


@rule("CumSum", stage="layout")
def _cumsum(do: LayoutPropagation, o: Op) -> list[View] | None:
    x, axis = _first(do), _integers(do.operands[1])
    if x is None or axis is None or do.operands[1] is None:
        return None
    axes = _axes(x)
    moved = do.constant(np.asarray(axes[axis[0] % len(axes)], do.operands[1].base.dtype))
    return _back(do.emit(o, [x.base, moved], [x.base.shape]), axes)


@rule("Softmax", "LogSoftmax", stage="layout")
def _softmax(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Apply a softmax to the base if its axis is the innermost axis there: for other axes, engines transpose."""
    x = _first(do)
    if x is None:
        return None
    axes = _axes(x)
    axis = axes[o["axis"] % len(axes)]
    if any(d != 1 for d in x.base.shape[axis + 1 :]):
        return None
    return _back(do.emit(o, [x.base], [x.base.shape], axis=axis), axes)


@rule("BatchNormalization", "InstanceNormalization", "LRN", stage="layout")
def _channels(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Apply the operator where axes 0 and 1, samples and channels, are the same in the base."""
    x = _first(do)
    if x is None or _axes(x)[:2] != (0, 1) or len(o.outputs) != 1:
        return None
    inputs = [x.base, *(do.materialize(v) for v in _present(do.operands[1:]))]
    return _back(do.emit(o, inputs, [x.base.shape]), _axes(x))


@rule(*REDUCTIONS, stage="layout")
def _reduce(do: LayoutPropagation, o: Op) -> list[View] | None:
    x, named = _first(do), _integers(do.operands[1]) if len(do.operands) > 1 else None
    if x is None or not named or (do.exact and o in SUMS):
        return None
    axes = _axes(x)
    gone = sorted(axes[a % len(axes)] for a in named)
    return _reduced(do, o, x, gone, [x.base, do.ints(gone)])


@rule("ArgMax", "ArgMin", stage="layout")
def _arg(do: LayoutPropagation, o: Op) -> list[View] | None:
    x = _first(do)
    if x is None:
        return None
    axes = _axes(x)
    axis = axes[o["axis"] % len(axes)]
    return _reduced(do, o, x, [axis], [x.base], axis=axis)


def _reduced(
    do: LayoutPropagation, o: Op, x: View, gone: Sequence[int], inputs: Sequence[Value], **attrs: Any
) -> list[View] | None:
    """Reduce along the axes `gone` of the base, with the operator's keepdims."""
    axes, base = _axes(x), x.base.shape
    if o["keepdims"]:
        shape = [1 if i in gone else d for i, d in enumerate(base)]
        return _back(do.emit(o, inputs, [shape], **attrs), axes)
    left = [i for i in range(len(base)) if i not in gone]
    outputs = do.emit(o, inputs, [[base[i] for i in left]], **attrs)
    return _back(outputs, [left.index(a) for a in axes if a in left])


@rule("TopK", stage="layout")
def _top_k(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Apply a TopK to the base if its axis is the innermost axis there."""
    x, count = _first(do), do.operands[1]
    if x is None or count is None:
        return None
    axes = _axes(x)
    axis = axes[o["axis"] % len(axes)]
    if any(d != 1 for d in x.base.shape[axis + 1 :]):
        return None
    shapes = [_to_base(v.shape, axes) for v in o.outputs]
    return _back(do.emit(o, [x.base, do.materialize(count)], shapes, axis=axis), axes)


# ------------------------------------------------------------------------ matrix products


@rule("MatMul", "Gemm", stage="layout")
def _product(do: LayoutPropagation, o: Op) -> list[View] | None:
    """Permute the rows of constant weights instead of the elements of each row of the input.

    Return None for weights above 32 MiB, which may be mapped from a file: then it is faster to permute the input.
    """
    x, weights = do.operands[0], do.operands[1]
    if x is None or weights is None or weights.base.const is None or do.exact:
        return None
    if o.op == "Gemm" and o["transA"]:
        return None
    array = weights.base.const
    if array.ndim != 2 or len(x.shape) < 2 or x.keeps_order or array.nbytes > _MAX_WEIGHT_BYTES:
        return None
    row = x.groups()[-1]
    others = len(x.permutation) - len(row)
    if x.permutation[:others] != tuple(range(others)):
        return None
    transposed = o.op == "Gemm" and bool(o["transB"])
    matrix = array.T if transposed else array
    positions = [x.permutation[others:].index(others + i) for i in range(len(row))]
    sizes = [x.pieces[i] for i in x.permutation[others:]]
    rows = matrix.reshape(*sizes, -1).transpose(*positions, len(row)).reshape(matrix.shape)
    rows = np.ascontiguousarray(rows.T if transposed else rows)
    flat = replace(x, permutation=tuple(range(len(x.permutation))), axes=None)
    inputs = [do.materialize(flat), do.constant(rows), *(do.materialize(v) for v in _present(do.operands[2:]))]
    return [identity_view(do.emit(o, inputs, [o.outputs[0].shape])[0])]
