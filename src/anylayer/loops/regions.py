"""Resize, interpolation matrices, GridSample and RoiAlign as weighted gathers, in NumPy that is traced; NMS."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import number
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import same, symbolic_shape
from anylayer.loops.composites import LOOPS, composite
from anylayer.loops.ir import Suppress
from anylayer.loops.lowering import Lowering, Unsupported, given, nests, sizes_of
from anylayer.loops.reductions import in_memory
from anylayer.network import Array
from anylayer.ops._interpolation import interpolation_of
from anylayer.ops._interpolation import taps as taps_of
from anylayer.ops.grid_sample import on_axis, taps
from anylayer.ops.resize import ResizedAxis, by_cells
from anylayer.optimize.rules import Rewriter, rule
from anylayer.tracing import record, substituted

_TAPS = 4
"""The largest number of nonzero elements per row of a matrix whose product is computed by gathers."""
_MODES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def _along(x: Array, cells: Array, axis: int) -> Array:
    """Return the elements of `x` at these positions of one axis."""
    shape = (*x.shape[:axis], *cells.shape, *x.shape[axis + 1 :])
    return record("Gather", [x, cells], shape, x.dtype, axis=axis)


@composite("Resize")
def _resize(
    op: Op, x: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
) -> Array:
    """Resize one axis at a time: first the one that shrinks most, or the inner one if sizes are open."""
    if scales is not None or op["coordinate_transformation_mode"] == "tf_crop_and_resize":
        raise Unsupported("a Resize with scales or a region")
    rule, shape = interpolation_of(op), op.outputs[0].shape
    axes = [a for a in range(len(shape)) if not same(shape[a], x.shape[a])]
    if rule.antialias:
        return by_cells(x, [ResizedAxis(a, shape[a]) for a in axes], rule)
    is_open = symbolic_shape([n for a in axes for n in (x.shape[a], shape[a])])
    for axis in sorted(axes, key=lambda a: (0 if is_open else int(shape[a]) / int(x.shape[a]), -a)):
        cells, weights = substituted(taps_of)(rule, x.shape[axis], shape[axis])
        wide = (slice(None), *(None,) * (len(shape) - axis - 1))
        parts = [_along(x, cells[:, t], axis) for t in range(int(cells.shape[1]))]
        if weights is not None:
            parts = [part * weights[:, t][wide] for t, part in enumerate(parts)]
        x = reduce(add, parts)
    return x if axes else record("Identity", [x], x.shape, x.dtype)


def _matrix_and_axis(op: Op) -> tuple[Any, int] | None:
    """Return the constant matrix (new, old) of a MatMul, and the axis of the other factor that it multiplies,
    counted from the end. None for another MatMul."""
    for value, axis in zip(op.inputs, (-2, -1)):
        if value is not None and value.const is not None and len(value.shape) == 2 and value.dtype.kind == "f":
            return (value.const if axis == -2 else value.const.T), axis
    return None


def _is_sparse(op: Op) -> bool:
    """Return whether a MatMul multiplies an axis by a constant matrix with few nonzero elements per row."""
    pair = _matrix_and_axis(op)
    if pair is None or elements_of(pair[0]) is not None or any(v is None or len(v.shape) < 2 for v in op.inputs):
        return False
    matrix = np.asarray(pair[0])
    most = int(np.count_nonzero(matrix, axis=1).max(initial=0))
    return 0 < most <= min(_TAPS, matrix.shape[1] // 2) and bool(np.isfinite(matrix).all())


@composite("MatMul", when=_is_sparse)
def _sparse_product(op: Op, a: Array, b: Array) -> Any:
    """Gather the cells whose weights are not 0."""
    matrix, axis = _matrix_and_axis(op) or (a, -2)
    matrix, x = np.asarray(matrix), b if axis == -2 else a
    taps = int(np.count_nonzero(matrix, axis=1).max())
    cells = np.sort(np.argsort(matrix == 0, axis=1, kind="stable")[:, :taps], axis=1)
    weights = np.take_along_axis(matrix, cells, 1)
    wide = (slice(None), *(None,) * (-axis - 1))
    terms = [_along(x, cells[:, t], len(x.shape) + axis) * weights[:, t][wide] for t in range(taps)]
    return reduce(add, terms)


def _points(x: Array, image: Array, row: Array, column: Array) -> Array:
    """Return the pixels (..., C) of `x` (N, C, H, W) at integer positions that broadcast together."""
    parts = np.broadcast_arrays(image, row, column)
    where = np.stack([p.astype(np.int64) for p in parts], axis=-1)
    last = x.transpose(0, 2, 3, 1)
    return record("GatherND", [last, where], (*where.shape[:-1], x.shape[1]), x.dtype)


@composite("GridSample")
def _grid_sample(op: Op, x: Array, grid: Array) -> Any:
    mode, padding = _MODES[op["mode"]], op["padding_mode"]
    corners = bool(op["align_corners"])
    n, _, height, width = x.shape
    columns = substituted(on_axis)(grid[..., 0], width, mode, padding, corners)
    rows = substituted(on_axis)(grid[..., 1], height, mode, padding, corners)
    image = substituted(_numbers)(n)[:, None, None]
    terms = (
        _points(x, image, row, column) * (row_weight * weight)[..., None]
        for row, row_weight in list(substituted(taps)(rows, height, mode, padding, corners))
        for column, weight in list(substituted(taps)(columns, width, mode, padding, corners))
    )
    return reduce(add, terms).transpose(0, 3, 1, 2)


def _numbers(n: int) -> Any:
    return np.arange(n)


def _samples(start: Array, extent: Array, bins: int, ratio: int, cells: int) -> list[tuple[Any, Any]]:
    """Return (cell, weight) of the two cells that each sample of an axis interpolates: (K, bins, ratio)."""
    bin_, sample = np.divmod(np.arange(bins * ratio), ratio)
    step = extent[:, None] / np.float32(bins)
    part = (sample.astype(np.float32) + np.float32(0.5)) * step / np.float32(ratio)
    at = start[:, None] + bin_.astype(np.float32) * step + part
    inside = ((at >= -1) & (at <= cells)).astype(np.float32)
    at = np.clip(at, 0, cells - 1)
    low = np.floor(at)
    high = np.minimum(low + 1, cells - 1)
    part = at - low
    corners = [(low, (1 - part) * inside), (high, part * inside)]
    shape = (at.shape[0], bins, ratio)
    return [(cell.astype(np.int64).reshape(shape), weight.reshape(shape)) for cell, weight in corners]


@composite("RoiAlign")
def _roi_align(op: Op, x: Array, rois: Array, images: Array) -> Any:
    ratio = int(op["sampling_ratio"])
    if ratio < 1 or op["mode"] != "avg":
        raise Unsupported("a RoiAlign whose number of samples depends on data, or that takes the maximum")
    half = op["coordinate_transformation_mode"] == "half_pixel"
    size = int(op["output_height"]), int(op["output_width"])
    corners = rois * np.float32(op["spatial_scale"]) - np.float32(0.5 if half else 0)
    extents = corners[:, 2:] - corners[:, :2]
    if not half:
        extents = np.maximum(extents, np.float32(1))
    sample = substituted(_samples)
    terms = (  # (K, h, s, w, t, C)
        _points(x, images[:, None, None, None, None], row[:, :, :, None, None], column[:, None, None])
        * (row_weight[:, :, :, None, None] * weight[:, None, None])[..., None]
        for row, row_weight in sample(corners[:, 1], extents[:, 1], size[0], ratio, x.shape[2])
        for column, weight in sample(corners[:, 0], extents[:, 0], size[1], ratio, x.shape[3])
    )
    bins = reduce(add, terms).sum(axis=(2, 4)) / np.float32(ratio * ratio)
    return bins.transpose(0, 3, 1, 2)


# ---- NMS: one operator Suppress replaces those that `ops.nms` records, NonMaxSuppression and its padding


@rule("NonMaxSuppression", kind="must", targets=LOOPS)
def _padded(new: Rewriter, op: Op) -> list[Value] | None:
    """Compute an NMS whose result is padded to a static shape by Suppress, which also counts the boxes."""
    uses = [o for o in new.old.ops if op.outputs[0] in o.inputs]
    shapes = [o.outputs[0].shape for o in uses if o.op == "Pad"]
    if not shapes or any(o.op != "Pad" and (o.op != "Shape" or o.attrs) for o in uses):
        return None
    types = [(shapes[-1], np.int64), ((1,), np.int64)]
    attrs = {"center_point_box": op["center_point_box"]}
    return new.graph.emit("Suppress", op.inputs, types, attrs, place=op.place, scope=op.scope)[:1]


@rule("Pad", kind="must", targets=LOOPS)
def _rows(new: Rewriter, op: Op) -> list[Value] | None:
    """Remove the padding of an NMS: the result of Suppress has its shape."""
    nms = new.producer(op.inputs[0], "Suppress")
    return None if nms is None or nms.outputs[0].shape != op.outputs[0].shape else nms.outputs[:1]


@rule("Shape", kind="must", targets=LOOPS)
def _count(new: Rewriter, op: Op) -> list[Value] | None:
    """Return the number of boxes that Suppress counts, and 3."""
    nms = new.producer(op.inputs[0], "Suppress")
    return None if nms is None else new.emit(op, "Concat", [nms.outputs[1], new.ints([3])], axis=0)


@nests("Suppress")
def _suppress(low: Lowering, op: Op) -> None:
    boxes, scores = given(op), given(op, 1)
    most, overlap, least = (number(op.input(i)) for i in (2, 3, 4))
    if low.by_element:
        raise Unsupported("an NMS in a kernel for GPUs")
    if most is None or any(op.input(i) is not None and n is None for i, n in ((3, overlap), (4, least))):
        raise Unsupported("an NMS whose limits are computed")
    if op["center_point_box"] or not boxes.dtype == scores.dtype == np.float32:
        raise Unsupported("an NMS of boxes that have centers, or are not float32")
    sources = in_memory(low, scores), in_memory(low, boxes)
    rows, count = (low.new_buffer(v) for v in op.outputs)
    low.flush([Suppress(*sources, rows, count, sizes_of(scores), int(most), overlap or 0.0, least)])
