"""Functions of keras.ops and TensorFlow that NumPy lacks or spells differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, need, need_shape
from anylayer.layer.arguments import axis_of, channels_first, flat_pads, restored, same_pads
from anylayer.layers import _arrays as arrays
from anylayer.layers.keras._base import FORMATS, positive
from anylayer.layers.keras._resampling import METHODS, resample
from anylayer.network import Array

DTYPES = [
    "float32", "float16", "bfloat16", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "bool",
]  # fmt: skip
Axis = int | Sequence[int] | None


def _tensor(value: Array, dtype: Any = np.float32) -> Array:
    """Return an argument as an array; a constant is stored as a number or as lists."""
    return value.astype(dtype) if hasattr(value, "astype") else np.asarray(value, dtype)


def cast(x: Array, dtype: Any = None) -> Array:
    """Cast `x` to another dtype, if one is given; all floating-point dtypes become float32."""
    if dtype is None:
        return x
    name = str(dtype.get("config", {}).get("name")) if isinstance(dtype, dict) else str(dtype)
    need(name in DTYPES, f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return _tensor(x, "float32" if "float" in name else name)


def index(spec: Any) -> Any:
    """Return the key of x[...] from the nested lists and dictionaries that Keras 2 and 3 store."""
    if isinstance(spec, list):
        return tuple(index(item) for item in spec)
    if isinstance(spec, dict):
        if spec.get("class_name") == "__ellipsis__":
            return Ellipsis
        value = spec.get("config", spec)
        if isinstance(value, dict) and {"start", "stop", "step"} >= set(value):
            return slice(value.get("start"), value.get("stop"), value.get("step"))
        raise LayerError(f"index {spec!r} is not supported")
    return spec


def get_item(x: Array, key: Array) -> Array:
    """Compute x[key]."""
    position = index(key)
    if isinstance(key, list) and key and all(type(k) is int for k in key) and not isinstance(position, tuple):
        return x[list(key)]
    return x[position]


def axes(axis: Axis) -> Any:
    """Return an axis, a tuple of axes, or None."""
    return tuple(axis) if isinstance(axis, (list, tuple)) else axis


def split(x: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Split an array into equal parts, or at the given indices, along `axis`."""
    where = axis_of(axis, len(x.shape))
    if type(indices_or_sections) is int:
        return arrays.split(x, where, indices_or_sections, "indices_or_sections")
    return list(np.split(x, list(indices_or_sections), axis=where))


def split_sizes(value: Array, num_or_size_splits: Any, axis: int = 0, num: int | None = None) -> list[Array]:
    """Split an array into equal parts, or into parts of the given sizes, along `axis` as tf.split."""
    where, what = axis_of(axis, len(value.shape)), "num_or_size_splits"
    if type(num_or_size_splits) is int:
        return arrays.split(value, where, num_or_size_splits, what)
    return arrays.split_by_sizes(value, where, list(num_or_size_splits), what)


def unstack(x: Array, num: int | None = None, axis: int = 0) -> list[Any]:
    """Return the slices along `axis`, without that axis."""
    where = axis_of(axis, len(x.shape))
    return [np.take(x, i, axis=where) for i in range(x.shape[where])]


def reshape(x: Array, newshape: Any) -> Any:
    """Reshape an array; a size of -1 or None stands for the rest."""
    shape = [-1 if d is None else d for d in (newshape if isinstance(newshape, list) else [newshape])]
    return x.reshape(*shape)


def pad(x: Array, pad_width: Any, mode: Any = "constant", constant_values: float | None = None) -> Any:
    """Pad an array in one of the modes constant, reflect, symmetric and edge."""
    mode = mode.lower()
    widths: list[Any] = [pad_width] * len(x.shape) if type(pad_width) is int else list(pad_width)
    pairs = [(p, p) if type(p) is int else tuple(p) for p in widths]
    if len(pairs) == 1:
        pairs *= len(x.shape)
    if mode == "constant":
        return np.pad(x, pairs, constant_values=0 if constant_values is None else constant_values)
    return np.pad(x, pairs, mode=mode)


def norm(x: Array, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """Compute the norm of vectors along one axis, or of matrices along two axes, as numpy.linalg.norm."""
    x = cast(x, "float32")
    where: Any = tuple(range(len(x.shape))) if axis is None else axes(axis)
    if ord is None:
        return np.sqrt(np.sum(x * x, axis=where, keepdims=keepdims))
    one = isinstance(where, tuple) and len(where) == 1
    return np.linalg.norm(x, ord, where[0] if one else where, keepdims)


def normalize(x: Array, axis: Axis = -1, order: int = 2, epsilon: float | None = None) -> Any:
    """Compute x / max(|x|, epsilon) with the norm |x| of the given order along `axis`."""
    need(type(order) is int and order >= 1, f"order must be an integer of 1 or more, got {order!r}")
    least = np.float32(1e-7 if epsilon is None else epsilon)
    if order == 2:
        return l2_normalize(x, axis, float(least**2))
    return x / np.maximum(norm(x, order, axis, True), least)


def _broadcast(weight: Array, x: Array, axis: Any) -> Any:
    """Return a weight with the sizes of `axis`, which broadcasts with `x`."""
    weight = _tensor(weight)
    if len(weight.shape) == len(x.shape):
        return weight
    where = {axis_of(a, len(x.shape)) for a in (axis if isinstance(axis, (list, tuple)) else [axis])}
    return weight.reshape([n if i in where else 1 for i, n in enumerate(x.shape)])


def layer_norm(
    x: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    axis: Axis = -1,
    epsilon: float | None = None,
    rms_scaling: bool = False,
) -> Array:
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta over `axis`.

    With rms_scaling, the mean is not subtracted, and beta is not added.
    """
    centered = x - np.mean(x, axis=axes(axis), keepdims=True)
    variance = np.mean(centered * centered, axis=axes(axis), keepdims=True)
    y = (x if rms_scaling else centered) / np.sqrt(variance + np.float32(1e-7 if epsilon is None else epsilon))
    y = y if gamma is None else y * _broadcast(gamma, x, axis)
    return y if beta is None or rms_scaling else y + _broadcast(beta, x, axis)


def rms_norm(x: Array, scale: Array | None = None, axis: Axis = -1, epsilon: float | None = None) -> Array:
    """Compute x / sqrt(mean(x * x) + epsilon) * scale over `axis`."""
    squares = np.mean(x * x, axis=axes(axis), keepdims=True)
    y = x / np.sqrt(squares + np.float32(1e-7 if epsilon is None else epsilon))
    return y if scale is None else y * _tensor(scale)


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    offset: Array | None = None,
    scale: Array | None = None,
    axis: int = -1,
    epsilon: float = 1e-3,
) -> Any:
    """Compute (x - mean) / sqrt(variance + epsilon) * scale + offset, per index of `axis`."""
    factor = np.float32(1) / np.sqrt(_broadcast(variance, x, axis) + np.float32(epsilon))
    factor = factor if scale is None else factor * _broadcast(scale, x, axis)
    y = (x - _broadcast(mean, x, axis)) * factor
    return y if offset is None else y + _broadcast(offset, x, axis)


def divide_no_nan(x1: Array, x2: Array) -> Any:
    """Compute x1 / x2, and 0 where x2 is 0."""
    zero = np.equal(x2, 0)
    return np.where(zero, np.float32(0), x1 / np.where(zero, np.float32(1), x2))


def quantile(x: Array, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Any:
    """Compute quantiles along `axis` by linear interpolation."""
    need(method == "linear", f"method must be linear, got {method!r}")
    need(not hasattr(q, "shape") or isinstance(q, np.ndarray | np.generic), "q must be a constant")
    return np.quantile(x, np.asarray(q, np.float32), axis=axes(axis), keepdims=keepdims)


def average(x: Array, weights: Array | None = None, axis: Axis = None) -> Any:
    """Compute the mean along `axis`, or the weighted mean sum(x * weights) / sum(weights)."""
    if weights is None:
        return np.mean(x, axis=axes(axis))
    w = _tensor(weights)
    if len(w.shape) != len(x.shape):
        need(len(w.shape) == 1 and type(axis) is int, f"weights of rank {len(w.shape)} need one axis")
        w = _broadcast(w, x, axis)
        return np.sum(x * w, axis=axis) / np.sum(w)
    need_shape(w, tuple(x.shape), "weights")
    return np.sum(x * w, axis=axes(axis)) / np.sum(w, axis=axes(axis))


def top_k(x: Array, k: int, sorted: bool = True) -> list[Any]:
    """Return the k largest values along the last axis, largest first, and their indices (int32)."""
    values, indices = ops.top_k(x, k)
    return [values, indices.astype(np.int32)]


def slice_at(inputs: Array, start_indices: Any, shape: Any) -> Any:
    """Return the part of an array that begins at `start_indices` and has the sizes `shape`."""
    return inputs[_window(inputs, start_indices, shape)]


def slice_update(inputs: Array, start_indices: Any, updates: Any) -> Any:
    """Return an array with the part that begins at `start_indices` replaced."""
    result, part = inputs.copy(), _tensor(updates, inputs.dtype)
    result[_window(inputs, start_indices, part.shape)] = part
    return result


def _window(x: Array, start: Any, sizes: Any) -> tuple[slice, ...]:
    constant = isinstance(start, (list, tuple)) and all(type(i) is int for i in start)
    need(constant, "start_indices must be a list of integers; computed indices are not supported")
    pairs = list(zip(start, sizes))
    fits = len(pairs) == len(x.shape) and all(min(i, n, m - i - n) >= 0 for (i, n), m in zip(pairs, x.shape))
    need(fits, f"start_indices={list(start)} and sizes {list(sizes)} do not fit into the shape {tuple(x.shape)}")
    return tuple(slice(i, i + n) for i, n in pairs)


def scatter_update(inputs: Array, indices: Any, updates: Any, reduction: Any = None) -> Any:
    """Return a copy of an array in which the elements at the coordinates `indices` are replaced or reduced."""
    kind = getattr(inputs, "dtype", getattr(updates, "dtype", np.float32))
    x, where = _tensor(inputs, kind), _tensor(indices, np.int64)
    return ops.scatter_nd(x, where, _tensor(updates, kind), reduction=reduction or "none")


def l2_normalize(x: Array, axis: Axis = None, epsilon: float = 1e-12, dim: Axis = None) -> Array:
    """Compute x / sqrt(max(sum(x * x), epsilon)) along `axis` as tf.math.l2_normalize."""
    squares = np.sum(x * x, axis=axes(dim if axis is None else axis), keepdims=True)
    return x / np.sqrt(np.maximum(squares, np.float32(epsilon)))


def one_hot(x: Array, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False) -> Array:
    """Encode integers as one-hot vectors along a new axis. An index outside the classes gives only zeros."""
    ids = x.astype(np.int64)
    return cast(ops.one_hot(np.where(ids < 0, num_classes, ids), num_classes, axis=axis), dtype)


def take(x: Array, indices: Any, axis: int | None = None) -> Any:
    """Select slices along `axis` by index."""
    flat = x.reshape(-1) if axis is None else x
    if not hasattr(indices, "astype"):
        return np.take(flat, indices, axis=axis or 0)
    return ops.gather(flat, indices.astype(np.int64), axis=axis or 0)


def take_along_axis(x: Array, indices: Any, axis: int | None = None) -> Any:
    """Select elements along `axis` by index, of the flattened array without an axis."""
    return np.take_along_axis(x if axis is not None else x.reshape(-1), _tensor(indices, np.int64), axis or 0)


def multi_hot(inputs: Array, num_classes: int, axis: int = -1, dtype: Any = None) -> Array:
    """Encode each list of integers as one vector that is 1 at these indices, else 0."""
    return cast(np.max(one_hot(inputs, num_classes, axis), axis=1 if len(inputs.shape) > 1 else 0), dtype)


def _pixels(x: Array, fmt: str | None) -> tuple[int, int]:
    """Return the axes of height and width of an image (rank 3) or a batch of images (rank 4)."""
    need(len(x.shape) in (3, 4), f"takes images of rank 3 or 4, got {tuple(x.shape)}")
    first = len(x.shape) - (2 if fmt == FORMATS[1] else 3)
    return first, first + 1


def pad_images(
    images: Array,
    top_padding: int | None = None,
    left_padding: int | None = None,
    bottom_padding: int | None = None,
    right_padding: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Any:
    """Pad images with zeros at their borders, or to the target size."""
    sizes = ((top_padding, bottom_padding, target_height), (left_padding, right_padding, target_width))
    borders = _borders_by_axis(images, data_format, sizes, 1)
    return np.pad(images, [borders.get(axis, (0, 0)) for axis in range(len(images.shape))])


def crop_images(
    images: Array,
    top_cropping: int | None = None,
    left_cropping: int | None = None,
    bottom_cropping: int | None = None,
    right_cropping: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Any:
    """Remove pixels at the borders of images, or crop the images to the target size."""
    sizes = ((top_cropping, bottom_cropping, target_height), (left_cropping, right_cropping, target_width))
    parts = [slice(None)] * len(images.shape)
    for axis, (first, last) in _borders_by_axis(images, data_format, sizes, -1).items():
        parts[axis] = slice(first, images.shape[axis] - last)
    return images[tuple(parts)]


def _borders_by_axis(images: Array, fmt: str | None, sizes: Any, sign: int) -> dict[int, tuple[int, int]]:
    """Return the pixels before and after the image, by the axes of height and width.

    sizes: for each of these axes, the pixels before, those after, and the target size; one may be absent.
    sign: 1 if the borders are added to the image, -1 if they are removed from it.
    """
    result = {}
    for axis, (before, after, target) in zip(_pixels(images, fmt), sizes):
        total = None if target is None else sign * (target - images.shape[axis])
        result[axis] = _borders(before, after, total)
    return result


def _borders(before: Any, after: Any, total: int | None) -> tuple[int, int]:
    """Return the pixels before and after an image, of which one follows from their sum if it is absent."""
    stated = sum(value is not None for value in (before, after, total))
    need(stated == 2, "two of the two borders and the target size must be given for each axis")
    before = total - after if before is None else before
    after = total - before if after is None else after
    need(before >= 0 and after >= 0, f"borders of {before} and {after} pixels are not possible")
    return before, after


def rgb_to_grayscale(images: Array, data_format: str | None = None) -> Any:
    """Compute 0.2989 * red + 0.587 * green + 0.114 * blue."""
    axis = len(images.shape) - (3 if data_format == FORMATS[1] else 1)
    need(images.shape[axis] in (1, 3), f"takes images with 1 or 3 channels, got {images.shape[axis]}")
    if images.shape[axis] == 1:
        return images
    weights = np.array([0.2989, 0.587, 0.114], np.float32)
    gray = np.sum(images * _broadcast(weights, images, axis), axis)
    return np.expand_dims(gray, axis).astype(images.dtype)


def extract_patches(
    images: Array,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
) -> Any:
    """Return the patches at each position as channels, in the order row, column, channel."""
    need(len(images.shape) == 4, f"takes images of rank 4, got {tuple(images.shape)}")
    fmt = data_format or FORMATS[0]
    kernel, steps = positive(size, 2, "size"), positive(strides or size, 2, "strides")
    x, dilation = channels_first(images, fmt), positive(dilation_rate, 2, "dilation_rate")
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    if padding.lower() == "same":
        x = np.pad(x, [(0, 0), (0, 0), *same_pads(x.shape[2:], spans, steps)])
    counts = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, steps)]
    channels, height, width = x.shape[1], *counts
    if kernel == steps and dilation == (1, 1):
        x = x[:, :, : height * kernel[0], : width * kernel[1]]
        cells = x.reshape(-1, channels, height, kernel[0], width, kernel[1]).transpose(0, 3, 5, 1, 2, 4)
        return restored(cells.reshape(-1, kernel[0] * kernel[1] * channels, height, width), fmt)
    parts = [
        x[:, :, i : i + (height - 1) * steps[0] + 1 : steps[0], j : j + (width - 1) * steps[1] + 1 : steps[1]]
        for i in range(0, spans[0], dilation[0])
        for j in range(0, spans[1], dilation[1])
    ]
    return restored(np.concatenate(parts, axis=1), fmt)


def pool(
    x: Array,
    pool_size: Any,
    strides: Any = None,
    padding: str = "valid",
    data_format: str | None = None,
    kind: str = "max",
) -> Array:
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
    images: Array,
    size: Sequence[int],
    interpolation: str = "bilinear",
    antialias: bool = False,
    data_format: str | None = None,
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
    return restored(resample(channels_first(images, fmt), (height, width), interpolation.lower(), antialias), fmt)


def depth_to_space(x: Array, block_size: int, data_format: str | None = None) -> Any:
    """Move channels into blocks of block_size x block_size cells."""
    fmt = data_format or FORMATS[0]
    return restored(ops.depth_to_space(channels_first(x, fmt), block_size), fmt)


def space_to_depth(x: Array, block_size: int, data_format: str | None = None) -> Any:
    """Move blocks of block_size x block_size cells into channels."""
    fmt = data_format or FORMATS[0]
    return restored(ops.space_to_depth(channels_first(x, fmt), block_size), fmt)


def logsumexp(x: Array, axis: Axis = None, keepdims: bool = False) -> Any:
    """Compute log(sum(exp(x))) along `axis` without overflow."""
    where = axes(axis)
    largest = np.max(x, axis=where, keepdims=True)
    y = np.log(np.sum(np.exp(x - largest), axis=where, keepdims=True)) + largest
    return y if keepdims else np.sum(y, axis=where)


def masked_softmax(scores: Array, mask: Array | None) -> Array:
    """Return the softmax over the last axis, where elements with a false mask are replaced by -1e9."""
    return ops.softmax(scores if mask is None else np.where(mask, scores, np.float32(-1e9)), axis=-1)


def causal(queries: int, keys: int) -> Array:
    """Return a mask (1, queries, keys) that lets each query see its own position and those before it."""
    return np.tril(np.ones((1, queries, keys), bool))


def dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    scale: float | None = None,
    is_causal: bool = False,
) -> Array:
    """Compute softmax(q @ k^T * scale) @ v per head for (N, T, heads, size) and (N, S, heads, size)."""
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (query, key, value))
    scores = (q * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)) @ k.swapaxes(-1, -2)
    if is_causal:
        lower = causal(*scores.shape[-2:])
        mask = lower if mask is None else mask & lower
    return (masked_softmax(scores, mask) @ v).transpose(0, 2, 1, 3)
