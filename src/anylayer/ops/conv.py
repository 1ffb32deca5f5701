"""Convolution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anylayer.errors import need, plural
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import (
    Ints,
    Pairs,
    flat_pads,
    integer,
    need_room,
    pad_pairs,
    padded,
    per_axis,
    shape_of,
    spatial_rank,
    taps,
    window_counts,
    with_static_pads,
)
from anylayer.tracing import record


class _ConvPlan(NamedTuple):
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pairs
    group: int
    counts: tuple[int, ...]


def _plan(
    x: Array, w: Array, b: Array | None, strides: Ints, pads: Ints, dilations: Ints, group: int
) -> _ConvPlan:
    axes = spatial_rank(x, "conv")
    need(
        len(w.shape) == axes + 2,
        f"conv needs weights of rank {axes + 2} for an input {tuple(x.shape)}, got {tuple(w.shape)}",
    )
    group = integer(group, "group")
    channels, outputs = x.shape[1], w.shape[0]
    need(channels % group == 0, f"group={group} does not divide {channels} channels")
    need(outputs % group == 0, f"group={group} does not divide {outputs} outputs")
    need(
        w.shape[1] * group == channels,
        f"weights {tuple(w.shape)} in {plural(group, 'group')} need {w.shape[1] * group} channels, got {channels}",
    )
    need(b is None or tuple(b.shape) == (outputs,), f"bias must be of shape ({outputs},), got {shape_of(b)}")
    kernel = tuple(integer(k, "kernel") for k in w.shape[2:])
    strides, dilations = per_axis(strides, axes, "strides"), per_axis(dilations, axes, "dilations")
    pairs = pad_pairs(pads, axes)
    counts = window_counts(x.shape[2:], kernel, strides, pairs, dilations)
    need_room((x.shape[0], outputs, *counts), "the result")
    return _ConvPlan(kernel, strides, dilations, pairs, group, counts)


@operator
def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    group: int = 1,
) -> Array:
    """Return the cross-correlation of `x` (N, C, ...) with `w` (M, C / group, ...), plus `b` (M,): (N, M, ...).

    ONNX Conv-11, for any number of spatial axes. Each spatial size becomes floor((n + pads - ((k - 1) * dilation +
    1)) / stride) + 1, where `pads` adds cells of zeros: one integer, one per axis, or all begins followed by all
    ends. The NumPy meaning multiplies `w` by the unfolded windows. With one channel per group (depthwise), it sums
    over the cells of the kernel instead. Raises LayerError if `group` does not divide the channels, or the
    weights, the bias or the kernel do not fit.
    """
    plan = _plan(x, w, b, strides, pads, dilations, group)
    data = padded(x, plan.pads)
    if w.shape[1] == 1 and plan.group > 1:
        y = _depthwise(data, w, plan)
    else:
        y = _grouped_conv(data, w, plan)
    if b is not None:
        y += b.reshape(-1, *(1,) * len(plan.kernel))
    return y


def _depthwise(data: Array, w: Array, plan: _ConvPlan) -> Array:
    outputs = w.shape[0]
    data = np.repeat(data, outputs // plan.group, axis=1)
    y = np.zeros((data.shape[0], outputs, *plan.counts), np.result_type(data, w))
    ones = (1,) * len(plan.kernel)
    for cell, where in taps(plan.kernel, plan.strides, plan.dilations, plan.counts):
        weights: tuple[slice | int, ...] = (slice(None), 0, *cell)
        y += data[where] * w[weights].reshape(-1, *ones)
    return y


def _grouped_conv(data: Array, w: Array, plan: _ConvPlan) -> Array:
    n, channels = data.shape[:2]
    outputs, g = w.shape[0], plan.group
    cells, pixels = int(np.prod(plan.kernel)), int(np.prod(plan.counts))
    matrix = w.reshape(g, outputs // g, -1)
    y = np.empty((n, g, outputs // g, pixels), np.result_type(data, w))
    columns = np.empty((channels, cells, *plan.counts), data.dtype)
    for i in range(n):  # one sample at a time: its unfolded windows take `cells` times its memory
        for t, (_, where) in enumerate(taps(plan.kernel, plan.strides, plan.dilations, plan.counts)):
            columns[:, t] = data[i][where]
        np.matmul(matrix, columns.reshape(g, -1, pixels), out=y[i])
    return y.reshape(n, outputs, *plan.counts)


@conv.form
def _(x: Array, w: Array, b: Array | None, **how: Any) -> Array:
    plan = _plan(x, w, b, **how)
    x, static_pads = with_static_pads(x, plan.pads)
    return record(
        "Conv",
        [x, w] if b is None else [x, w, b],
        (x.shape[0], w.shape[0], *plan.counts),
        x.dtype,
        kernel_shape=list(plan.kernel),
        strides=list(plan.strides),
        pads=flat_pads(static_pads),
        dilations=list(plan.dilations),
        group=plan.group,
    )
