"""Transposed convolution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import (
    Ints,
    Pairs,
    box,
    extent,
    flat_pads,
    integer,
    need_room,
    pad_pairs,
    per_axis,
    shape_of,
    spatial_rank,
    taps,
)
from anylayer.tracing import record


class _TransposedPlan(NamedTuple):
    """The checked arguments. extra: output_padding. full, sizes: before and after `pads` crops them."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pairs
    extra: tuple[int, ...]
    group: int
    full: tuple[int, ...]
    sizes: tuple[int, ...]


def _plan(
    x: Array,
    w: Array,
    b: Array | None,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    group: int,
    output_padding: Ints,
) -> _TransposedPlan:
    axes = spatial_rank(x, "conv_transpose")
    need(
        len(w.shape) == axes + 2,
        f"conv_transpose needs weights of rank {axes + 2} for an input {tuple(x.shape)}, got {tuple(w.shape)}",
    )
    group = integer(group, "group")
    channels, outputs = x.shape[1], w.shape[1] * group
    need(channels % group == 0, f"group={group} does not divide {channels} channels")
    need(w.shape[0] == channels, f"weights {tuple(w.shape)} need {w.shape[0]} channels, got {channels}")
    need(b is None or tuple(b.shape) == (outputs,), f"bias must be of shape ({outputs},), got {shape_of(b)}")
    kernel = tuple(integer(k, "kernel") for k in w.shape[2:])
    strides, dilations = per_axis(strides, axes, "strides"), per_axis(dilations, axes, "dilations")
    pairs, extra = pad_pairs(pads, axes), per_axis(output_padding, axes, "output_padding", least=0)
    full = tuple(
        s * (n - 1) + extent(k, d) + e for n, k, s, d, e in zip(x.shape[2:], kernel, strides, dilations, extra)
    )
    sizes = tuple(f - begin - end for f, (begin, end) in zip(full, pairs))
    for axis, (f, (begin, end), e, s) in enumerate(zip(full, pairs, extra, strides)):
        need(begin + end < f, f"pads {begin} + {end} leave nothing of the {f} cells of spatial axis {axis}")
        need(e < s, f"output_padding={e} of spatial axis {axis} must be less than its stride {s}")
    need_room((x.shape[0], outputs, *full), "the result")
    return _TransposedPlan(kernel, strides, dilations, pairs, extra, group, full, sizes)


@operator
def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    group: int = 1,
    output_padding: Ints = 0,
) -> Array:
    """Return the transposed convolution of `x` (N, C, ...) with `w` (C, M / group, ...), plus `b` (M,).

    The result is (N, M, ...). ONNX ConvTranspose-11 with auto_pad NOTSET, for any number of spatial axes. Each
    spatial size becomes stride * (n - 1) + (k - 1) * dilation + 1 + output_padding - pads: `pads` crops the
    result, `output_padding` adds cells at the end. Raises LayerError if `group` does not divide the channels, the
    weights or the bias do not fit, `pads` leaves no cell, or `output_padding` is not less than the stride (ONNX
    allows it to be less than the dilation instead; ONNX Runtime does not).
    """
    plan = _plan(x, w, b, strides, pads, dilations, group, output_padding)
    n, channels = x.shape[:2]
    g, outputs = plan.group, w.shape[1] * plan.group
    # (g, M / g * kernel cells, C / g) @ (N, g, C / g, input cells): what each input cell adds to each kernel cell
    matrix = w.reshape(g, channels // g, -1).swapaxes(1, 2)
    columns = np.matmul(matrix, x.reshape(n, g, channels // g, -1))
    columns = columns.reshape(n, outputs, *plan.kernel, *x.shape[2:])
    y = np.zeros((n, outputs, *plan.full), columns.dtype)
    for cell, target in taps(plan.kernel, plan.strides, plan.dilations, x.shape[2:]):
        key: tuple[slice | int, ...] = (slice(None), slice(None), *cell)
        y[target] += columns[key]  # of the result before it is cropped
    y = y[box([begin for begin, _ in plan.pads], plan.sizes)]
    if b is None:
        return np.ascontiguousarray(y)
    return y + b.reshape(-1, *(1,) * len(plan.kernel))


@conv_transpose.form
def _(x: Array, w: Array, b: Array | None, **how: Any) -> Array:
    plan = _plan(x, w, b, **how)
    return record(
        "ConvTranspose",
        [x, w] if b is None else [x, w, b],
        (x.shape[0], w.shape[1] * plan.group, *plan.sizes),
        x.dtype,
        kernel_shape=list(plan.kernel),
        strides=list(plan.strides),
        pads=flat_pads(plan.pads),
        dilations=list(plan.dilations),
        group=plan.group,
        output_padding=list(plan.extra) if any(plan.extra) else None,
    )
