"""How operators are applied to views of their inputs: see optimize.layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
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
    views = _present(do.operands)
    best, lowest = None, sum(map(do.cost, views)) + 1  # + 1: prefer a layout that moves axes at the same cost
    for leader in views:
        if leader.shape != shape or not leader.moves_axes or leader.base.const is not None:
            continue
        operands = [None if v is None else _operand(v, leader) for v in do.operands]
        if any(v is None for v, operand in zip(operands, do.operands) if operand is not None):
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


_AxisRule = Callable[[LayoutPropagation, Op, View, tuple[int, ...]], "list[View] | None"]


def _along(*ops: str) -> Callable[[_AxisRule], _AxisRule]:
    """Register the decorated function as the rule for operators whose first input is a transposition that moves
    axes. The function also gets this view, and the axes of the view's base in the order of the view.
    """

    def enter(function: _AxisRule) -> _AxisRule:
        @wraps(function)
        def apply(do: LayoutPropagation, o: Op) -> list[View] | None:
            x = do.operands[0]
            x = do.as_transposition(x) if x is not None and x.moves_axes else None
            return function(do, o, x, x.axes) if x is not None and x.axes is not None and x.moves_axes else None

        rule(*ops, stage="layout")(apply)
        return function

    return enter


def _to_base(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    """Permute a list with one number per axis of a view to the order of the axes of its base."""
    return [shape[i] for i in inverse(axes)]


def _apply_moved(
    do: LayoutPropagation, o: Op, axes: Sequence[int], inputs: Sequence[Value | None], **attrs: Any
) -> list[View]:
    """Apply an operator in the layout of a base, and return the outputs as views with these axes."""
    outputs = do.emit(o, inputs, [_to_base(v.shape, axes) for v in o.outputs], **attrs)
    return [transposed_view(v, axes) for v in outputs]


def _others(do: LayoutPropagation, first: int = 1) -> list[Value | None]:
    """Return the materialized inputs from number `first` on."""
    return [None if v is None else do.materialize(v) for v in do.operands[first:]]


@_along("QuantizeLinear", "DequantizeLinear")
def _quantize(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    if o["block_size"]:
        return None
    return _apply_moved(do, o, axes, [x.base, *_others(do)], axis=axes[o["axis"] % len(axes)])


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
    return _apply_moved(do, o, axes, [do.materialize(v) for v in moved], axis=axes[o["axis"] % len(axes)])


@_along("Split")
def _split(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    return _apply_moved(do, o, axes, [x.base, *_others(do)], axis=axes[o["axis"] % len(axes)])


@_along("Slice")
def _slice(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    named = _integers(do.operands[3]) if len(do.operands) > 3 else None
    if named is None:
        return None
    inputs = [x.base, *_others(do)]
    inputs[3] = do.ints([axes[a % len(axes)] for a in named])
    return _apply_moved(do, o, axes, inputs)


@_along("Pad")
def _pad(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    pads, rank = _integers(do.operands[1]), len(axes)
    if pads is None or len(do.operands) > 3:
        return None
    moved = do.ints([*_to_base(pads[:rank], axes), *_to_base(pads[rank:], axes)])
    return _apply_moved(do, o, axes, [x.base, moved, *_others(do, 2)])


@_along("Expand", "Tile")
def _repeated(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    """Permute the second operand of Expand or Tile, which has one number per axis."""
    counts = _integers(do.operands[1])
    if counts is None or len(counts) != len(x.shape):
        return None
    return _apply_moved(do, o, axes, [x.base, do.ints(_to_base(counts, axes))])


@_along("Resize")
def _resize(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    """Permute the sizes, where they are given for all axes."""
    if len(do.operands) != 4 or do.operands[1:3] != [None, None] or "axes" in o.attrs:
        return None
    if o["keep_aspect_ratio_policy"] != "stretch":
        return None
    return _apply_moved(do, o, axes, [x.base, None, None, do.ints(_to_base(o.outputs[0].shape, axes))])


@_along("Gather")
def _gather(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    """Select by a constant list of indices. Along an axis that becomes the innermost one, a Gather copies single
    numbers, which is slow. There the rule applies only if the result is larger than the input.
    """
    indices = do.operands[1]
    if indices is None or len(indices.shape) != 1 or indices.base.const is None:
        return None
    own_axis = o["axis"] % len(x.shape)
    axis = axes[own_axis]
    if axis == len(axes) - 1 and own_axis != axis and len(indices.base.const) <= x.shape[own_axis]:
        return None
    return _apply_moved(do, o, axes, [x.base, indices.base], axis=axis)


@_along("CumSum")
def _cumsum(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    axis = _integers(do.operands[1])
    if axis is None or do.operands[1] is None:
        return None
    moved = do.constant(np.asarray(axes[axis[0] % len(axes)], do.operands[1].base.dtype))
    return _apply_moved(do, o, axes, [x.base, moved])


@_along("Softmax", "LogSoftmax", "TopK")
def _innermost(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    """Apply a softmax or TopK to the base if its axis is innermost there: engines transpose for others."""
    axis = axes[o["axis"] % len(axes)]
    if any(d != 1 for d in x.base.shape[axis + 1 :]):
        return None
    return _apply_moved(do, o, axes, [x.base, *_others(do)], axis=axis)


@_along("BatchNormalization", "InstanceNormalization", "LRN")
def _channels(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    """Apply the operator where axes 0 and 1, samples and channels, are the same in the base."""
    if axes[:2] != (0, 1) or len(o.outputs) != 1:
        return None
    return _apply_moved(do, o, axes, [x.base, *_others(do)])


@_along(*REDUCTIONS)
def _reduce(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    named = _integers(do.operands[1]) if len(do.operands) > 1 else None
    if not named or (do.exact and o in SUMS):
        return None
    gone = sorted(axes[a % len(axes)] for a in named)
    return _reduced(do, o, axes, gone, [x.base, do.ints(gone)])


@_along("ArgMax", "ArgMin")
def _arg(do: LayoutPropagation, o: Op, x: View, axes: tuple[int, ...]) -> list[View] | None:
    axis = axes[o["axis"] % len(axes)]
    return _reduced(do, o, axes, [axis], [x.base], axis=axis)


def _reduced(
    do: LayoutPropagation, o: Op, axes: Sequence[int], gone: Sequence[int], inputs: Sequence[Value], **attrs: Any
) -> list[View]:
    """Reduce along the axes `gone` of the base, with the operator's keepdims."""
    left = [i for i in range(len(axes)) if i not in gone or o["keepdims"]]
    return _apply_moved(do, o, [left.index(a) for a in axes if a in left], inputs, **attrs)


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
