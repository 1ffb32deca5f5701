"""Operators that move elements: Reshape, Transpose, Concat, Slice, Gather, Split, Pad, DepthToSpace."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from anylayer.graph import Dim, Op, Value
from anylayer.graph.facts import integers, padding_of, reduced_axes, slice_cuts
from anylayer.graph.operators import VIEWS
from anylayer.network import Shape
from anylayer.writers._target import present, require
from anylayer.writers.ncnn.builder import RANK, NcnnBuilder, NcnnLowering, without_batch

_MULTIPLY = 2
"""The op_type of BinaryOp for products."""

_ORDERS = {
    1: ["W"],
    2: ["WH", "HW"],
    3: ["WHC", "HWC", "WCH", "CWH", "HCW", "CHW"],
    4: [
        *("WHDC", "HWDC", "WDHC", "DWHC", "HDWC", "DHWC", "WHCD", "HWCD", "WCHD", "CWHD", "HCWD", "CHWD"),
        *("WDCH", "DWCH", "WCDH", "CWDH", "DCWH", "CDWH", "HDCW", "DHCW", "HCDW", "CHDW", "DCHW", "CDHW"),
    ],
}
"""The meaning of Permute's order_type, by rank: the axes of the result, innermost first."""


def merge_axes(shape: Sequence[int], separate: Collection[int]) -> tuple[Shape, dict[int, int]]:
    """Merge adjacent axes of a shape, except the axes `separate`, and remove other axes of size 1.

    Return the new shape and, for each axis in `separate`, its index there.
    """
    sizes: list[int] = []
    place: dict[int, int] = {}
    mergeable = False
    for i, n in enumerate(shape):
        if i in separate:
            place[i] = len(sizes)
        if i in separate or (n != 1 and not mergeable):
            sizes.append(n)
        elif n != 1:
            sizes[-1] *= n
        mergeable = i not in separate and (mergeable or n != 1)
    return tuple(sizes) or (1,), place


def _integers(op: Op, i: int, what: str) -> list[int]:
    return present(integers(op.inputs[i]), f"computed {what}")


def axes_of(op: Op) -> list[int]:
    """Return the axes of a reduction, counted from the first; all axes where it names none."""
    return present(reduced_axes(op), "computed axes, or no axes with noop_with_empty_axes")


def _transpose(b: NcnnBuilder, op: Op) -> list[str]:
    """Write Transpose as Permute. Axes of size 1 are ignored, axes that stay adjacent are moved as one."""
    x = present(op.inputs[0])
    rank = len(x.shape)
    perm = [int(p) for p in op["perm"] or range(rank)[::-1]]
    runs: list[list[int]] = []
    for p in (p for p in perm if x.shape[p] != 1):
        between = range(runs[-1][-1] + 1, p) if runs else ()
        if runs and p > runs[-1][-1] and all(x.shape[i] == 1 for i in between):
            runs[-1].append(p)
        else:
            runs.append([p])
    order = sorted(range(len(runs)), key=lambda i: runs[i][0])
    shape = tuple(math.prod(x.shape[p] for p in runs[i]) for i in order)
    if len(runs) < 2:
        return [b.blob(x)]
    require(len(runs) <= RANK, f"{len(runs)} axes that move separately (at most {RANK} are possible)")
    moved = [order.index(i) for i in range(len(runs))]
    letters = {2: "HW", 3: "CHW", 4: "CDHW"}[len(runs)]
    code = _ORDERS[len(runs)].index("".join(letters[m] for m in moved)[::-1])
    return [b.add("Permute", [b.blob_of_shape(x, shape)], tuple(shape[m] for m in moved), {0: code})]


def _shape_with_axis(shape: Sequence[int], axis: int) -> tuple[Shape, int]:
    """Return a blob shape that has `axis` as an axis, and its index there: without the batch, if possible."""
    sample = without_batch(shape)
    if len(shape) - len(sample) <= axis and len(sample) <= RANK:
        return sample, axis - (len(shape) - len(sample))
    outer = math.prod(shape[:axis])
    rest = (shape[axis] * math.prod(shape[axis + 1 :]),)
    return (rest, 0) if outer == 1 else ((outer, *rest), 1)


def _concat(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Concat of the inputs that are not empty."""
    values = [present(v) for v in op.inputs if v is not None and 0 not in v.shape]
    out = op.outputs[0]
    axis = int(op["axis"]) % len(out.shape)
    shapes = [_shape_with_axis(v.shape, axis) for v in values]
    shape, blob_axis = _shape_with_axis(out.shape, axis)
    if any(len(s) != len(shape) or a != blob_axis for s, a in shapes):  # a concatenation along the batch
        outer, inner = math.prod(out.shape[:axis]), math.prod(out.shape[axis + 1 :])
        shapes = [((v.shape[axis] * inner,), 0) for v in values]
        require(outer == 1, "a concatenation along the batch")
        shape, blob_axis = (out.shape[axis] * inner,), 0
    if len(values) == 1:
        return [b.blob(values[0])]
    parts = [b.blob_of_shape(v, s) for v, (s, _) in zip(values, shapes)]
    return [b.add("Concat", parts, shape, {0: blob_axis})]


def _slice(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Crop for a Slice with step 1."""
    x, out = present(op.inputs[0]), op.outputs[0]
    cuts = slice_cuts(op)
    if cuts is None and b.varies:
        return [_crop_like_input(b, op)]
    begin = [0] * len(x.shape)
    for axis, start, _, step in present(cuts, "computed bounds"):
        require(step == 1 or (step > 0 and out.shape[axis] == 1), f"steps {[c.step for c in cuts or ()]}")
        begin[axis] = start
    cut = [i for i in range(len(x.shape)) if out.shape[i] != x.shape[i]]
    return [_crop(b, x, cut, begin, out.shape) if cut else b.blob(x)]


def _crop(b: NcnnBuilder, x: Value, cut: Sequence[int], begin: Sequence[int], sizes: Sequence[int]) -> str:
    """Add a Crop of `sizes` at `begin`, which is smaller than `x` along the axes `cut`."""
    shape = without_batch(x.shape)
    lead = len(x.shape) - len(shape)
    place = {i: i - lead for i in cut}
    if len(shape) > RANK or min(cut) < lead:
        shape, place = merge_axes(x.shape, cut)
    cropped = list(shape)
    for i in cut:
        cropped[place[i]] = sizes[i]
    params = {9: [begin[i] for i in cut], 10: [begin[i] + sizes[i] for i in cut], 11: [place[i] for i in cut]}
    return b.add("Crop", [b.blob_of_shape(x, shape)], tuple(cropped), params)


def _crop_like_input(b: NcnnBuilder, op: Op) -> str:
    """Add a Crop of maps whose heights and widths are static or those of an input of the network, at constant
    offsets.

    The expressions of its ends name the size of a blob: "1h" is the height of the second one.
    """
    x, out = present(op.inputs[0]), op.outputs[0]
    starts = _integers(op, 1, "bounds")
    axes = list(range(len(starts))) if op.input(3) is None else _integers(op, 3, "axes")
    steps = [1] if op.input(4) is None else _integers(op, 4, "steps")
    axes = [a % RANK for a in axes]
    require(len(x.shape) == RANK and x.shape[0] == 1 and min(axes) > 0, "a slice of other values than maps")
    require(set(steps) == {1} and min(starts) >= 0, "steps or negative bounds at sizes that vary")
    blobs, ends = [b.blob_of_shape(x, tuple(x.shape[1:]))], []
    for axis, start in zip(axes, starts):
        size = out.shape[axis]
        if isinstance(size, Dim):
            likes = [v for v in b.graph.inputs if v in b.blobs and v.shape[axis : axis + 1] == (size,)]
            require(bool(likes), "the size of a slice that is not that of an input")
            if b.blobs[likes[0]] not in blobs[1:]:
                blobs.append(b.blobs[likes[0]])
            ends.append(f"+({start},{blobs.index(b.blobs[likes[0]], 1)}{' chw'[axis]})")
        else:
            ends.append(str(start + size))
    params = {19: ",".join(map(str, starts)), 20: ",".join(ends), 21: ",".join(str(a - 1) for a in axes)}
    return b.add("Crop", blobs, tuple(out.shape[1:]), params)


def _gather(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Crop for consecutive indices, or repeat each cell the same number of times."""
    x = present(op.inputs[0])
    axis = int(op["axis"]) % len(x.shape)
    size = x.shape[axis]
    cells = np.array(_integers(op, 1, "indices")) if math.prod(present(op.inputs[1]).shape) else np.zeros(0)
    cells = np.where(cells < 0, cells + size, cells)
    if cells.size and (np.diff(cells) == 1).all():
        begin = [int(cells[0]) if i == axis else 0 for i in range(len(x.shape))]
        sizes = [cells.size if i == axis else n for i, n in enumerate(x.shape)]
        return [_crop(b, x, [axis], begin, sizes) if cells.size != size else b.blob(x)]
    times = cells.size // size
    require(
        cells.size == times * size and bool((cells == np.arange(cells.size) // max(times, 1)).all()),
        "indices that neither are consecutive nor repeat each cell equally often",
    )
    is_spatial = len(x.shape) == 4 and x.shape[0] == 1 and axis >= 2
    if is_spatial:
        return [repeat_pixels(b, x, (times, 1) if axis == 2 else (1, times))]
    return [_repeat(b, b.blob(x), math.prod(x.shape[: axis + 1]), math.prod(x.shape[axis + 1 :]), times)]


def repeat_pixels(b: NcnnBuilder, x: Value, times: tuple[int, int]) -> str:
    """Repeat each row and column of a value (1, channels, height, width) `times` (rows, columns).

    ncnn's Interp computes the source of pixel i as floor(i * scale), with scale rounded to float32. This is one
    too low for some sizes: 41 * (1 / 41) is less than 1. Those sizes are repeated by a product with ones.
    """
    _, channels, height, width = x.shape
    shape = (channels, height * times[0], width * times[1])
    if all(_is_exact(n, t) for n, t in zip(x.shape[2:], times)):
        scales = {1: float(times[0]), 2: float(times[1])}
        return b.add(
            "Interp", [b.blob_of_shape(x, x.shape[1:])], shape, {0: 1, **scales, 3: shape[1], 4: shape[2]}
        )
    taller = _repeat(b, b.blob(x), channels * height, width, times[0])
    return _repeat(b, taller, channels * shape[1] * width, 1, times[1])


def _is_exact(n: int, times: int) -> bool:
    """Return whether Interp repeats n cells `times` correctly."""
    places = np.arange(n * times)
    scaled = places.astype(np.float32) * (np.float32(n) / np.float32(n * times))
    return bool((scaled.astype(np.int64) == places // times).all())


def _repeat(b: NcnnBuilder, blob: str, outer: int, inner: int, times: int) -> str:
    """Return a blob (outer, times, inner) in which a product with ones repeats each row of data (outer, inner)."""
    ones = b.constant(np.ones(times, np.float32), (1, times, 1))
    return b.add("BinaryOp", [b.reshape(blob, (outer, 1, inner)), ones], (outer, times, inner), {0: _MULTIPLY})


def _split(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Slice, ncnn's name for Split."""
    x = present(op.inputs[0])
    axis = int(op["axis"]) % len(x.shape)
    shape, blob_axis = _shape_with_axis(x.shape, axis)
    inner = shape[blob_axis] // x.shape[axis]
    sizes = [v.shape[axis] * inner for v in op.outputs]
    shapes = [(*shape[:blob_axis], n, *shape[blob_axis + 1 :]) for n in sizes]
    return b.add_many("Slice", [b.blob_of_shape(x, shape)], shapes, {0: sizes, 1: blob_axis})


_BORDERS = {"constant": 0, "edge": 1, "reflect": 2}


def _pad(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Padding of at most three axes."""
    x, out = present(op.inputs[0]), op.outputs[0]
    padding = present(padding_of(op), "computed pads, axes or padding value")
    pads, value = [*zip(padding.begins, padding.ends)], padding.value
    mode = op["mode"]
    require(mode in _BORDERS, f"mode {mode}")
    require(min(map(min, pads)) >= 0, "pads that crop")
    require(bool(np.isfinite(value)), f"padding with {value}")
    lead = len(x.shape) - len(without_batch(x.shape))
    require(not lead or pads[0] == (0, 0), "a padded batch")
    pads, shape, result = pads[lead:], without_batch(x.shape), tuple(out.shape[lead:])
    require(len(shape) <= 3 and len(result) == len(shape), f"{len(shape)} axes (at most 3 are possible)")
    require(len(shape) < 3 or mode == "constant" or pads[0] == (0, 0), f"channels padded with mode {mode}")
    (front, back), (top, bottom), (left, right) = [(0, 0)] * (3 - len(pads)) + pads
    params = {0: top, 1: bottom, 2: left, 3: right, 4: _BORDERS[mode], 5: value, 7: front, 8: back}
    return [b.add("Padding", [b.blob_of_shape(x, shape)], result, params)]


def _pixels(b: NcnnBuilder, op: Op, layer: str, mode: int) -> list[str]:
    """Add a layer that moves blocks of pixels into channels or back."""
    x, out = present(op.inputs[0]), op.outputs[0]
    require(len(x.shape) == 4 and x.shape[0] == 1, f"an input {x.type}, expected batch 1")
    params = {0: int(op["blocksize"]), 1: mode}
    return [b.add(layer, [b.blob_of_shape(x, x.shape[1:])], tuple(out.shape[1:]), params)]


DATA_MOVEMENT: dict[str, NcnnLowering] = {
    **dict.fromkeys(VIEWS, lambda b, op: [b.blob(op.inputs[0])]),
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Gather": _gather,
    "Split": _split,
    "Pad": _pad,
    "DepthToSpace": lambda b, op: _pixels(b, op, "PixelShuffle", int(op["mode"] != "CRD")),
    "SpaceToDepth": lambda b, op: _pixels(b, op, "Reorg", 1),
}
