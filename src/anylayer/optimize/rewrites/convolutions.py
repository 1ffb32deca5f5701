"""Around convolutions and matrix products: what scales and shifts their channels becomes weights, what pads before
them their own padding; means over whole maps; a permutation that OpenVINO takes for another."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.rewrites.matching import F4, ints, last, number, plain, step
from anylayer.optimize.rewrites.scaling import one_step
from anylayer.optimize.simplify import Rewriter, rule


def _normalised(o: Op) -> tuple[Value, Array, Array] | None:
    """(x, scale, shift) of a BatchNormalization with constant statistics."""
    x, *others = o.inputs
    known = [v.const.astype(np.float64) for v in others if v is not None and v.const is not None]
    if x is None or len(known) != 4 or o.attrs.get("training_mode"):
        return None
    scale, bias, mean, variance = known
    factor = scale / np.sqrt(variance + o.attrs.get("epsilon", 1e-5))
    return x, factor, bias - mean * factor


@rule(
    *("BatchNormalization", "Mul", "Div", "Add", "Sub"),
    inexact=True,
    figure="a pass over the array less; engines that do so themselves compile faster",
)
def _into_weights(new: Rewriter, o: Op) -> list[Value] | None:
    """A scale and a shift a channel behind a convolution or a matrix product that nothing else reads."""
    if not plain(o):
        return None
    found = _normalised(o) if o.op == "BatchNormalization" else one_step(o, *o.inputs)
    maker = new.maker(found[0], "") if found is not None else None
    if found is None or maker is None or not new.read_once(found[0]):
        return None
    _, scale, shift = found
    weights = _weights(maker)
    if weights is None or not np.isfinite(scale).all():
        return None
    array, axis_scale = weights
    bias = maker.inputs[2] if len(maker.inputs) > 2 else None
    if bias is not None and (bias.const is None or bias.shape != scale.shape):
        return None
    kernel = maker.inputs[1] if (scale == 1).all() else new.constant(_times(array, scale, axis_scale))
    total = shift if bias is None or bias.const is None else bias.const * scale + shift
    op = "Gemm" if maker.op == "MatMul" and total.any() else maker.op
    inputs = [maker.inputs[0], kernel]
    if total.any():
        inputs.append(new.constant(np.asarray(total, np.float32)))
    return new.emit(o, op, inputs, **maker.attrs)


def _weights(maker: Op) -> tuple[Array, tuple[int, ...]] | None:
    """(weights, shape in which one number an output channel multiplies them)."""
    weights = maker.inputs[1] if len(maker.inputs) > 1 else None
    if weights is None or weights.const is None or weights.dtype != F4:
        return None
    array, group = weights.const, maker.attrs.get("group", 1)
    if maker.op == "Conv":
        return array, (-1, *(1,) * (array.ndim - 1))
    if maker.op == "ConvTranspose":
        return array, (group, 1, -1, *(1,) * (array.ndim - 2))
    if maker.op == "MatMul" and array.ndim == 2 and len(maker.outputs[0].shape) == 2:
        return array, (1, -1)
    if maker.op == "Gemm" and not set(maker.attrs) - {"transB"}:
        return array, ((-1, 1) if maker.attrs.get("transB") else (1, -1))
    return None


def _times(array: Array, scale: Array, shape: tuple[int, ...]) -> Array:
    factors = scale.astype(np.float32).reshape(shape)
    grouped = array.reshape(shape[0], -1, *array.shape[1:]) if len(shape) > array.ndim else array
    return np.asarray(grouped * factors).reshape(array.shape)


# ---------------------------------------------------------------------------------------- padding


def _padding(new: Rewriter, value: Value | None) -> tuple[Value, list[int], float] | None:
    """(x, cells before and behind each spatial axis, their filling) where a value is x padded along these only."""
    maker = new.maker(value, "Pad")
    if maker is None or maker.attrs.get("mode", "constant") != "constant" or not plain(maker):
        return None
    x, pads = maker.inputs[0], ints(maker.inputs[1])
    fill = number(maker.inputs[2]) if len(maker.inputs) > 2 and maker.inputs[2] is not None else 0.0
    if x is None or pads is None or fill is None or len(maker.inputs) > 3:
        return None
    rank = len(x.shape)
    before, after = pads[:rank], pads[rank:]
    if rank < 3 or min(pads) < 0 or any((*before[:2], *after[:2])):
        return None
    return x, [*before[2:], *after[2:]], fill


def _with_pads(o: Op, more: list[int]) -> dict[str, Any] | None:
    """An operator's attributes with so much more padding."""
    if o.attrs.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    own = o.attrs.get("pads") or [0] * len(more)
    return {**o.attrs, "pads": [int(a + b) for a, b in zip(own, more)]}


@rule("Conv", figure="a pass over the array less")
def _pad_and_conv(new: Rewriter, o: Op) -> list[Value] | None:
    """Zeros around what a convolution reads are its own padding."""
    found = _padding(new, o.inputs[0])
    attrs = _with_pads(o, found[1]) if found is not None else None
    if found is None or attrs is None or found[2] != 0:
        return None
    return new.emit(o, "Conv", [found[0], *o.inputs[1:]], **attrs)


@rule("AveragePool", figure="a pass over the array less")
def _pad_and_average(new: Rewriter, o: Op) -> list[Value] | None:
    """Zeros around what is averaged are padding that counts."""
    found = _padding(new, o.inputs[0])
    counted = o.attrs.get("count_include_pad") or not any(o.attrs.get("pads") or [0])
    if found is None or found[2] != 0 or not counted or o.attrs.get("ceil_mode"):
        return None
    attrs = _with_pads(o, found[1])
    if attrs is None or not _reach(attrs):
        return None
    return new.emit(o, "AveragePool", [found[0]], **{**attrs, "count_include_pad": 1})


@rule("MaxPool", figure="a pass over the array less")
def _pad_and_max(new: Rewriter, o: Op) -> list[Value] | None:
    """Padding that never is the largest: minus infinity, or zeros around what is never negative."""
    found = _padding(new, o.inputs[0])
    if found is None or len(o.outputs) != 1 or o.attrs.get("ceil_mode") or any(o.attrs.get("pads") or [0]):
        return None
    if found[2] > np.finfo(np.float32).min and not (found[2] == 0 and _never_negative(new, found[0])):
        return None
    attrs = _with_pads(o, found[1])
    return new.emit(o, "MaxPool", [found[0]], **attrs) if attrs is not None and _reach(attrs) else None


def _reach(attrs: dict[str, Any]) -> bool:
    """Whether every window covers a cell that is no padding."""
    return all(p < k for p, k in zip(attrs["pads"], attrs["kernel_shape"] * 2)) and not any(
        d != 1 for d in attrs.get("dilations") or [1]
    )


def _never_negative(new: Rewriter, value: Value | None, depth: int = 6) -> bool:
    maker = new.maker(value)
    if maker is None or depth == 0:
        return False
    if maker.op in ("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Softplus", "Sqrt"):
        return True
    if maker.op == "Clip":
        low = number(maker.inputs[1]) if len(maker.inputs) > 1 else None
        return low is not None and low >= 0
    if maker.op in ("MaxPool", "AveragePool", "Resize"):
        cubic = maker.attrs.get("mode") == "cubic"
        return not cubic and _never_negative(new, maker.inputs[0], depth - 1)
    if maker.op in ("Concat", "Add", "Mul"):
        return all(_never_negative(new, v, depth - 1) for v in maker.inputs)
    return False


# ------------------------------------------------------------------------------------------ means


@rule(
    "ReduceMean",
    inexact=True,
    figure="joins the layout of the convolutions around it",
)
def _mean_of_map(new: Rewriter, o: Op) -> list[Value] | None:
    """The mean over all of a map of (N, C, H, W) is GlobalAveragePool."""
    x, axes = o.inputs[0], ints(o.inputs[1]) if len(o.inputs) > 1 else None
    if x is None or axes is None or not plain(o) or len(x.shape) != 4 or sorted(a % 4 for a in axes) != [2, 3]:
        return None
    return last(new, o, step(new, o, "GlobalAveragePool", [x], (*x.shape[:2], 1, 1)))


# ----------------------------------------------------------------------------------- permutations


@rule(
    "Gather",
    engines=("openvino",),
    late=True,
    figure="OpenVINO 2026.4 puts the order of a Gather before a Conv into its weights the wrong way around",
)
def _permutation(new: Rewriter, o: Op) -> list[Value] | None:
    """All of an axis in another order, which is not its own inverse: by a column of indices."""
    x, indices = o.inputs[0], o.inputs[1]
    if x is None or indices is None or indices.const is None or indices.const.ndim != 1 or not is_static(x.shape):
        return None
    axis = o.attrs.get("axis", 0) % len(x.shape)
    order = indices.const % x.shape[axis]
    if len(order) != x.shape[axis] or (np.sort(order) != np.arange(len(order))).any():
        return None
    if (order[order] == np.arange(len(order))).all():
        return None
    shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    column = new.constant(order.reshape(-1, 1))
    return last(new, o, step(new, o, "Gather", [x, column], shape, x.dtype, axis=axis))
