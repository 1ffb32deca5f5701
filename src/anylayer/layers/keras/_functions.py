"""Functions of keras.ops and TensorFlow that NumPy lacks or spells differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, need
from anylayer.layer.arguments import axis_of, channels_first, flat_pads, restored, same_pads
from anylayer.layers.keras._base import FORMATS, positive
from anylayer.layers.keras._resampling import METHODS, resampled
from anylayer.network import Array

DTYPES = (
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "bool",
)


def cast(x: Array, dtype: Any) -> Any:
    """Cast `x` to another dtype; all floating-point dtypes become float32."""
    name = str(dtype.get("config", {}).get("name")) if isinstance(dtype, dict) else str(dtype)
    need(name in DTYPES, f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return np.asarray(x).astype(name) if "float" not in name else x.astype(np.float32)


def index(spec: Any) -> Any:
    """Return the key of x[...] from the nested lists and dictionaries that Keras 2 and 3 store."""
    if isinstance(spec, list):
        return tuple(index(item) for item in spec)
    if isinstance(spec, dict):
        if spec.get("class_name") == "__ellipsis__":
            return Ellipsis
        found = spec.get("config", spec)
        if isinstance(found, dict) and {"start", "stop", "step"} >= set(found):
            return slice(found.get("start"), found.get("stop"), found.get("step"))
        raise LayerError(f"index {spec!r} is not supported")
    return spec


def get_item(x: Array, key: Any) -> Any:
    """Compute x[key]."""
    found = index(key)
    if isinstance(key, list) and key and all(type(k) is int for k in key) and not isinstance(found, tuple):
        return x[list(key)]
    return x[found]


def axes(given: Any) -> tuple[int]:
    """Return an axis, a tuple of axes, or None."""
    return tuple(given) if isinstance(given, (list, tuple)) else given


def split(x: Array, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split an array into equal parts, or at the given indices, along `axis`."""
    given = indices_or_sections
    where = axis_of(axis, len(x.shape))
    if type(given) is int:
        need(
            given > 0 and x.shape[where] % given == 0,
            f"{given} equal parts do not divide axis {where} of size {x.shape[where]}",
        )
        return list(np.split(x, given, axis=where))
    return list(np.split(x, list(given), axis=where))


def split_sizes(value: Array, num_or_size_splits: Any, axis: int = 0, num: Any = None) -> list[Array]:
    """Split an array into equal parts, or into parts of the given sizes, along `axis` as tf.split."""
    if type(num_or_size_splits) is int:
        return split(value, num_or_size_splits, axis)
    sizes, total = list(num_or_size_splits), value.shape[axis]
    if -1 in sizes:
        sizes[sizes.index(-1)] = total - sum(s for s in sizes if s != -1)
    return list(np.split(value, np.cumsum(sizes)[:-1].tolist(), axis=axis))


def unstack(x: Any, num: Any = None, axis: int = 0) -> list[Any]:
    """Return the slices along `axis`, without that axis."""
    where = axis_of(axis, len(x.shape))
    return [np.take(x, i, axis=where) for i in range(x.shape[where])]


def reshape(x: Array, newshape: Any) -> Any:
    """Reshape an array; a size of -1 or None stands for the rest."""
    shape = [-1 if d is None else d for d in (newshape if isinstance(newshape, list) else [newshape])]
    return x.reshape(*shape)


def pad(x: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = None) -> Any:
    """Pad an array in one of the modes constant, reflect, symmetric and edge."""
    mode = mode.lower()
    given: list[Any] = [pad_width] * len(x.shape) if type(pad_width) is int else list(pad_width)
    pairs = [(p, p) if type(p) is int else tuple(p) for p in given]
    if len(pairs) == 1:
        pairs *= len(x.shape)
    if mode == "constant":
        return np.pad(x, pairs, constant_values=0 if constant_values is None else constant_values)
    return np.pad(x, pairs, mode=mode)


def normalize(x: Array, axis: Any = -1, order: Any = 2, epsilon: Any = None) -> Any:
    """Compute x / max(|x|, epsilon) with the Euclidean length |x| along `axis`."""
    need(order == 2, f"order must be 2, got {order}")
    least = np.float32(1e-7 if epsilon is None else epsilon) ** 2
    return x / np.sqrt(np.maximum(np.sum(x * x, axis=axes(axis), keepdims=True), least))


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, dim: Any = None) -> Any:
    """Compute x / sqrt(max(sum(x * x), epsilon)) along `axis` as tf.math.l2_normalize."""
    squares = np.sum(x * x, axis=axes(dim if axis is None else axis), keepdims=True)
    return x / np.sqrt(np.maximum(squares, np.float32(epsilon)))


def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False) -> Any:
    """Encode integers as one-hot vectors of float32 along a new axis."""
    return ops.one_hot(x.astype(np.int64), num_classes, axis=axis).astype(np.float32)


def take(x: Any, indices: Any, axis: Any = None) -> Any:
    """Select slices along `axis` by index."""
    flat = x.reshape(-1) if axis is None else x
    if isinstance(indices, (int, list)):
        return np.take(flat, indices, axis=axis or 0)
    return ops.gather(flat, indices.astype(np.int64), axis=axis or 0)


def pool(
    x: Any,
    pool_size: Any,
    strides: Any = None,
    padding: str = "valid",
    data_format: Any = None,
    kind: str = "max",
) -> Any:
    """Compute the maximum or the mean of each window, as keras.ops.max_pool and average_pool."""
    rank, fmt = len(x.shape) - 2, data_format or FORMATS[0]
    kernel = positive(pool_size, rank, "pool_size")
    steps = positive(pool_size if strides is None else strides, rank, "strides")
    y = channels_first(x, fmt)
    pads: Any = 0
    if padding.lower() == "same":
        pads = flat_pads(same_pads(y.shape[2:], kernel, steps))
    function = ops.max_pool if kind == "max" else ops.average_pool
    return restored(function(y, kernel, strides=steps, pads=pads), fmt)


def resize(
    images: Any,
    size: Sequence[int],
    interpolation: str = "bilinear",
    antialias: bool = False,
    data_format: Any = None,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
) -> Any:
    """Resize images, as keras.ops.image.resize and tf.image.resize."""
    need(
        interpolation.lower() in METHODS,
        f"interpolation must be one of {', '.join(METHODS)}, got {interpolation!r}",
    )
    need(
        not crop_to_aspect_ratio and not pad_to_aspect_ratio,
        "keeping the aspect ratio is not supported in a function; use the layer Resizing",
    )
    need(len(images.shape) == 4, f"takes images of rank 4, got {tuple(images.shape)}")
    height, width = positive(list(size), 2, "size")
    fmt = data_format or FORMATS[0]
    return restored(resampled(channels_first(images, fmt), (height, width), interpolation.lower(), antialias), fmt)


def depth_to_space(x: Any, block_size: int, data_format: Any = None) -> Any:
    """Move channels into blocks of block_size x block_size cells."""
    fmt = FORMATS[1] if data_format in (FORMATS[1], "NCHW") else FORMATS[0]
    return restored(ops.depth_to_space(channels_first(x, fmt), block_size), fmt)


def space_to_depth(x: Any, block_size: int, data_format: Any = None) -> Any:
    """Move blocks of block_size x block_size cells into channels."""
    fmt = FORMATS[1] if data_format in (FORMATS[1], "NCHW") else FORMATS[0]
    return restored(ops.space_to_depth(channels_first(x, fmt), block_size), fmt)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Compute log(sum(exp(x))) along `axis` without overflow."""
    where = axes(axis)
    largest = np.max(x, axis=where, keepdims=True)
    y = np.log(np.sum(np.exp(x - largest), axis=where, keepdims=True)) + largest
    return y if keepdims else np.sum(y, axis=where)


def dot_product_attention(
    query: Any, key: Any, value: Any, mask: Any = None, scale: Any = None, is_causal: bool = False
) -> Any:
    """Compute softmax(q @ k^T * scale) @ v per head for (N, T, heads, size) and (N, S, heads, size)."""
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (query, key, value))
    scores = (q * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)) @ k.swapaxes(-1, -2)
    kept = mask
    if is_causal:
        lower = np.tril(np.ones(scores.shape[-2:], bool))
        kept = lower if kept is None else kept & lower
    if kept is not None:
        scores = np.where(kept, scores, np.float32(-1e9))
    return (ops.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
