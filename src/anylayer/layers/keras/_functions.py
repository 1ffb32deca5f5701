"""Functions of arrays that keras.ops and TensorFlow have under names of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, need
from anylayer.layers.keras._base import FORMATS, axis_of, channels_first, positive, restored, same_pads
from anylayer.layers.keras._resampling import METHODS, resampled

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


def cast(x: Any, dtype: Any) -> Any:
    """`x` in another dtype; of the floats there is float32 alone."""
    name = str(dtype.get("config", {}).get("name")) if isinstance(dtype, dict) else str(dtype)
    need(name in DTYPES, f"dtype {dtype!r} is none of {', '.join(DTYPES)}")
    return np.asarray(x).astype(name) if "float" not in name else x.astype(np.float32)


def index(spec: Any) -> Any:
    """What stands in x[...]: numbers, slices, ... and None, as Keras 2 and 3 write them."""
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


def get_item(x: Any, key: Any) -> Any:
    """x[key]."""
    found = index(key)
    if isinstance(key, list) and key and all(type(k) is int for k in key) and not isinstance(found, tuple):
        return x[list(key)]
    return x[found]


def axes(given: Any) -> Any:
    """An axis, a tuple of axes, or None."""
    return tuple(given) if isinstance(given, (list, tuple)) else given


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts, or parts that begin at the given places."""
    given = indices_or_sections
    where = axis_of(axis, len(x.shape))
    if type(given) is int:
        need(given > 0 and x.shape[where] % given == 0, f"{given} parts do not divide {x.shape[where]} cells")
        return list(np.split(x, given, axis=where))
    return list(np.split(x, list(given), axis=where))


def split_sizes(value: Any, num_or_size_splits: Any, axis: int = 0, num: Any = None) -> list[Any]:
    """TensorFlow's split: equal parts, or parts of the given sizes."""
    if type(num_or_size_splits) is int:
        return split(value, num_or_size_splits, axis)
    sizes, total = list(num_or_size_splits), value.shape[axis]
    if -1 in sizes:
        sizes[sizes.index(-1)] = total - sum(s for s in sizes if s != -1)
    return list(np.split(value, np.cumsum(sizes)[:-1].tolist(), axis=axis))


def unstack(x: Any, num: Any = None, axis: int = 0) -> list[Any]:
    """The slices along an axis."""
    where = axis_of(axis, len(x.shape))
    return [np.take(x, i, axis=where) for i in range(x.shape[where])]


def reshape(x: Any, newshape: Any) -> Any:
    """The same values in another shape; -1 or None is what is left."""
    shape = [-1 if d is None else d for d in (newshape if isinstance(newshape, list) else [newshape])]
    return x.reshape(*shape)


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Any:
    """Borders: constant, reflect, symmetric, edge."""
    mode = mode.lower()
    given: list[Any] = [pad_width] * len(x.shape) if type(pad_width) is int else list(pad_width)
    pairs = [(p, p) if type(p) is int else tuple(p) for p in given]
    if len(pairs) == 1:
        pairs *= len(x.shape)
    if mode == "constant":
        return np.pad(x, pairs, constant_values=0 if constant_values is None else constant_values)
    return np.pad(x, pairs, mode=mode)  # type: ignore[call-overload]


def normalize(x: Any, axis: Any = -1, order: Any = 2, epsilon: Any = None) -> Any:
    """x / |x|."""
    need(order == 2, f"order={order} is not supported, 2 is")
    least = np.float32(1e-7 if epsilon is None else epsilon) ** 2
    return x / np.sqrt(np.maximum(np.sum(x * x, axis=axes(axis), keepdims=True), least))


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, dim: Any = None) -> Any:
    """TensorFlow's: x / sqrt(max(sum(x * x), epsilon))."""
    squares = np.sum(x * x, axis=axes(dim if axis is None else axis), keepdims=True)
    return x / np.sqrt(np.maximum(squares, np.float32(epsilon)))


def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False) -> Any:
    """A row with a 1 for each number."""
    return ops.one_hot(x.astype(np.int64), num_classes, axis=axis).astype(np.float32)


def take(x: Any, indices: Any, axis: Any = None) -> Any:
    """Rows by number."""
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
    """keras.ops.max_pool and average_pool."""
    rank, fmt = len(x.shape) - 2, data_format or FORMATS[0]
    kernel = positive(pool_size, rank, "pool_size")
    steps = positive(pool_size if strides is None else strides, rank, "strides")
    y = channels_first(x, fmt)
    pads: Any = 0
    if padding.lower() == "same":
        pairs = [same_pads(*given) for given in zip(y.shape[2:], kernel, steps)]
        pads = [b for b, _ in pairs] + [e for _, e in pairs]
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
    """keras.ops.image.resize and tf.image.resize."""
    need(
        interpolation.lower() in METHODS,
        f"interpolation must be one of {', '.join(METHODS)}, got {interpolation!r}",
    )
    need(
        not crop_to_aspect_ratio and not pad_to_aspect_ratio,
        "keeping the proportions is not supported in a function, the layer Resizing does it",
    )
    need(len(images.shape) == 4, f"takes pictures of rank 4, got {tuple(images.shape)}")
    height, width = positive(list(size), 2, "size")
    fmt = data_format or FORMATS[0]
    return restored(resampled(channels_first(images, fmt), (height, width), interpolation.lower(), antialias), fmt)


def depth_to_space(x: Any, block_size: int, data_format: Any = None) -> Any:
    """Channels to a block of cells."""
    fmt = FORMATS[1] if data_format in (FORMATS[1], "NCHW") else FORMATS[0]
    return restored(ops.depth_to_space(channels_first(x, fmt), block_size), fmt)


def space_to_depth(x: Any, block_size: int, data_format: Any = None) -> Any:
    """Blocks of cells to channels."""
    fmt = FORMATS[1] if data_format in (FORMATS[1], "NCHW") else FORMATS[0]
    return restored(ops.space_to_depth(channels_first(x, fmt), block_size), fmt)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))), without overflow."""
    where = axes(axis)
    most = np.max(x, axis=where, keepdims=True)
    y = np.log(np.sum(np.exp(x - most), axis=where, keepdims=True)) + most
    return y if keepdims else np.sum(y, axis=where)


def dot_product_attention(
    query: Any, key: Any, value: Any, mask: Any = None, scale: Any = None, is_causal: bool = False
) -> Any:
    """Scaled dot products of (N, T, heads, size) with (N, S, heads, size)."""
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (query, key, value))
    scores = (q * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)) @ k.swapaxes(-1, -2)
    kept = mask
    if is_causal:
        lower = np.tril(np.ones(scores.shape[-2:], bool))
        kept = lower if kept is None else kept & lower
    if kept is not None:
        scores = np.where(kept, scores, np.float32(-1e9))
    return (ops.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
