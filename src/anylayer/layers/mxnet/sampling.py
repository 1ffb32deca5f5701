"""Operators that sample a map where an input points to, and correlations of maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, field, need, need_shape
from anylayer.layers._correlation import correlate
from anylayer.layers._deformable import deformable_convolution
from anylayer.layers._resampling import need_plane
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, INTS, need_float32, need_weights, operators, training

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
    return by_x * x + by_y * y[:, None] + shift


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
    need(len(kernel) == 2, f"kernel must be two numbers, got {tuple(kernel)}")
    need_weights(weights, (num_filter, weights.shape[1], *kernel), bias, num_filter, no_bias)
    return deformable_convolution(
        x, offset, weights, bias, mask, strides=stride or (1, 1), dilations=dilate or (1, 1),
        pads=tuple((p, p) for p in pad or (0, 0)), group=num_group, offset_group=num_deformable_group,
        border=mask is None,
    )  # fmt: skip


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
