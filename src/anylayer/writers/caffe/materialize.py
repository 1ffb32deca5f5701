"""Layers for the deferred steps of a view: Reshape, Permute, padding, products with a matrix along one axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.graph.arrangement import Arrangement, inverse
from anylayer.graph.facts import repetition
from anylayer.network import Array, Shape
from anylayer.ops._interpolation import Interpolation, as_matrix, taps
from anylayer.writers.caffe.views import AxisProduct, BlobView, PadStep, with_size

if TYPE_CHECKING:
    from anylayer.writers.caffe.builder import CaffeBuilder

_MAX_CHANNEL_VALUES = 1 << 24
"""The largest number of elements per channel, over the whole batch, for which a permutation of channels is
recognized."""


def materialize(b: CaffeBuilder, view: BlobView) -> BlobView:
    """Add the layers of all steps, in order, and return the blob that they produce."""
    done = BlobView(view.name, view.base)
    steps = list(view.steps)
    while steps:
        step = steps.pop(0)
        if isinstance(step, AxisProduct):
            matrices = {step.axis: step.matrix}
            while steps and isinstance(after := steps[0], AxisProduct) and after.axis not in matrices:
                matrices[after.axis] = after.matrix
                steps.pop(0)
            done = _axis_products(b, done, matrices)
        elif isinstance(step, Arrangement):
            done = _reorder_channels(b, done, step) or _arrange(b, done, step)
        else:
            done = _pad(b, done, step)
    return done


def _arrange(b: CaffeBuilder, x: BlobView, to: Arrangement) -> BlobView:
    """Add the layers of an arrangement: at most a Reshape, a Permute and another Reshape."""
    if not to.keeps_order:
        before, perm = _moves_within_samples(to)
        x = permute(b, reshape(b, x, before), perm)
    return reshape(b, x, to.shape)


def _moves_within_samples(to: Arrangement) -> tuple[Shape, Shape]:
    """Return the moves of an arrangement (see Arrangement.moves). A kept axis of samples stays first."""
    count = to.source[:1]
    if count != to.shape[:1] or (count != (1,) and (to.permutation[0] != 0 or to.pieces[:1] != count)):
        return to.moves()
    if count != (1,):
        to = replace(to, pieces=to.pieces[1:], permutation=tuple(i - 1 for i in to.permutation[1:]))
    axes = None if to.axes is None or to.axes[0] != 0 else tuple(a - 1 for a in to.axes[1:])
    before, perm = replace(to, source=to.source[1:], shape=to.shape[1:], axes=axes).moves()
    return (*count, *before), (0, *(p + 1 for p in perm))


def reshape(b: CaffeBuilder, x: BlobView, shape: Shape) -> BlobView:
    """Add a Flatten where the new shape is (N, everything else), otherwise a Reshape."""
    if x.base == shape:
        return x
    tail = math.prod(x.base[1:])
    if len(shape) == 2 and len(x.base) > 1 and shape == (x.base[0], tail) and b.dialect.has("Flatten"):
        return b.add("Flatten", [x], shape, suffix="flatten")
    b.need(shape or b.dialect.name != "opencv", f"no blob without axes, which {list(x.base)} would become")
    dims = [0 if i < len(x.base) and i == 0 and d == x.base[0] else d for i, d in enumerate(shape)]
    return b.add("Reshape", [x], shape, {"reshape_param": {"shape": {"dim": dims}}}, suffix="reshape")


def permute(b: CaffeBuilder, x: BlobView, perm: Shape) -> BlobView:
    """Add a Permute. Raises LayerError where the dialect has none."""
    if not b.dialect.has("Permute"):
        raise b.refusal(f"no Permute, which a transposition {list(perm)} of {list(x.base)} needs", "Permute")
    shape = tuple(x.base[p] for p in perm)
    return b.add("Permute", [x], shape, {"permute_param": {"order": list(perm)}}, suffix="permute")


def _reorder_channels(b: CaffeBuilder, x: BlobView, to: Arrangement) -> BlobView | None:
    """Add one layer for an arrangement that only reorders channels. Return None for any other."""
    if to.axes is not None or to.shape != x.base or len(x.base) < 2:
        return None
    batch, channels, inner = x.base[0], x.base[1], math.prod(x.base[2:])
    if channels == 1 or inner * batch > _MAX_CHANNEL_VALUES:
        return None
    elements = np.arange(math.prod(x.base)).reshape(x.base)
    indices = to.apply(elements)
    order = (indices // inner % channels)[0].reshape(channels, -1)[:, 0]
    return select_channels(b, x, order) if (indices == elements.take(order, axis=1)).all() else None


def select_channels(b: CaffeBuilder, x: BlobView, channels: Array) -> BlobView:
    """Select channels in any order: by ShuffleChannel if it produces this order, else by a 1 x 1 convolution."""
    count = len(channels)
    can_shuffle = b.dialect.has("ShuffleChannel") and (b.dialect.name != "opencv" or len(x.base) == 4)
    for group in range(2, count) if can_shuffle and count == x.base[1] else ():
        if count % group == 0 and (np.arange(count).reshape(group, -1).T.reshape(-1) == channels).all():
            params = {"shuffle_channel_param": {"group": group}}
            return b.add("ShuffleChannel", [x], x.base, params, suffix="shuffle")
    return axis_product(b, x, 1, selection_matrix(channels, x.base[1]))


def selection_matrix(cells: Array, size: int) -> Array:
    """Return the matrix (len(cells), size) that selects these cells of an axis: a single 1 in each row."""
    matrix = np.zeros((len(cells), size), np.float32)
    matrix[np.arange(len(cells)), cells] = 1
    return matrix


# ---- padding


def _pad(b: CaffeBuilder, x: BlobView, pad: PadStep) -> BlobView:
    """Pad a map with zeros: a depthwise 1 x 1 convolution pads both sides equally, Crop removes the surplus.

    Channels are padded by a 1 x 1 convolution. Raises LayerError for other values, axes or negative pads.
    """
    b.need(pad.value == 0, f"no padding with {pad.value:g}, only with zeros")
    b.need(min((*pad.begins, *pad.ends), default=0) >= 0, "no padding that crops")
    b.need(len(x.base) == 4, f"no padding of {list(x.base)}, only of maps (N, C, H, W)")
    outside = [i for i in (0, 1) if pad.begins[i] or pad.ends[i]]
    if outside == [1]:
        matrix = np.pad(np.eye(x.base[1], dtype=np.float32), [(pad.begins[1], pad.ends[1]), (0, 0)])
        x = axis_product(b, x, 1, matrix)
    else:
        b.need(not outside, "no padding of the batch")
    begins, ends = pad.begins[2:], pad.ends[2:]
    if not any((*begins, *ends)):
        return x
    both = [max(p, q) for p, q in zip(begins, ends)]
    wanted = [n + p + q for n, p, q in zip(x.base[2:], begins, ends)]
    y = identity_convolution(b, x, pads=both, suffix="pad")
    return crop(b, y, [p - q for p, q in zip(both, begins)], wanted)


def identity_convolution(
    b: CaffeBuilder,
    x: BlobView,
    *,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
    suffix: str = "identity",
) -> BlobView:
    """Copy each channel by a depthwise 1 x 1 convolution, which may pad with zeros or keep every n-th cell.

    `pads` and `strides` have one number per spatial axis; pads apply to both sides.
    """
    channels = x.base[1]
    sizes = x.base[2:]
    pads, strides = pads or [0] * len(sizes), strides or [1] * len(sizes)
    shape = (*x.base[:2], *((n + 2 * p - 1) // s + 1 for n, p, s in zip(sizes, pads, strides)))
    params = {"num_output": channels, "bias_term": False, **spatial_fields("pad", pads, 0)}
    params |= spatial_fields("kernel", [1] * len(sizes), None) | ({"group": channels} if channels > 1 else {})
    params |= spatial_fields("stride", strides, 1)
    ones = np.ones((channels, *(1,) * (len(x.base) - 1)), np.float32)
    return b.add("Convolution", [x], shape, {"convolution_param": params}, [ones], suffix=suffix)


def spatial_fields(stem: str, values: Iterable[int], default: int | None) -> dict[str, Any]:
    """Return the fields for one number per spatial axis: one field if all are equal, stem_h and stem_w, or a list.

    `stem` is "kernel", "stride", "pad" or "dilation". Values that all equal `default` need no field.
    """
    sizes = [int(v) for v in values]
    name = "kernel_size" if stem == "kernel" else stem
    if all(v == default for v in sizes):
        return {}
    if len(set(sizes)) == 1:
        return {name: sizes[0]}
    if len(sizes) == 2 and stem != "dilation":
        return {f"{stem}_h": sizes[0], f"{stem}_w": sizes[1]}
    return {name: sizes}


def axis_field(axis: int) -> dict[str, Any]:
    """Return the field `axis` of a layer whose default is the axis of channels, 1."""
    return {"axis": axis} if axis != 1 else {}


# ---- cropping


def crop(
    b: CaffeBuilder, x: BlobView, offsets: list[int], sizes: list[int], like: BlobView | None = None
) -> BlobView:
    """Cut the window of `sizes` that starts at `offsets` out of a map (spatial axes only).

    Crop reads its size from a second blob: `like` if it has these sizes, else any blob that has them.
    """
    if list(x.base[2:]) == list(sizes):
        return x
    shape = (*x.base[:2], *sizes)
    reference = like if like is not None and list(like.base[2:]) == list(sizes) else _blob_of_size(b, x, sizes)
    if reference is None or not b.dialect.has("Crop"):
        for i, (offset, size) in enumerate(zip(offsets, sizes)):
            x = slice_axis(b, x, 2 + i, offset, size)
        return x
    params: dict[str, Any] = {"axis": 2}
    if any(offsets):
        params["offset"] = offsets[0] if len(set(offsets)) == 1 else list(offsets)
    return b.add("Crop", [x, reference], shape, {"crop_param": params}, suffix="crop")


def _blob_of_size(b: CaffeBuilder, x: BlobView, sizes: list[int]) -> BlobView | None:
    """Return a blob with these spatial sizes, existing or new; None where the dialect has no Crop or DummyData."""
    if not b.dialect.has("Crop"):
        return None
    for name in reversed(b.shapes):
        if len(b.shapes[name]) == len(x.base) and list(b.shapes[name][2:]) == list(sizes):
            return BlobView(name, b.shapes[name])
    if not b.dialect.has("DummyData"):
        return None
    shape = (1, 1, *sizes)
    return b.add("DummyData", [], shape, {"dummy_data_param": {"shape": {"dim": list(shape)}}}, suffix="size")


def slice_axis(b: CaffeBuilder, x: BlobView, axis: int, start: int, size: int) -> BlobView:
    """Slice `size` cells from `start` on along an axis. The other parts go to a Silence layer."""
    whole = x.base[axis]
    if size == whole:
        return x
    points = [p for p in (start, start + size) if 0 < p < whole]
    bounds = [0, *points, whole]
    shapes = [with_size(x.base, axis, q - p) for p, q in pairwise(bounds)]
    parts = b.add_many(
        "Slice", [x], shapes, {"slice_param": {"axis": axis, "slice_point": points}}, suffix="slice"
    )
    wanted = bounds.index(start)
    silence(b, [p for i, p in enumerate(parts) if i != wanted])
    return parts[wanted]


def silence(b: CaffeBuilder, parts: list[BlobView]) -> None:
    """Add a Silence for blobs without consumers: Caffe would list them as outputs of the network.

    OpenCV does the opposite: it ignores an unused top of a layer with another top in use, but lists every Silence
    as an output; so none is added there.
    """
    if parts and b.dialect.name != "opencv":
        b.add_many("Silence", parts, [], suffix="silence")


# ---- products along an axis


def _axis_products(b: CaffeBuilder, x: BlobView, matrices: dict[int, Array]) -> BlobView:
    """Multiply by a matrix along several axes: by one resizing layer where one does it, else axis by axis."""
    if len(x.base) == 4 and set(matrices) <= {2, 3}:
        resized = _resize(b, x, matrices)
        if resized is not None:
            return resized
    for axis in sorted(matrices, key=lambda a: len(matrices[a]) / x.base[a]):
        x = axis_product(b, x, axis, matrices[axis])
    return x


def axis_product(b: CaffeBuilder, x: BlobView, axis: int, matrix: Array) -> BlobView:
    """Multiply by a matrix (new size, old size) along one axis.

    For the last axis this is an InnerProduct, for another one a 1 x 1 Convolution that has this axis as its
    channels. A dialect whose layer types are listed (OpenCV's) has only maps in convolutions, so there the axis is
    permuted to the end.
    """
    rank = len(x.base)
    shape = with_size(x.base, axis, len(matrix))
    weights = np.ascontiguousarray(matrix, np.float32)
    b.need(axis, f"no layer whose result for a sample uses other samples; this one sums axis 0 of {list(x.base)}")
    if axis == rank - 1:
        params = {"num_output": len(matrix), "bias_term": False, **axis_field(axis)}
        return b.add("InnerProduct", [x], shape, {"inner_product_param": params}, [weights], suffix="product")
    if axis > 1 and b.dialect.only and b.dialect.has("Permute"):
        swapped = [*range(axis), *range(axis + 1, rank), axis]
        inner = axis_product(b, permute(b, x, tuple(swapped)), rank - 1, matrix)
        return permute(b, inner, inverse(swapped))
    params = {"num_output": len(matrix), "bias_term": False, "kernel_size": 1, **axis_field(axis)}
    weights = weights.reshape(*weights.shape, *(1,) * (rank - axis - 1))
    return b.add("Convolution", [x], shape, {"convolution_param": params}, [weights], suffix="product")


def _resize(b: CaffeBuilder, x: BlobView, matrices: dict[int, Array]) -> BlobView | None:
    """Add a layer that interpolates as these matrices do, or return None if there is none. For repeated pixels
    this is Upsample or Deconvolution, for bilinear interpolation with aligned corners Interp.
    """
    sizes = [len(matrices[i]) if i in matrices else x.base[i] for i in (2, 3)]
    shape = (*x.base[:2], *sizes)
    times = [n // old for n, old in zip(sizes, x.base[2:])]
    if all(_repeats(m) for i, m in matrices.items()):
        channels = x.base[1]
        if times[0] == times[1] and b.dialect.name in ("ascend", "darknet"):
            params: dict[str, Any] = {"scale": 1.0, "stride": times[0]}
            return b.add("Upsample", [x], shape, {"upsample_param": params}, suffix="upsample")
        params = {"num_output": channels, "bias_term": False, **spatial_fields("kernel", times, None)}
        params |= {"group": channels} if channels > 1 else {}
        params |= spatial_fields("stride", times, 1)
        ones = np.ones((channels, 1, *times), np.float32)
        return b.add("Deconvolution", [x], shape, {"convolution_param": params}, [ones], suffix="upsample")
    rule = Interpolation(coordinates="align_corners")
    expected = {i: as_matrix(*taps(rule, *m.shape[::-1]), m.shape[1]) for i, m in matrices.items()}
    aligned = all(np.allclose(m, expected[i], atol=1e-6) for i, m in matrices.items())
    if aligned and b.dialect.name and b.dialect.has("Interp"):
        params = {"height": sizes[0], "width": sizes[1]}
        return b.add("Interp", [x], shape, {"interp_param": params}, suffix="interp")
    return None


def _repeats(matrix: Array) -> bool:
    """Return whether a matrix (new, old) repeats each cell equally often."""
    cells = matrix.argmax(axis=1)
    is_selection = np.count_nonzero(matrix) == len(matrix) and bool((matrix.max(axis=1) == 1).all())
    return is_selection and repetition(cells, matrix.shape[1]) > 0
