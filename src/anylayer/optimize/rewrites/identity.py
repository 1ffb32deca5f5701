"""Operators that return their input, and chains that one operator replaces."""

from __future__ import annotations

import numpy as np

from anylayer.graph.facts import slice_cuts
from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_one, is_static
from anylayer.network import DType
from anylayer.optimize.rules import Rewriter, rule

_NEUTRAL = {"Add": 0, "Sub": 0, "Mul": 1, "Div": 1}


@rule("Identity")
def _identity(new: Rewriter, o: Op) -> list[Value] | None:
    """Remove Identity."""
    return [o.first]


@rule("Max", "Min", "Sum", "Mean", "Dropout")
def _single_operand(new: Rewriter, o: Op) -> list[Value] | None:
    """Remove Max, Min, Sum and Mean of one array, and Dropout: OpenVINO 2026.4 loses names of inputs."""
    single = len(o.inputs) == 1 or (o.op == "Dropout" and len(o.outputs) == 1 and o.inputs[2:] in ([], [None]))
    return [o.first] if single and o.first.shape == o.outputs[0].shape else None


@rule("Cast")
def _cast(new: Rewriter, o: Op) -> list[Value] | None:
    """Remove a Cast to the same dtype, and a Cast to a wider dtype before another Cast."""
    x, out = o.first, o.outputs[0]
    if x.dtype == out.dtype:
        return [x]
    inner = new.producer(x, "Cast")
    if inner is None:
        return None
    origin = inner.first
    if not _is_wider(origin.dtype, x.dtype):
        return None
    return [origin] if origin.dtype == out.dtype else new.emit(o, "Cast", [origin], **o.attrs)


def _is_wider(a: DType, b: DType) -> bool:
    """Return whether dtype `b` is of the same kind as `a` and holds each value of `a`."""
    return (a.kind == b.kind or a.kind == "b") and np.can_cast(a, b)


@rule("Expand", "Reshape")
def _same_shape(new: Rewriter, o: Op) -> list[Value] | None:
    """Remove Expand and Reshape to the same shape."""
    x = o.first
    return [x] if x.shape == o.outputs[0].shape and is_static(x.shape) else None


@rule("Reshape")
def _reshapes(new: Rewriter, o: Op) -> list[Value] | None:
    """Remove a Reshape before another Reshape."""
    inner, target = new.producer(o.inputs[0], "Reshape"), o.inputs[1]
    if inner is None or target is None or target.const is None or (target.const == 0).any():
        return None
    if inner.first.shape == o.outputs[0].shape and is_static(o.outputs[0].shape):
        return [inner.first]
    return new.emit(o, "Reshape", [inner.first, target])


@rule("Transpose")
def _transposes(new: Rewriter, o: Op) -> list[Value] | None:
    """Combine two Transposes, remove the identity, and make one that only moves axes of size 1 a Reshape."""
    x, perm = o.first, list(o["perm"])
    inner = new.producer(x, "Transpose")
    if inner is not None:
        x, perm = inner.first, [inner["perm"][i] for i in perm]
    if perm == list(range(len(perm))):
        return [x]
    moving = [a for a in perm if not is_one(x.shape[a])]
    if moving == sorted(moving) and is_static(x.shape):
        target = new.ints(o.outputs[0].shape)
        reshape = Op("Reshape", [x, target], o.outputs, {}, o.place, o.scope)
        return _reshapes(new, reshape) or new.emit(o, "Reshape", reshape.inputs)
    return None if inner is None else new.emit(o, "Transpose", [x], perm=perm)


@rule("Concat")
def _concats(new: Rewriter, o: Op) -> list[Value] | None:
    """Combine a Concat with the Concats along the same axis before it, and remove a Concat of one array."""
    parts: list[Value | None] = []
    for v in o.inputs:
        inner = new.producer(v, "Concat")
        parts.extend(inner.inputs if inner is not None and inner.attrs == o.attrs else [v])
    if len(parts) == 1:
        return [v for v in parts if v is not None]
    return new.emit(o, "Concat", parts, **o.attrs) if len(parts) > len(o.inputs) else None


@rule("Slice")
def _slice_of_concat(new: Rewriter, o: Op) -> list[Value] | None:
    """Replace a Slice of a Concat that selects some of its parts by these parts, so that assignments to each index
    of an axis, one after the other, become one Concat."""
    concat, cuts = new.producer(o.inputs[0], "Concat"), slice_cuts(o)
    if concat is None or cuts is None or len(cuts) != 1 or not is_static(o.outputs[0].shape):
        return None
    axis, start, stop, step = cuts[0]
    if step != 1 or axis != concat["axis"] % len(o.outputs[0].shape):
        return None
    at, parts = 0, list[Value]()
    for part in concat.inputs:
        if part is None or not is_static(part.shape):
            return None
        if start <= at and at + part.shape[axis] <= stop:
            parts.append(part)
        at += part.shape[axis]
    if not parts or sum(part.shape[axis] for part in parts) != stop - start:
        return None
    return parts if len(parts) == 1 else new.emit(o, "Concat", parts, axis=axis)


@rule("Sub", "Mul", "Div")
def _neutral_operand(new: Rewriter, o: Op) -> list[Value] | None:
    """Replace x - 0, x * 1 and x / 1 by x."""
    if not new.is_float32(o):
        return None
    pairs = [o.inputs, o.inputs[::-1]] if o.op in ("Add", "Mul") else [o.inputs]
    for x, c in pairs:
        if x is None or c is None or c.const is None or x.shape != o.outputs[0].shape:
            continue
        if (c.const == _NEUTRAL[o.op]).all():
            return [x]
    return None


@rule("Add", kind="faster", figure="saves a pass over the array")
def _zero_added(new: Rewriter, o: Op) -> list[Value] | None:
    """Replace x + 0 by x, except before a division by it. Only the sign of zeros can differ."""
    return None if o.outputs[0] in new.before_divisors else _neutral_operand(new, o)
