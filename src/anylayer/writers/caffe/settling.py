"""Steps that were put off, as layers: Reshape, Flatten, Permute, and what stands for padding and mixing."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.network import Array, Shape
from anylayer.writers.caffe.views import Mix, Pad, Reshape, Step, Transpose, View

if TYPE_CHECKING:
    from anylayer.writers.caffe.builder import Builder


def settle(b: Builder, view: View) -> View:
    """A blob that is the value."""
    done = View(view.name, view.base)
    steps = list(view.steps)
    while steps:
        shuffled = _shuffle(b, done, steps)
        if shuffled is not None:
            done, steps = shuffled, steps[3:]
            continue
        step = steps.pop(0)
        if isinstance(step, Mix):
            mixes = {step.axis: step.matrix}
            while steps and isinstance(steps[0], Mix) and steps[0].axis not in mixes:
                following = steps.pop(0)
                mixes[following.axis] = following.matrix  # type: ignore[union-attr]
            done = _mixed(b, done, mixes)
        elif isinstance(step, Reshape):
            done = reshaped(b, done, step.shape)
        elif isinstance(step, Transpose):
            done = permuted(b, done, step.perm)
        else:
            done = _padded(b, done, step)
    return done


def reshaped(b: Builder, x: View, shape: Shape) -> View:
    """Flatten where that is all, else Reshape."""
    tail = math.prod(x.base[1:])
    if len(shape) == 2 and len(x.base) > 1 and shape == (x.base[0], tail) and b.dialect.has("Flatten"):
        return b.add("Flatten", [x], shape, suffix="flatten")
    b.need(shape or b.dialect.name != "opencv", f"no blob without axes, which {list(x.base)} would become")
    dims = [0 if i < len(x.base) and i == 0 and d == x.base[0] else d for i, d in enumerate(shape)]
    return b.add("Reshape", [x], shape, {"reshape_param": {"shape": {"dim": dims}}}, suffix="reshape")


def permuted(b: Builder, x: View, perm: Shape) -> View:
    """Permute, where the dialect has it."""
    b.need(b.dialect.has("Permute"), f"no Permute, which a transposition {list(perm)} of {list(x.base)} takes")
    shape = tuple(x.base[p] for p in perm)
    return b.add("Permute", [x], shape, {"permute_param": {"order": list(perm)}}, suffix="permute")


def _shuffle(b: Builder, x: View, steps: list[Step]) -> View | None:
    """Reshape, transpose and reshape back to one shape: it only deals the channels out anew."""
    if len(steps) < 3 or len(x.base) < 2:
        return None
    there, moved, back = steps[:3]
    if not (isinstance(there, Reshape) and isinstance(moved, Transpose) and isinstance(back, Reshape)):
        return None
    if back.shape != x.base or math.prod(x.base[2:]) * x.base[0] > 1 << 24:
        return None
    channels = np.arange(x.base[1]).reshape(1, -1, *(1,) * (len(x.base) - 2))
    place = View(x.name, x.base, tuple(steps[:3])).order()
    inner = math.prod(x.base[2:])
    picked = place // inner % x.base[1]
    first = picked[0].reshape(x.base[1], -1)[:, 0]
    back_again = np.arange(math.prod(x.base)).reshape(x.base).take(first, axis=1)
    if channels.size == 1 or not (place == back_again).all():
        return None
    return channels_picked(b, x, first)


def channels_picked(b: Builder, x: View, picks: Array) -> View:
    """The channels in another order: ShuffleChannel where that is what it does, else a convolution of 1 x 1."""
    count = len(picks)
    for group in range(2, count):
        deals = b.dialect.has("ShuffleChannel") and (b.dialect.name != "opencv" or len(x.base) == 4)
        if count == x.base[1] and count % group == 0 and deals:
            dealt = np.arange(count).reshape(group, -1).T.reshape(-1)
            if (dealt == picks).all():
                params = {"shuffle_channel_param": {"group": group}}
                return b.add("ShuffleChannel", [x], x.base, params, suffix="shuffle")
    matrix = np.zeros((count, x.base[1]), np.float32)
    matrix[np.arange(count), picks] = 1
    return mixed(b, x, 1, matrix)


# ---- padding


def _padded(b: Builder, x: View, pad: Pad) -> View:
    """A depthwise convolution of 1 x 1 pads by zeros on both sides alike; Crop takes away what is too much."""
    b.need(pad.value == 0, f"no padding with {pad.value:g}, only with zeros")
    b.need(len(x.base) == 4, f"no padding of {list(x.base)}, only of maps (N, C, H, W)")
    outside = [i for i in (0, 1) if pad.begins[i] or pad.ends[i]]
    if outside == [1]:
        wide = pad.begins[1] + x.base[1] + pad.ends[1]
        matrix = np.zeros((wide, x.base[1]), np.float32)
        matrix[pad.begins[1] + np.arange(x.base[1]), np.arange(x.base[1])] = 1
        x = mixed(b, x, 1, matrix)
    else:
        b.need(not outside, "no padding of the batch")
    begins, ends = pad.begins[2:], pad.ends[2:]
    if not any((*begins, *ends)):
        return x
    b.need(min((*begins, *ends)) >= 0, "no padding that crops")
    both = [max(p, q) for p, q in zip(begins, ends)]
    wanted = [n + p + q for n, p, q in zip(x.base[2:], begins, ends)]
    y = identity(b, x, pads=both, suffix="pad")
    return cropped(b, y, [p - q for p, q in zip(both, begins)], wanted)


def identity(
    b: Builder,
    x: View,
    *,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
    suffix: str = "identity",
) -> View:
    """Each channel as it is, padded, or every so many cells of it: a convolution of 1 x 1 for each."""
    channels = x.base[1]
    sizes = x.base[2:]
    pads, strides = pads or [0] * len(sizes), strides or [1] * len(sizes)
    shape = (*x.base[:2], *((n + 2 * p - 1) // s + 1 for n, p, s in zip(sizes, pads, strides)))
    params = {"num_output": channels, "bias_term": False, **sized("pad", pads, 0)}
    params |= sized("kernel", [1] * len(sizes), None) | ({"group": channels} if channels > 1 else {})
    params |= sized("stride", strides, 1)
    ones = np.ones((channels, *(1,) * (len(x.base) - 1)), np.float32)
    return b.add("Convolution", [x], shape, {"convolution_param": params}, [ones], suffix=suffix)


def sized(stem: str, values: Any, default: int | None) -> dict[str, Any]:
    """A size for each spatial axis as Caffe spells it: one for all, _h and _w, or a list."""
    values = [int(v) for v in values]
    name = "kernel_size" if stem == "kernel" else stem
    if all(v == default for v in values):
        return {}
    if len(set(values)) == 1:
        return {name: values[0]}
    if len(values) == 2 and stem != "dilation":
        return {f"{stem}_h": values[0], f"{stem}_w": values[1]}
    return {name: values}


# ---- cropping


def cropped(b: Builder, x: View, offsets: list[int], sizes: list[int], like: View | None = None) -> View:
    """The window of a map at `offsets`, of `sizes`. `like` is a blob that has these sizes."""
    if list(x.base[2:]) == list(sizes):
        return x
    shape = (*x.base[:2], *sizes)
    reference = like if like is not None and list(like.base[2:]) == list(sizes) else _of_size(b, x, sizes)
    if reference is None or not b.dialect.has("Crop"):
        for i, (offset, size) in enumerate(zip(offsets, sizes)):
            x = sliced(b, x, 2 + i, offset, size)
        return x
    params: dict[str, Any] = {"axis": 2}
    if any(offsets):
        params["offset"] = offsets[0] if len(set(offsets)) == 1 else list(offsets)
    return b.add("Crop", [x, reference], shape, {"crop_param": params}, suffix="crop")


def _of_size(b: Builder, x: View, sizes: list[int]) -> View | None:
    """A blob with these sizes of the map: one that is there, else one made for it."""
    if not b.dialect.has("Crop"):
        return None
    for name in reversed(b.shapes):
        if len(b.shapes[name]) == len(x.base) and list(b.shapes[name][2:]) == list(sizes):
            return View(name, b.shapes[name])
    if not b.dialect.has("DummyData"):
        return None
    shape = (1, 1, *sizes)
    return b.add("DummyData", [], shape, {"dummy_data_param": {"shape": {"dim": list(shape)}}}, suffix="size")


def sliced(b: Builder, x: View, axis: int, start: int, size: int) -> View:
    """The part from `start` on along an axis; what is left over is silenced."""
    whole = x.base[axis]
    if size == whole:
        return x
    points = [p for p in (start, start + size) if 0 < p < whole]
    bounds = [0, *points, whole]
    shapes = [(*x.base[:axis], q - p, *x.base[axis + 1 :]) for p, q in pairwise(bounds)]
    parts = b.add_many(
        "Slice", [x], shapes, {"slice_param": {"axis": axis, "slice_point": points}}, suffix="slice"
    )
    chosen = bounds.index(start)
    silenced(b, [p for i, p in enumerate(parts) if i != chosen])
    return parts[chosen]


def silenced(b: Builder, parts: list[View]) -> None:
    """Blobs that nothing reads, which would be outputs of the network otherwise. OpenCV takes no part of a layer
    that is read for an output, but every Silence."""
    if parts and b.dialect.name != "opencv":
        b.add_many("Silence", parts, [], suffix="silence")


# ---- mixing along an axis


def _mixed(b: Builder, x: View, mixes: dict[int, Array]) -> View:
    if len(x.base) == 4 and set(mixes) <= {2, 3}:
        made = _resized(b, x, mixes)
        if made is not None:
            return made
    for axis in sorted(mixes, key=lambda a: len(mixes[a]) / x.base[a]):
        x = mixed(b, x, axis, mixes[axis])
    return x


def mixed(b: Builder, x: View, axis: int, matrix: Array) -> View:
    """The matrix (new, old) along one axis: an inner product along the last, else a convolution of 1 x 1 whose
    channels that axis is."""
    rank = len(x.base)
    shape = (*x.base[:axis], len(matrix), *x.base[axis + 1 :])
    weights = np.ascontiguousarray(matrix, np.float32)
    b.need(axis > 0, "no product along the batch")
    if axis == rank - 1:
        params: dict[str, Any] = {"num_output": len(matrix), "bias_term": False}
        params |= {"axis": axis} if axis != 1 else {}
        return b.add("InnerProduct", [x], shape, {"inner_product_param": params}, [weights], suffix="product")
    if axis > 1 and b.dialect.only and b.dialect.has("Permute"):
        swapped = [*range(axis), *range(axis + 1, rank), axis]
        inner = mixed(b, permuted(b, x, tuple(swapped)), rank - 1, matrix)
        return permuted(b, inner, tuple(int(i) for i in np.argsort(swapped)))
    params = {"num_output": len(matrix), "bias_term": False, "kernel_size": 1}
    params |= {"axis": axis} if axis != 1 else {}
    weights = weights.reshape(*weights.shape, *(1,) * (rank - axis - 1))
    return b.add("Convolution", [x], shape, {"convolution_param": params}, [weights], suffix="product")


def _resized(b: Builder, x: View, mixes: dict[int, Array]) -> View | None:
    """Repeated pixels by Upsample or Deconvolution, aligned corners by Interp; None for other mixtures."""
    sizes = [len(mixes[i]) if i in mixes else x.base[i] for i in (2, 3)]
    shape = (*x.base[:2], *sizes)
    times = [n // old for n, old in zip(sizes, x.base[2:])]
    if all(np.array_equal(m, _repeating(x.base[i], len(m))) for i, m in mixes.items()):
        channels = x.base[1]
        if times[0] == times[1] and b.dialect.name in ("ascend", "darknet"):
            params: dict[str, Any] = {"scale": 1.0, "stride": times[0]}
            return b.add("Upsample", [x], shape, {"upsample_param": params}, suffix="upsample")
        params = {"num_output": channels, "bias_term": False, **sized("kernel", times, None)}
        params |= {"group": channels} if channels > 1 else {}
        params |= sized("stride", times, 1)
        ones = np.ones((channels, 1, *times), np.float32)
        return b.add("Deconvolution", [x], shape, {"convolution_param": params}, [ones], suffix="upsample")
    aligned = all(np.allclose(m, _aligned(x.base[i], len(m)), atol=1e-6) for i, m in mixes.items())
    if aligned and b.dialect.name and b.dialect.has("Interp"):
        params = {"height": sizes[0], "width": sizes[1]}
        return b.add("Interp", [x], shape, {"interp_param": params}, suffix="interp")
    return None


def _repeating(old: int, new: int) -> Array:
    """Each cell new / old times."""
    matrix = np.zeros((new, old), np.float32)
    if new % old == 0:
        matrix[np.arange(new), np.arange(new) // (new // old)] = 1
    return matrix


def _aligned(old: int, new: int) -> Array:
    """The bilinear weights that put first on first and last on last."""
    at = np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0)
    low = np.minimum(at.astype(np.int64), old - 1)
    matrix = np.zeros((new, old), np.float64)
    matrix[np.arange(new), low] += 1 - (at - low)
    matrix[np.arange(new), np.minimum(low + 1, old - 1)] += at - low
    return matrix
