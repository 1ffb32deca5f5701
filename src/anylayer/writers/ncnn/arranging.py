"""Operators that move values: reshaping, transposing, joining, cutting, padding."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import padding_of, reduced_axes, slice_cuts
from anylayer.writers.ncnn.builder import RANK, Builder, Form, Shape, Unsupported, given, natural, require

_MULTIPLY = 2
"""BinaryOp's op_type for products."""

_ORDERS = {
    1: ["W"],
    2: ["WH", "HW"],
    3: ["WHC", "HWC", "WCH", "CWH", "HCW", "CHW"],
    4: [
        *("WHDC", "HWDC", "WDHC", "DWHC", "HDWC", "DHWC", "WHCD", "HWCD", "WCHD", "CWHD", "HCWD", "CHWD"),
        *("WDCH", "DWCH", "WCDH", "CWDH", "DCWH", "CDWH", "HDCW", "DHCW", "HCDW", "CHDW", "DCHW", "CDHW"),
    ],
}
"""What Permute's order_type means: the axes of the result, innermost first, by number of axes."""


def merged(shape: Sequence[int], alone: Collection[int]) -> tuple[Shape, dict[int, int]]:
    """A shape in which the axes `alone` stay as they are, and of the others neighbours are one axis and those of 1
    are none; and where the axes `alone` are in it."""
    sizes: list[int] = []
    place: dict[int, int] = {}
    grows = False
    for i, n in enumerate(shape):
        if i in alone:
            place[i] = len(sizes)
        if i in alone or (n != 1 and not grows):
            sizes.append(n)
        elif n != 1:
            sizes[-1] *= n
        grows = i not in alone and (grows or n != 1)
    return tuple(sizes) or (1,), place


def _numbers(value: Value | None, what: str) -> list[int]:
    if value is None or value.const is None:
        raise Unsupported(f"{what} that are computed")
    return [int(n) for n in np.asarray(value.const).reshape(-1)]


def axes_of(op: Op) -> list[int]:
    """The axes a reduction names; all where it names none."""
    axes = reduced_axes(op)
    if axes is None:
        raise Unsupported("axes that are computed, or none with noop_with_empty_axes")
    return axes


def _reshape(b: Builder, op: Op) -> list[str]:
    return [b.blob(op.inputs[0])]


def _transpose(b: Builder, op: Op) -> list[str]:
    """Axes of 1 do not count, and axes that stay neighbours move as one."""
    x = given(op.inputs[0])
    rank = len(x.shape)
    perm = [int(p) for p in op.attrs.get("perm") or range(rank)[::-1]]
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
    require(len(runs) <= RANK, f"{len(runs)} axes that move apart, at most {RANK} are possible")
    moved = [order.index(i) for i in range(len(runs))]
    letters = {2: "HW", 3: "CHW", 4: "CDHW"}[len(runs)]
    code = _ORDERS[len(runs)].index("".join(letters[m] for m in moved)[::-1])
    return [b.one("Permute", [b.get(x, shape)], tuple(shape[m] for m in moved), {0: code})]


def _along(shape: Sequence[int], axis: int) -> tuple[Shape, int]:
    """A shape for work along one axis, and where that is then: as the blobs lie where that can be."""
    plain = natural(shape)
    if len(shape) - len(plain) <= axis and len(plain) <= RANK:
        return plain, axis - (len(shape) - len(plain))
    outer = math.prod(shape[:axis])
    rest = (shape[axis] * math.prod(shape[axis + 1 :]),)
    return (rest, 0) if outer == 1 else ((outer, *rest), 1)


def _concat(b: Builder, op: Op) -> list[str]:
    values = [given(v) for v in op.inputs if v is not None and math.prod(v.shape)]
    out = op.outputs[0]
    axis = int(op.attrs["axis"]) % len(out.shape)
    ways = [_along(v.shape, axis) for v in values]
    shape, at = _along(out.shape, axis)
    if any(len(w[0]) != len(shape) or w[1] != at for w in ways):  # the axis that is joined is the batch's
        outer, inner = math.prod(out.shape[:axis]), math.prod(out.shape[axis + 1 :])
        ways = [((v.shape[axis] * inner,), 0) for v in values]
        require(outer == 1, "arrays joined along the batch")
        shape, at = (out.shape[axis] * inner,), 0
    if len(values) == 1:
        return [b.blob(values[0])]
    parts = [b.get(v, w[0]) for v, w in zip(values, ways)]
    return [b.one("Concat", parts, shape, {0: at})]


def _slice(b: Builder, op: Op) -> list[str]:
    x, out = given(op.inputs[0]), op.outputs[0]
    cuts = slice_cuts(op)
    if cuts is None:
        raise Unsupported("bounds that are computed")
    begin = [0] * len(x.shape)
    for axis, start, _, step in cuts:
        require(step == 1 or (step > 0 and out.shape[axis] == 1), f"steps {[c.step for c in cuts]}")
        begin[axis] = start
    cut = [i for i in range(len(x.shape)) if out.shape[i] != x.shape[i]]
    return [_crop(b, x, cut, begin, out.shape) if cut else b.blob(x)]


def _crop(b: Builder, x: Value, cut: Sequence[int], begin: Sequence[int], sizes: Sequence[int]) -> str:
    """The box of `sizes` at `begin`, smaller than `x` along the axes `cut`."""
    shape = natural(x.shape)
    lead = len(x.shape) - len(shape)
    place = {i: i - lead for i in cut}
    if len(shape) > RANK or min(cut) < lead:
        shape, place = merged(x.shape, cut)
    made = list(shape)
    for i in cut:
        made[place[i]] = sizes[i]
    params = {
        9: [begin[i] for i in cut],
        10: [begin[i] + sizes[i] for i in cut],
        11: [place[i] for i in cut],
    }
    return b.one("Crop", [b.get(x, shape)], tuple(made), params)


def _gather(b: Builder, op: Op) -> list[str]:
    """Neighbours are a box; each cell so many times over is what nearest resizing does."""
    x = given(op.inputs[0])
    axis = int(op.attrs.get("axis", 0)) % len(x.shape)
    size = x.shape[axis]
    cells = np.array(_numbers(op.inputs[1], "indices")) if math.prod(given(op.inputs[1]).shape) else np.zeros(0)
    cells = np.where(cells < 0, cells + size, cells)
    if cells.size and (np.diff(cells) == 1).all():
        begin = [int(cells[0]) if i == axis else 0 for i in range(len(x.shape))]
        sizes = [cells.size if i == axis else n for i, n in enumerate(x.shape)]
        return [_crop(b, x, [axis], begin, sizes) if cells.size != size else b.blob(x)]
    times = cells.size // size
    require(
        cells.size == times * size and bool((cells == np.arange(cells.size) // max(times, 1)).all()),
        "indices that are neither neighbours nor each one so many times",
    )
    planar = len(x.shape) == 4 and x.shape[0] == 1 and axis >= 2
    if planar:
        return [repeated(b, x, (times, 1) if axis == 2 else (1, times))]
    return [_repeat(b, b.blob(x), math.prod(x.shape[: axis + 1]), math.prod(x.shape[axis + 1 :]), times)]


def repeated(b: Builder, x: Value, times: tuple[int, int]) -> str:
    """Every row and column of a value (1, channels, height, width) so many times. ncnn's resizing rounds i / times
    down from a product with a rounded 1 / times, which is one too low for some: 41 * (1 / 41) is below 1."""
    _, channels, height, width = x.shape
    shape = (channels, height * times[0], width * times[1])
    if all(_is_exact(n, t) for n, t in zip(x.shape[2:], times)):
        scales = {1: float(times[0]), 2: float(times[1])}
        return b.one("Interp", [b.get(x, x.shape[1:])], shape, {0: 1, **scales, 3: shape[1], 4: shape[2]})
    taller = _repeat(b, b.blob(x), channels * height, width, times[0])
    return _repeat(b, taller, channels * shape[1] * width, 1, times[1])


def _is_exact(n: int, times: int) -> bool:
    places = np.arange(n * times)
    scaled = places.astype(np.float32) * (np.float32(n) / np.float32(n * times))
    return bool((scaled.astype(np.int64) == places // times).all())


def _repeat(b: Builder, blob: str, outer: int, inner: int, times: int) -> str:
    """Data (outer, inner), each row so many times, by a product with ones."""
    ones = b.memory(np.ones(times, np.float32), (1, times, 1))
    return b.one("BinaryOp", [b.viewed(blob, (outer, 1, inner)), ones], (outer, times, inner), {0: _MULTIPLY})


def _split(b: Builder, op: Op) -> list[str]:
    x = given(op.inputs[0])
    axis = int(op.attrs.get("axis", 0)) % len(x.shape)
    shape, at = _along(x.shape, axis)
    inner = shape[at] // x.shape[axis]
    sizes = [v.shape[axis] * inner for v in op.outputs]
    shapes = [(*shape[:at], n, *shape[at + 1 :]) for n in sizes]
    return b.add("Slice", [b.get(x, shape)], shapes, {0: sizes, 1: at})


_BORDERS = {"constant": 0, "edge": 1, "reflect": 2}


def _pad(b: Builder, op: Op) -> list[str]:
    x, out = given(op.inputs[0]), op.outputs[0]
    padding = padding_of(op)
    if padding is None:
        raise Unsupported("pads, axes or a padding value that are computed")
    pads, value = [*zip(padding.begins, padding.ends)], padding.value
    mode = op.attrs.get("mode") or "constant"
    require(mode in _BORDERS, f"mode {mode}")
    require(min(map(min, pads)) >= 0, "pads that crop")
    require(bool(np.isfinite(value)), f"padding with {value}")
    lead = len(x.shape) - len(natural(x.shape))
    require(not lead or pads[0] == (0, 0), "a padded batch")
    pads, shape, result = pads[lead:], natural(x.shape), tuple(out.shape[lead:])
    require(len(shape) <= 3 and len(result) == len(shape), f"{len(shape)} axes, at most 3 are possible")
    require(len(shape) < 3 or mode == "constant" or pads[0] == (0, 0), f"channels padded by mode {mode}")
    (front, behind), (top, bottom), (left, right) = [(0, 0)] * (3 - len(pads)) + pads
    params = {0: top, 1: bottom, 2: left, 3: right, 4: _BORDERS[mode], 5: value, 7: front, 8: behind}
    return [b.one("Padding", [b.get(x, shape)], result, params)]


def _depth_to_space(b: Builder, op: Op) -> list[str]:
    x, out = given(op.inputs[0]), op.outputs[0]
    require(len(x.shape) == 4 and x.shape[0] == 1, f"an input {x.type}, expected batch 1")
    mode = 0 if op.attrs.get("mode", "DCR") == "CRD" else 1
    params = {0: int(op.attrs["blocksize"]), 1: mode}
    return [b.one("PixelShuffle", [b.get(x, x.shape[1:])], tuple(out.shape[1:]), params)]


def _space_to_depth(b: Builder, op: Op) -> list[str]:
    x, out = given(op.inputs[0]), op.outputs[0]
    require(len(x.shape) == 4 and x.shape[0] == 1, f"an input {x.type}, expected batch 1")
    return [b.one("Reorg", [b.get(x, x.shape[1:])], tuple(out.shape[1:]), {0: int(op.attrs["blocksize"]), 1: 1})]


ARRANGING: dict[str, Form] = {
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Gather": _gather,
    "Split": _split,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
