"""Checks and conversions of arguments that layers share: axes, constants, sizes of arrays, windows and padding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from anylayer.errors import TraceError, need
from anylayer.graph.sized import elements_of
from anylayer.graph.sizes import Dim, is_static
from anylayer.graph.symbolic import extreme, is_symbolic, symbolic_shape
from anylayer.graph.symbolic import plain as plain
from anylayer.graph.symbolic import same as same
from anylayer.graph.symbolic import same_shape as same_shape
from anylayer.layer.contract import MAX_WEIGHT_VALUES
from anylayer.layer.registry import Definition
from anylayer.network import MAX_VALUES, Array, Node
from anylayer.ops._indexing import axes_of as axes_of
from anylayer.ops._indexing import axis_of as axis_of
from anylayer.ops._spatial import Pairs as Pairs
from anylayer.ops._spatial import extent as extent
from anylayer.ops._spatial import flat_pads as flat_pads
from anylayer.ops._spatial import pad_pairs as pad_pairs
from anylayer.ops._spatial import window_counts as window_counts
from anylayer.tracing import constant_of, hold, is_traced, record, running_graph, size_list, substituted
from anylayer.tracing.primitives import concat, sized


def constant(x: Any, what: str) -> Array:
    """Return an input that must be a constant, as an array.

    Raise TraceError when it is computed from the network's inputs; the layer is then a host call.
    """
    array = constant_of(x)
    rule = f"{what} must be a constant, but it is computed from the network's inputs"
    need(array is not None and elements_of(array) is None, rule, TraceError)
    return np.asarray(array)


def is_constant(x: Any) -> bool:
    """Return whether an input is absent, or does not depend on the data of the network's inputs, as sizes do."""
    return x is None or constant_of(x) is not None


def holds_sizes(x: Any) -> bool:
    """Return whether an input holds sizes of the network's inputs, or sizes that depend on data."""
    return size_list(x) is not None


def converted(x: Any, function: Callable[[Any], Any], what: str) -> Any:
    """Return a function of the array of a constant input, such as weights whose bits it unpacks.

    If the network stores the input as a quantized constant, it stores the result so, too: operators that use it
    are recorded. Raise TraceError when the input is computed from the network's inputs.
    """
    stored = constant_of(x)
    if stored is None or size_list(x) is not None:
        return function(constant(x, what))
    return hold(running_graph(), function(stored)) if is_traced(x) else function(stored)


def integers(x: Any, what: str, rank: int | None = None) -> list[int]:
    """Return the integers of a constant input in C order. Raise LayerError when its rank exceeds `rank`.

    An input that holds sizes of the network's inputs is a constant, too; the integers may then be symbolic.
    """
    sizes = size_list(x)
    if sizes is not None:
        need(rank is None or x.ndim <= rank, f"{what} must be a list of numbers, got shape {tuple(x.shape)}")
        return sizes
    values = constant(x, what)
    need(values.dtype.kind in "iu", f"{what} must be integers, got {values.dtype}")
    need(rank is None or values.ndim <= rank, f"{what} must be a list of numbers, got shape {values.shape}")
    return [int(v) for v in values.reshape(-1)]


def integer(x: Any, what: str) -> int:
    """Return the integer of a constant input with one element. Raise LayerError when it has another size."""
    values = integers(x, what, 1)
    need(len(values) == 1, f"{what} must be one number, got {len(values)}")
    return values[0]


def inner_layer(definition: Definition, node: Node, dialect: str | None) -> Any:
    """Return a layer that another layer calls, with the params and the blobs of `node`."""
    layer_class: Any = substituted(definition.layer_class)
    layer = layer_class.__new__(layer_class)
    layer.prepare(node, dialect)
    return layer


def number(x: Any, what: str) -> Any:
    """Return the number of a constant input with one element. Raise LayerError when it has another size."""
    value = constant(x, what)
    need(value.size == 1, f"{what} must be one number, got shape {value.shape}")
    return value.item()


def axis_in(x: Any, value: Any, what: str = "axis") -> int:
    """Return the axis of `x` that a constant input `value` names, as an index in 0..rank-1."""
    return axis_of(integer(value, what), len(x.shape), what)


def axes_in(x: Any, values: Any, what: str = "axes") -> list[int]:
    """Return the axes of `x` that a constant input `values` names, as indices in 0..rank-1."""
    return axes_of(integers(values, what, 2), len(x.shape), what)


def need_within(indices: Any, size: int, what: str = "indices") -> None:
    """Raise LayerError unless `indices` are integers and, where they are constant, lie in 0..size-1."""
    need(indices.dtype.kind in "iu", f"{what} must be integers, got {indices.dtype}")
    if not is_traced(indices) and indices.size:
        low, high = indices.min(), indices.max()
        need(low >= 0 and high < size, f"{what} must lie in 0..{size - 1}, got {low} to {high}")


def target_shape(
    shape: Sequence[Any], sizes: Sequence[Any], what: str, copies: Sequence[Any] | None = None
) -> tuple[Any, ...]:
    """Return the sizes of an array of shape `shape` after it is reshaped to `sizes`. One may be -1: the rest.

    copies: the sizes that a 0 in `sizes` copies by its position; without them, 0 is a size.
    Raises LayerError, which calls the sizes `what`, if no array of this shape has these sizes.
    """
    need(
        all(d >= -1 for d in sizes if is_static([d])) and sizes.count(-1) <= 1,
        f"{what} must consist of sizes of which one may be -1, got {list(sizes)}",
    )
    target = list(sizes)
    for i, size in enumerate(sizes):
        if copies is not None and is_static([size]) and size == 0:
            need(i < len(copies), f"{what} {list(sizes)} copies the size of axis {i} of {tuple(copies)}")
            target[i] = copies[i]
    if not is_static([*shape, *target]):
        return tuple(target)
    count, rest = math.prod(shape), math.prod(d for d in target if d != -1)
    fits = rest and count % rest == 0 if -1 in target else count == rest
    need(fits, f"{what} {list(sizes)} does not fit an array of shape {tuple(shape)}")
    return tuple(count // rest if d == -1 else d for d in target)


def reshape(x: Array, sizes: Sequence[Any], what: str, copies: Sequence[Any] | None = None) -> Array:
    """Return an array in another shape: see target_shape. If only the data give its size, the engine checks it."""
    target = target_shape(x.shape, sizes, what, copies)
    if not is_static(x.shape) and is_static(target) and min(target, default=1) > 0:
        return record("Reshape", [x, np.array(target, np.int64)], target, x.dtype)
    return x.reshape(target)


def shape_of(x: Array, dtype: Any) -> Array:
    """Return the shape of an array as integers (rank,). It is a constant, unless only the data give a size."""
    if symbolic_shape(x.shape):
        return sized(x.shape, dtype)
    if is_static(x.shape):
        return np.array(x.shape, dtype)
    return record("Shape", [x], (len(x.shape),), np.int64).astype(dtype)


_fresh = itertools.count()


def _dynamic(limit: Any = MAX_VALUES) -> Dim:
    """Return a new dynamic size of at most `limit`, a size."""
    return Dim(f"size{next(_fresh)}", limit.maximum if isinstance(limit, Dim) else limit)


def slice_axes(x: Array, axes: Sequence[int], start: Array, stop: Array, step: Array) -> Array:
    """Return x[start:stop:step] along `axes`. The inputs have one number per axis.

    A computed start, stop or step, or a size that only the data give, makes sizes that only the data give.
    """
    limits = [start, stop, step]
    if not all(map(is_constant, limits)) or not is_static([x.shape[a] for a in axes]):
        shape = [_dynamic(d) if i in axes else d for i, d in enumerate(x.shape)]
        return record("Slice", [x, start, stop, np.array(axes), step], shape, x.dtype)
    bounds = [integers(v, what) for v, what in zip(limits, ("start", "stop", "step"))]
    need(
        all(len(b) == len(axes) for b in bounds),
        f"start, stop, step and axes must have one length, got {[len(b) for b in bounds]} and {len(axes)}",
    )
    key = [slice(None)] * len(x.shape)
    for axis, low, high, by in zip(axes, *bounds):
        need(by != 0, "step must not be 0")
        if by < 0 and low < -1:
            low = max(low, -x.shape[axis])  # a start before the array is its first element
        key[axis] = slice(low, high, by)
    return x[tuple(key)]


def pad(x: Array, begin: Array, end: Array, fill: Any) -> Array:
    """Return `x` padded with `fill` by the inputs `begin` and `end`, which have one number per axis.

    Negative pads crop. Computed pads, and a size that only the data give, make sizes that only the data give.
    """
    if not is_constant(begin) or not is_constant(end) or not is_static(x.shape):
        pads = concat([begin.astype(np.int64), end.astype(np.int64)], 0)
        return record("Pad", [x, pads, np.array(fill, x.dtype)], [_dynamic() for _ in x.shape], x.dtype)
    low, high = integers(begin, "pads_begin"), integers(end, "pads_end")
    need(len(low) == len(high) == len(x.shape), f"pads must have {len(x.shape)} numbers, got {low} and {high}")
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, x.shape))]
    pairs = [(max(a, 0), max(b, 0)) for a, b in zip(low, high)]
    need_sizes([a + n + b for (a, b), n in zip(pairs, x.shape)])
    return np.pad(x, pairs, constant_values=fill)


def scaled_size(size: Any, scale: float) -> Any:
    """Return floor(size * scale), where the product is rounded to float32: 10 * 0.7 is 7.

    ONNX's specification of Resize leaves the precision open. ONNX Runtime (ComputeOutputShape in
    core/providers/cpu/tensor/upsamplebase.h) and OpenVINO (shape inference of Interpolate) multiply in float32;
    onnx.reference does so in float64, and returns 6. A symbolic size is multiplied by the fraction that the scale
    rounds.
    """
    if not is_symbolic(size):
        return int(np.float32(size) * np.float32(scale))
    part = Fraction(scale).limit_denominator(1000)
    same = np.float32(part.numerator / part.denominator) == np.float32(scale)
    return size * part.numerator // part.denominator if same else math.floor(size * scale)


MAX_SIZE = 1 << 24
"""Limit on the size of an axis that an attribute or a constant asks for."""


def need_sizes(shape: Sequence[int], what: str = "the output") -> None:
    """Refuse a shape that exceeds the limits on sizes, before an array of it is made."""
    need(
        all(0 <= d <= MAX_SIZE for d in shape) and math.prod(shape) <= MAX_WEIGHT_VALUES,
        f"{what} would be of shape {tuple(shape)}; the limit is {MAX_SIZE} along an axis and "
        f"{MAX_WEIGHT_VALUES} values",
    )


def part_sizes(sizes: Sequence[int], size: int, what: str) -> list[int]:
    """Return the sizes of the parts of an axis of `size`. One may be -1, which stands for the rest.

    Raises LayerError, which calls the sizes `what`, if they do not add up to the size of the axis.
    """
    parts = [size - sum(sizes) - 1 if d == -1 else d for d in sizes]
    need(
        sizes.count(-1) <= 1 and min(parts, default=0) >= 0 and sum(parts) == size,
        f"{what} {list(sizes)} must add up to {size}, the size of the axis; one may be -1",
    )
    return parts


def same_pads(sizes: Sequence[int], extents: Sequence[int], strides: Sequence[int], upper: bool = True) -> Pairs:
    """Return the SAME padding of each spatial axis: as many cells as let ceil(size / stride) windows fit.

    Where the number of cells is odd, the extra cell goes after the axis (`upper`) or before it.
    Source: tensorflow/core/framework/common_shape_fns.cc; ONNX operators Conv and MaxPool, auto_pad.
    """
    pairs = []
    for size, window, stride in zip(sizes, extents, strides):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        small, large = total // 2, total - total // 2
        pairs.append((small, large) if upper else (large, small))
    return tuple(pairs)


def pooled_sizes(
    sizes: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    *,
    ceil: bool = True,
    per_axis: bool = False,
    drops: bool = True,
) -> list[int]:
    """Return the numbers of windows of Caffe's Pooling along all axes: (size + 2 * pad - kernel) / stride + 1.

    If any axis is padded, a last window that starts after the map and the padding before it is dropped along every
    axis. ceil: whether the quotient is rounded up. per_axis: whether windows are dropped along padded axes only.
    drops: whether windows are dropped at all.
    Source: BVLC/caffe src/caffe/layers/pooling_layer.cpp, Reshape ("if (pad_h_ || pad_w_)"); per_axis: opencv
    modules/dnn/src/layers/pooling_layer.cpp, getMemoryShapes ("if (pads_end[i] && ...").
    """
    counts = []
    for size, kernel, stride, pad in zip(sizes, kernels, strides, pads):
        spare = size + 2 * pad - kernel
        count = (-(-spare // stride) if ceil else spare // stride) + 1
        limited = drops and ceil and (pad if per_axis else any(pads))
        counts.append(extreme("min", count, (size + pad - 1) // stride + 1) if limited else count)
    return counts


def channels_first(x: Array, data_format: str) -> Array:
    """Return `x`, whose axes have the order `data_format`, as (N, C, ...)."""
    if _is_channels_first(data_format):
        return x
    return x.transpose(0, len(x.shape) - 1, *range(1, len(x.shape) - 1))


def restored(x: Array, data_format: str) -> Array:
    """Return `x` (N, C, ...) with its axes in the order of `data_format`: the inverse of `channels_first`."""
    if _is_channels_first(data_format):
        return x
    return x.transpose(0, *range(2, len(x.shape)), 1)


def _is_channels_first(data_format: str) -> bool:
    """Return whether a TensorFlow format ("NCHW") or a Keras format ("channels_first") puts channels at axis 1."""
    return data_format == "channels_first" or data_format.startswith("NC")
