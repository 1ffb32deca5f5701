"""Normalization layers, and layers that scale by constants or learned factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import attribute, layer, need
from anylayer.layer.arguments import axis_of
from anylayer.layers._table import operators, row
from anylayer.layers.keras._base import KerasLayer, PassesMask, axes_of, plain_value
from anylayer.layers.keras._functions import l2_normalize, layer_norm, rms_norm
from anylayer.network import Array

_SMALLEST_DEVIATION = np.float32(1e-7)


def _weight(blob: Callable[..., Array], index: int, x: Array, axes: tuple[int, ...], what: str) -> Array:
    """Return weight `index` of the layer whose Layer.blob is given, in a shape that broadcasts with `x`. It has
    the sizes of `axes` of `x`.
    """
    wide = [n if axis in axes else 1 for axis, n in enumerate(x.shape)]
    return blob(index, tuple(x.shape[a] for a in axes), what=what).reshape(wide)


class _Affine(PassesMask):
    """A normalization whose result is multiplied by gamma and added to beta."""

    epsilon: float = attribute("double", 1e-3, doc="added to the variance")
    center: bool = attribute("bool", True, doc="whether beta is added")
    scale: bool = attribute("bool", True, doc="whether gamma multiplies")

    def affine(self, y: Any, axes: tuple[int, ...]) -> Array:
        """Return y * gamma + beta, which have the sizes of `axes`."""
        if self.scale:
            y = y * _weight(self.blob, 0, y, axes, "gamma")
        return y + _weight(self.blob, int(self.scale), y, axes, "beta") if self.center else y


@layer("BatchNormalization")
class BatchNormalization(_Affine):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel.

    (N, ...) to the same shape, where mean and variance are the stored statistics.
    Weights: gamma (with scale), beta (with center), moving mean, moving variance, each (channels,).
    Source: keras/src/layers/normalization/batch_normalization.py.
    """

    harmless = frozenset({"momentum", "synchronized", "renorm_clipping", "renorm_momentum", "fused"})

    axis: Any = attribute("any", -1, doc="axis of the channels")
    renorm: bool = attribute("bool", False, doc="batch renormalization; only affects training")
    virtual_batch_size: Any = attribute("any", None, doc="only affects training")

    def forward(self, x: Array, mask: Any = None) -> Array:
        rank = len(x.shape)
        axes = self.axis if isinstance(self.axis, list) else [self.axis]
        need(len(axes) == 1 and type(axes[0]) is int, f"axis must be one integer, got {self.axis!r}")
        axis = axis_of(axes[0], rank)
        need(axis > 0, f"axis={axes[0]} is the batch axis of an input of rank {rank}")
        shape, what = (x.shape[axis],), ["gamma"] * self.scale + ["beta"] * self.center
        blobs = {name: self.blob(i, shape, what=name) for i, name in enumerate(what)}
        gamma = blobs.get("gamma", np.ones(shape, np.float32))
        beta = blobs.get("beta", np.zeros(shape, np.float32))
        mean = self.blob(len(what), shape, what="moving mean")
        variance = self.blob(len(what) + 1, shape, what="moving variance")
        if self.renorm:  # only training uses its weights; what no layer asks for is refused
            for index in range(len(what) + 2, len(self._blobs)):
                self.blob(index, self._blobs[index].shape, what="renormalization")
        order = (0, axis, *(i for i in range(1, rank) if i != axis))
        y = ops.batch_normalization(x.transpose(order), gamma, beta, mean, variance, epsilon=self.epsilon)
        return y.transpose(tuple(int(i) for i in np.argsort(order)))


@layer("GroupNormalization")
class GroupNormalization(_Affine):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta per group of channels.

    (N, ...) to the same shape. Mean and variance are those of each group of channels of each item.
    Weights: gamma (with scale), beta (with center), each (channels,).
    Source: arXiv 1803.08494; keras/src/layers/normalization/group_normalization.py.
    """

    groups: int = attribute("int64", 32, doc="number of groups; -1: one per channel")
    axis: int = attribute("int64", -1, doc="axis of the channels")

    def forward(self, x: Array, mask: Any = None) -> Array:
        axis = axis_of(self.axis, len(x.shape))
        channels = x.shape[axis]
        groups = channels if self.groups == -1 else self.groups
        need(groups > 0 and channels % groups == 0, f"groups={groups} does not divide {channels} channels")
        grouped = x.reshape(*x.shape[:axis], groups, channels // groups, *x.shape[axis + 1 :])
        axes = tuple(i for i in range(1, len(grouped.shape)) if i != axis)
        return self.affine(layer_norm(grouped, axis=axes, epsilon=self.epsilon).reshape(x.shape), (axis,))


@layer("LayerNormalization")
class LayerNormalization(_Affine):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta over `axis` of each item.

    (N, ...) to the same shape. With rms_scaling, x / sqrt(variance + epsilon) * gamma.
    Weights: gamma (with scale), beta (with center), each with the sizes of `axis`.
    Source: keras/src/layers/normalization/layer_normalization.py.
    """

    axis: Any = attribute("any", -1, doc="axis or axes that are normalized together")
    rms_scaling: bool = attribute("bool", False, doc="whether the mean is not subtracted and beta not added")

    def forward(self, x: Array, mask: Any = None) -> Array:
        axes = axes_of(self.axis, len(x.shape))
        y = layer_norm(x, axis=axes, epsilon=self.epsilon, rms_scaling=self.rms_scaling)
        return y * _weight(self.blob, 0, x, axes, "gamma") if self.rms_scaling else self.affine(y, axes)


def _rms(x: Array, mask: Any = None, *, axis: Any, epsilon: float, blob: Callable[..., Array]) -> Array:
    axes = axes_of(axis, len(x.shape))
    return rms_norm(x, _weight(blob, 0, x, axes, "scale"), axes, epsilon)


@layer("Normalization")
class Normalization(KerasLayer):
    """Compute (x - mean) / sqrt(variance) per index of `axis`, or the inverse with invert.

    (N, ...) to the same shape in float32.
    Weights: mean and variance with the sizes of `axis`, and the number of samples that they were
    computed from; none when the configuration gives mean and variance.
    Source: keras/src/layers/preprocessing/normalization.py.
    """

    masks = "passes"

    axis: Any = attribute(
        "any", -1, doc="axis or axes whose indices have a mean and variance of their own; none: one for all"
    )
    mean: Any = attribute("any", None, doc="the mean, where it is not a weight")
    variance: Any = attribute("any", None, doc="the variance, where it is not a weight")
    invert: bool = attribute("bool", False, doc="whether the normalization is inverted")

    def forward(self, x: Array) -> Array:
        x = x.astype(np.float32)
        axes = axes_of([] if self.axis is None else self.axis, len(x.shape))
        if self.mean is None:
            mean, variance = (_weight(self.blob, i, x, axes, what) for i, what in enumerate(("mean", "variance")))
            if len(self._blobs) > 2:
                self.blob(2, (), what="count")  # only training uses it
        else:
            wide = tuple(n if a in axes else 1 for a, n in enumerate(x.shape))
            need(self.variance is not None, "parameter 'mean' needs parameter 'variance', which is missing")
            mean, variance = (_align(v, axes, wide) for v in (self.mean, self.variance))
        deviation = np.maximum(np.sqrt(variance), _SMALLEST_DEVIATION)
        return mean + x * deviation if self.invert else (x - mean) / deviation


def _align(value: Any, axes: tuple[int, ...], wide: tuple[int, ...]) -> Array:
    """Return a mean or variance of the configuration in a shape that broadcasts with one of sizes `wide`: its last
    dimension is the last of `axes`.
    """
    array = np.asarray(value, np.float32)
    if array.ndim <= len(axes):
        shape = [1] * len(wide)
        for axis, size in zip(axes[len(axes) - array.ndim :], array.shape):
            shape[axis] = size
        array = array.reshape(shape)
    return np.broadcast_to(array, wide) if array.ndim == len(wide) else array


def _rescale(x: Array, *, scale: Any, offset: Any) -> Array:
    factor, summand = (np.asarray(plain_value(v), np.float32) for v in (scale, offset))
    return x.astype(np.float32) * factor + summand


operators(
    PassesMask,
    "Source: {}.",
    {
        "RMSNormalization": row("Compute x / sqrt(mean(x * x) + epsilon) * scale over `axis` of each item.", _rms,
            "keras/src/layers/normalization/rms_normalization.py",
            "(N, ...) to the same shape. Weights: scale, with the sizes of `axis`.",
            axis=attribute("any", -1, doc="axis or axes that are normalized together"),
            epsilon=attribute("double", 1e-6, doc="added to the mean of the squares")),
        "UnitNormalization": row("Compute x / |x| with the Euclidean length |x| over `axis` of each item.",
            lambda x, mask=None, *, axis: l2_normalize(x, axes_of(axis, len(x.shape)), 1e-24),
            "keras/src/layers/normalization/unit_normalization.py",
            "(N, ...) to the same shape. Vectors of zeros stay zeros.",
            axis=attribute("any", -1, doc="axis or axes of the vectors that get length 1")),
    },
    __module__=__name__,
)  # fmt: skip
operators(
    KerasLayer,
    "Source: {}.",
    {
        "LayerScale": row("Multiply each channel by a learned factor.",
            lambda x, *, projection_dim, blob: x * blob(0, (projection_dim,), what="gamma"),
            "keras/src/applications/convnext.py", "(..., C) to the same shape. Weights: gamma (projection_dim,).",
            {"harmless": frozenset({"init_values"})},
            projection_dim=attribute("int64", doc="number of channels")),
        "Rescaling": row("Compute x * scale + offset.", _rescale,
            "keras/src/layers/preprocessing/rescaling.py", "(N, ...) to the same shape in float32.",
            scale=attribute("any", doc="the factor: one number, or one per channel"),
            offset=attribute("any", 0.0, doc="what is added: one number, or one per channel")),
    },
    masks="passes",
    __module__=__name__,
)  # fmt: skip
