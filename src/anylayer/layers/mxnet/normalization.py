"""Normalization with stored statistics, and over axes of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axis_of
from anylayer.layers._arrays import affine, standardize, standardize_groups
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import INT, any_dtypes, operators, training


def _normalize(
    x: Array, gamma: Array, beta: Array, mean: Array, var: Array, *, eps: float, fix_gamma: bool, axis: int
) -> Array:
    axis = axis_of(axis, len(x.shape))
    if fix_gamma:
        gamma = np.ones(gamma.shape, gamma.dtype)
    front = x if axis == 1 else np.moveaxis(x, axis, 1)
    y = ops.batch_normalization(front, gamma, beta, mean, var, epsilon=eps)
    return y if axis == 1 else np.moveaxis(y, 1, axis)


def _instance_norm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    need(len(x.shape) >= 3, f"the input must have 3 axes or more, got shape {tuple(x.shape)}")
    return affine(standardize(x, range(2, len(x.shape)), eps), gamma, beta)


def _layer_norm(x: Array, gamma: Array, beta: Array, axis: int, eps: float) -> Array:
    axis = axis_of(axis, len(x.shape))
    return affine(standardize(x, [axis], eps), gamma, beta, axis)


def _group_norm(x: Array, gamma: Array, beta: Array, num_groups: int, eps: float) -> Array:
    y = standardize_groups(x, num_groups, eps)
    return affine(y.reshape(x.shape[0], num_groups, -1), gamma, beta).reshape(x.shape)


_NORM_AXES: dict[str, Callable[[int], Sequence[int]]] = {
    "instance": lambda rank: range(1, rank),
    "channel": lambda rank: [1],
    "spatial": lambda rank: range(2, rank),
}


def _l2_normalize(x: Array, eps: float, mode: str) -> Array:
    axes = tuple(_NORM_AXES[mode](len(x.shape)))
    need(len(x.shape) >= 2 and axes, f"mode {mode} does not take an input of shape {tuple(x.shape)}")
    return x / np.sqrt(np.sum(x * x, axis=axes, keepdims=True) + x.dtype.type(eps))


def _lrn(x: Array, nsize: int, alpha: float, beta: float, knorm: float) -> Array:
    need(nsize % 2, f"nsize must be odd, got {nsize}")
    return ops.lrn(x, nsize, alpha=alpha, beta=beta, bias=knorm)


_NEUTRAL = {"neutral": {"output_mean_var": False}}
_BATCH = {
    **_NEUTRAL,
    **training("momentum use_global_stats min_calib_range max_calib_range ndev key"),
    "input_names": ("data", "gamma", "beta", "moving_mean", "moving_var"),
}
_EPS, _SMALL_EPS = attribute("float", 1e-3), attribute("float", 1e-5)
operators(
    {
        "BatchNorm BatchNorm_v1 CuDNNBatchNorm _contrib_SyncBatchNorm": row(
            "Normalize each channel with the stored statistics.", _normalize, "nn/batch_norm.cc",
            "Inputs: x, gamma, beta, moving_mean, moving_var. gamma is taken as 1 unless fix_gamma is false.",
            _BATCH, eps=_EPS, fix_gamma=attribute("bool", True), axis=attribute("int32", 1)),
        "_contrib_BatchNormWithReLU": row("Normalize each channel with the stored statistics, and apply relu.",
            lambda *xs, **how: ops.relu(_normalize(*xs, **how)), "contrib/batch_norm_relu.cc", "",
            _BATCH, eps=_EPS, fix_gamma=attribute("bool", True), axis=attribute("int32", 1)),
        "InstanceNorm": row("Normalize the pixels of each channel of each sample.", _instance_norm,
            "instance_norm.cc", eps=_EPS),
        "LayerNorm": row("Normalize over an axis.", _layer_norm, "nn/layer_norm.cc", "", _NEUTRAL,
            axis=attribute("int32", -1), eps=_SMALL_EPS),
        "GroupNorm": row("Normalize the pixels of each group of channels.", _group_norm, "nn/group_norm.cc",
            "gamma and beta have one number per group.", _NEUTRAL, num_groups=attribute("int32", 1),
            eps=_SMALL_EPS),
        "L2Normalization": row("Divide by the square root of the sum of squares plus eps.", _l2_normalize,
            "l2_normalization.cc",
            "mode: over the values of a sample (instance), over axis 1 (channel), or the axes after it (spatial).",
            eps=attribute("float", 1e-10), mode=attribute(Enum(*_NORM_AXES), "instance")),
        "LRN": row("Compute x / (knorm + alpha / nsize * s)^beta, where s sums x^2 over nsize channels.",
            _lrn, "nn/lrn.cc", nsize=INT,
            alpha=attribute("float", 1e-4), beta=attribute("float", 0.75), knorm=attribute("float", 2.0)),
    },
    check=any_dtypes,
)  # fmt: skip
