"""Operators that sample a map where an input points to, and correlations of maps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, field, need, need_shape
from anylayer.layer.arguments import window_counts
from anylayer.layers._correlation import correlate
from anylayer.layers._resampling import need_plane, plane_of
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, INTS, need_float32, operators, training

_one, _two = np.float32(1), np.float32(2)


def _sample(x: Array, grid: Array) -> Array:
    need_shape(grid, (x.shape[0], 2, "h", "w"), "grid")
    return ops.grid_sample(x, grid.transpose(0, 2, 3, 1), align_corners=True)


def _affine_grid(theta: Array, size: Sequence[int]) -> Array:
    need_shape(theta, ("N", 6), "the affine map", about=": x by x, y, 1, then y by x, y, 1")
    need(len(size) == 2 and min(size) >= 2, f"target_shape must be two sizes of at least 2, got {tuple(size)}")
    need_plane(*size)
    h, w = size
    by_x, by_y, shift = (theta.reshape(-1, 2, 3, 1, 1)[:, :, i] for i in range(3))
    x, y = (np.arange(n, dtype=np.float32) * (_two / np.float32(n - 1)) - _one for n in (w, h))
    points: Array = by_x * x + by_y * y[:, None] + shift
    return points


def _grid_generator(x: Array, transform_type: str, target_shape: Sequence[int]) -> Array:
    if transform_type == "affine":
        return _affine_grid(x, target_shape)
    need_shape(x, ("N", 2, "H", "W"), "the flow")
    h, w = x.shape[2:]
    need(min(h, w) >= 2, f"needs a flow of at least 2 x 2, got {h} x {w}")
    across = (x[:, 0] + np.arange(w, dtype=np.float32)) / np.float32((w - 1) / 2) - _one
    down = (x[:, 1] + np.arange(h, dtype=np.float32)[:, None]) / np.float32((h - 1) / 2) - _one
    return np.stack([across, down], axis=1)


def _convolve(
    x: Array, offset: Array, weights: Array, bias: Array | None = None, *, mask: Array | None = None,
    kernel: Sequence[int], stride: Sequence[int], dilate: Sequence[int], pad: Sequence[int], num_filter: int,
    num_group: int, num_deformable_group: int, no_bias: bool, layout: str,
) -> Array:  # fmt: skip
    """Return the convolution of a map that is sampled at displaced points.

    Without a mask, a point outside the map is 0, and one between the last cell and the border is the last cell.
    With a mask, zeros around the map are interpolated.
    """
    (h, w), (n, c), groups, m, taps = plane_of(x), x.shape[:2], num_deformable_group, num_group, prod(kernel)
    need(len(kernel) == 2, f"kernel must be two numbers, got {tuple(kernel)}")
    need(no_bias == (bias is None), f"no_bias is {no_bias}, but there is {'no' if bias is None else 'a'} bias")
    need(
        min(m, groups) >= 1 and c % m == c % groups == num_filter % m == 0,
        f"num_group={m} and num_deformable_group={groups} must divide {c} channels, and num_group "
        f"num_filter={num_filter}",
    )
    strides, dilations, pads = stride or (1, 1), dilate or (1, 1), pad or (0, 0)
    counts = window_counts((h, w), kernel, strides, tuple((p, p) for p in pads), dilations)
    need_shape(offset, (n, 2 * groups * taps, *counts), "offset")
    need_shape(weights, (num_filter, c // m, *kernel), "weight")
    moves, points = offset.reshape(n * groups, taps, 2, *counts), []
    for i in (0, 1):
        tap = np.indices(kernel)[i].reshape(taps, 1, 1) * dilations[i] - pads[i]
        points.append(moves[:, :, i] + (tap + np.indices(counts)[i] * strides[i]).astype(np.float32))
    grid = np.stack([(at * _two + _one) / np.float32(s) - _one for at, s in zip(points[::-1], (w, h))], axis=-1)
    samples = ops.grid_sample(
        x.reshape(n * groups, c // groups, h, w), grid.reshape(n * groups, taps * counts[0], counts[1], 2),
        padding="border" if mask is None else "zeros",
    )  # fmt: skip
    if mask is None:
        inside = [(at >= 0) & (at < np.float32(s)) for at, s in zip(points, (h, w))]
        mask = (inside[0] & inside[1]).astype(np.float32).reshape(n, groups * taps, *counts)
    need_shape(mask, (n, groups * taps, *counts), "mask")
    rows = samples.reshape(n, groups, c // groups, taps, *counts) * mask.reshape(n, groups, 1, taps, *counts)
    product = weights.reshape(m, num_filter // m, c // m * taps) @ rows.reshape(n, m, c // m * taps, prod(counts))
    result: Array = product.reshape(n, num_filter, *counts)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def _convolve_with_mask(
    x: Array, offset: Array, mask: Array, weights: Array, bias: Array | None = None, **how: object
) -> Array:
    return _convolve(x, offset, weights, bias, mask=mask, **how)  # type: ignore[arg-type]  # its attributes


_CONVOLUTION = {
    **dict.fromkeys(("kernel", "stride", "dilate", "pad"), INTS),
    "num_filter": INT,
    "num_group": attribute("int32", 1),
    "num_deformable_group": attribute("int32", 1),
    "no_bias": FLAG,
    "layout": attribute(Enum("NCHW"), "NCHW"),
}
_SHAPE = attribute("int32", (0, 0), repeated=True, doc="rows and columns of the output")
operators(
    {
        "BilinearSampler": row("Interpolate a map at given points, with zeros outside.", _sample,
            "bilinear_sampler.cc",
            "x (N, C, H, W) and the points (N, 2, h, w) to (N, C, h, w). The points are columns, then rows; -1 "
            "and 1 are the centers of the outermost cells."),
        "GridGenerator": row("Return the points of BilinearSampler for an affine map or a flow.", _grid_generator,
            "grid_generator.cc",
            "An affine map (N, 6) to (N, 2, *target_shape), or with transform_type warp a flow (N, 2, H, W), in "
            "cells, to points of its shape.",
            transform_type=attribute(Enum("affine", "warp")), target_shape=_SHAPE),
        "SpatialTransformer": row("Interpolate a map at the points of an affine map.",
            lambda x, theta, target_shape, **kinds: _sample(x, _affine_grid(theta, target_shape)),
            "spatial_transformer.cc",
            "x (N, C, H, W) and an affine map (N, 6) to (N, C, *target_shape). Zeros lie outside, as in MXNet "
            "with cuDNN. On a CPU MXNet extrapolates there, and reads memory after the map.",
            target_shape=_SHAPE, transform_type=attribute(Enum("affine")),
            sampler_type=attribute(Enum("bilinear"))),
        "Correlation": row("Correlate each patch of a map with those of another one around its place.",
            correlate, "correlation.cc",
            "Two maps (N, C, H, W) to (N, (2 r + 1)^2, H', W') with r = max_displacement / stride2 (FlowNet, "
            "arXiv 1504.06852). With is_multiply products are averaged, else absolute differences.",
            kernel_size=attribute("uint32", 1), max_displacement=attribute("uint32", 1),
            stride1=field(0, "uint32", 1, least=1), stride2=field(0, "uint32", 1, least=1),
            pad_size=attribute("uint32", 0), is_multiply=attribute("bool", True)),
        "_contrib_DeformableConvolution": row("Convolve a map at displaced points (arXiv 1703.06211).",
            _convolve, "contrib/deformable_convolution.cc",
            "x (N, C, H, W), offset (N, 2 * num_deformable_group * taps, H', W'), down and across for each tap, "
            "weight (M, C / groups, h, w) and bias (M,) to (N, M, H', W'). A point outside the map is 0, and "
            "beyond the last cell's center it is the last cell.", **_CONVOLUTION),
        "_contrib_ModulatedDeformableConvolution": row("Convolve a map at displaced points, times a mask (arXiv "
            "1811.11168).", _convolve_with_mask, "contrib/modulated_deformable_convolution.cc",
            "As _contrib_DeformableConvolution, with the mask (N, num_deformable_group * taps, H', W') as the "
            "third input, and zeros around the map, which are interpolated.",
            body=training("im2col_step"), **_CONVOLUTION),
    },
    check=need_float32,
)  # fmt: skip
