"""Operators that move elements: Reshape, Transpose, Concat, Split, Slice, Gather, Tile, Resize, DepthToSpace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import slice_cuts
from anylayer.graph.operators import VIEWS
from anylayer.network import Array
from anylayer.ops._interpolation import as_matrix, interpolation_of, taps
from anylayer.writers.caffe.affine import tile, tile_to_shape
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.materialize import (
    axis_field,
    crop,
    identity_convolution,
    select_channels,
    selection_matrix,
    silence,
    slice_axis,
)
from anylayer.writers.caffe.views import AxisProduct, BlobView, with_size


def _cast(b: CaffeBuilder, op: Op) -> BlobView:
    kinds = "".join(v.dtype.kind for v in (op.inputs[0], op.outputs[0]) if v is not None)
    other = op.outputs[0] if kinds[1] != "f" else op.inputs[0]
    b.need(kinds in ("ff", "bf"), f"no {other.dtype if other is not None else ''}, only float32")
    return b.view(op.inputs[0])


def _transpose(b: CaffeBuilder, op: Op) -> BlobView:
    view = b.view(op.inputs[0])
    perm = op["perm"] or range(len(view.shape))[::-1]
    return view.transposed(tuple(int(p) for p in perm))


def _concat(b: CaffeBuilder, op: Op) -> BlobView:
    """Add a Concat of the inputs that are not empty, or a Tile where all are the same blob."""
    values = [v for v in op.inputs if v is not None and math.prod(v.shape)]
    if len(values) == 1:
        return b.view(values[0])
    axis = int(op["axis"]) % len(op.outputs[0].shape)
    blobs, axes = b.blobs_and_axes(*(b.view(v) for v in values))
    blob_axis = axes[axis]
    if len({v.name for v in blobs}) == 1 and b.dialect.has("Tile"):
        return tile(b, blobs[0], blob_axis, len(blobs)).transposed(axes)
    total = sum(x.base[blob_axis] for x in blobs)
    shape = with_size(blobs[0].base, blob_axis, total)
    return b.add("Concat", blobs, shape, {"concat_param": axis_field(blob_axis)}).transposed(axes)


# ---- split and slice


def _split(b: CaffeBuilder, op: Op) -> None:
    view = b.view(op.inputs[0])
    axis = int(op["axis"]) % len(view.shape)
    _split_into(b, view, axis, [(v, int(v.shape[axis])) for v in op.outputs])


def _split_into(b: CaffeBuilder, view: BlobView, axis: int, wanted: Sequence[tuple[Value | None, int]]) -> None:
    """Split a value into consecutive parts of these sizes. A part that no operator needs has None as its value."""
    (x,), axes = b.blobs_and_axes(view)
    blob_axis = axes[axis]
    sizes = [n for _, n in wanted]
    if len(sizes) == 1:
        if wanted[0][0] is not None:
            b.set_view(wanted[0][0], view)
        return
    shapes = [with_size(x.base, blob_axis, n) for n in sizes]
    params = axis_field(blob_axis)
    if len(set(sizes)) > 1 or b.dialect.name == "opencv":
        params = {"axis": blob_axis, "slice_point": [int(n) for n in np.cumsum(sizes)[:-1]]}
    tops = b.add_many("Slice", [x], shapes, {"slice_param": params})
    unread = []
    for (value, _), top in zip(wanted, tops):
        if value is None or value not in b.consumers:
            unread.append(top)
        if value is not None:
            b.set_view(value, top.transposed(axes))
    silence(b, unread)


def _bounds(b: CaffeBuilder, op: Op) -> dict[int, tuple[int, int, int]]:
    """Return axis -> (start, size, step) for the axes that a Slice changes. `start` is counted from 0."""
    sizes = b.view(op.inputs[0]).shape
    cuts = b.given(slice_cuts(op), "no bounds that are computed when the network runs")
    changed = [c for c in cuts if len(c.indices) != sizes[c.axis] or c.step != 1]
    return {c.axis: (c.start, len(c.indices), c.step) for c in changed}


def _slice(b: CaffeBuilder, op: Op) -> BlobView | None:
    """Add the layers of a Slice: one for all slices of the same input, or a slice or crop of its own.

    Return None where the views of the outputs of all these slices are set.
    """
    cuts = _bounds(b, op)
    view = b.view(op.inputs[0])
    if not cuts:
        return view
    if len(cuts) == 1 and _slice_all(b, op, view, cuts):
        return None
    (x,), axes = b.blobs_and_axes(view)
    return _slice_axes(b, x, {axes[a]: cut for a, cut in cuts.items()}).transposed(axes)


def _slice_axes(b: CaffeBuilder, x: BlobView, cuts: dict[int, tuple[int, int, int]]) -> BlobView:
    """Slice several axes of a blob.

    The spatial axes of a map are cropped together. Strides are a depthwise 1 x 1 convolution.
    """
    rank = len(x.base)
    spatial = {a: c for a, c in cuts.items() if rank == 4 and a >= 2}
    turned = [a for a, c in cuts.items() if c[2] == -1] if b.dialect.name == "ascend" else []
    for axis, (start, size, step) in cuts.items():
        if axis in spatial and step > 0:
            continue
        if axis in turned:
            x = slice_axis(b, x, axis, start - size + 1, size)
        elif step != 1:
            x = _select(b, x, axis, start + step * np.arange(size))
        else:
            x = slice_axis(b, x, axis, start, size)
    spatial = {a: c for a, c in spatial.items() if c[2] > 0}
    if spatial:
        offsets, spans, strides = [], [], []
        for i in (2, 3):
            start, size, step = spatial.get(i, (0, x.base[i], 1))
            offsets.append(start)
            spans.append((size - 1) * step + 1)
            strides.append(step)
        if any(s > 1 for s in strides):  # do not crop cells after the last one that is kept
            spans = [
                size if not o and (size - 1) // s == (n - 1) // s else n
                for size, o, n, s in zip(x.base[2:], offsets, spans, strides)
            ]
        x = crop(b, x, offsets, spans)
        if any(s > 1 for s in strides):
            x = identity_convolution(b, x, strides=strides, suffix="strided")
    return _reverse(b, x, turned) if turned else x


def _reverse(b: CaffeBuilder, x: BlobView, axes: Sequence[int]) -> BlobView:
    return b.add("Reverse", [x], x.base, {"reverse_param": {"axis": sorted(axes)}}, suffix="reverse")


def _slice_all(b: CaffeBuilder, op: Op, view: BlobView, cuts: dict[int, tuple[int, int, int]]) -> bool:
    """Add one layer for all slices of a value along an axis. Return False if they overlap."""
    ((axis, (_, _, step)),) = cuts.items()
    if step != 1 or op.inputs[0] is None:
        return False
    parts: list[tuple[int, int, Value]] = []
    for other in b.consumers.of(op.inputs[0]):
        if other.op != "Slice" or other.inputs[0] is not op.inputs[0]:
            continue
        theirs = _bounds(b, other)
        if list(theirs) == [axis] and theirs[axis][2] == 1:
            parts.append((theirs[axis][0], theirs[axis][1], other.outputs[0]))
    parts.sort(key=lambda p: p[0])
    if len(parts) < 2 or any(p[0] + p[1] > q[0] for p, q in pairwise(parts)):
        return False
    pieces: list[tuple[Value | None, int]] = []
    end = 0
    for start, size, value in parts:
        if start > end:
            pieces.append((None, start - end))
        pieces.append((value, size))
        end = start + size
    if end < view.shape[axis]:
        pieces.append((None, view.shape[axis] - end))
    _split_into(b, view, axis, pieces)
    return True


def _select(b: CaffeBuilder, x: BlobView, axis: int, cells: Array) -> BlobView:
    """Select cells of a blob along an axis, in any order."""
    if axis == 1 and len(x.base) == 4:
        return select_channels(b, x, cells)
    return b.materialized(x.then(AxisProduct(axis, selection_matrix(cells, x.base[axis]))))


def _gather(b: CaffeBuilder, op: Op) -> BlobView:
    """Add a Slice for consecutive indices; select other cells by a product with a matrix."""
    view = b.view(op.inputs[0])
    rank = len(view.shape)
    axis = int(op["axis"]) % rank
    size = view.shape[axis]
    cells = np.array(b.integers(op, 1, "indices"), np.int64)
    cells = np.where(cells < 0, cells + size, cells)
    if cells.size == 1 or (cells.size > 1 and (np.diff(cells) == 1).all()):
        (x,), axes = b.blobs_and_axes(view)
        return slice_axis(b, x, axes[axis], int(cells[0]), len(cells)).transposed(axes)
    if b.dialect.name == "ascend" and list(cells) == [*range(size)][::-1]:
        (x,), axes = b.blobs_and_axes(view)
        return _reverse(b, x, [axes[axis]]).transposed(axes)
    b.need(axis > 0, "no Gather along the batch")
    if len(cells) == size and axis == 1 and rank == 4 and not view.steps:
        return select_channels(b, view, cells)
    return view.then(AxisProduct(axis, selection_matrix(cells, size)))


# ---- repeat and resize


def _tile(b: CaffeBuilder, op: Op) -> BlobView:
    view = b.materialized(op.inputs[0])
    for axis, n in enumerate(b.integers(op, 1, "repeats")):
        if n > 1:
            view = tile(b, view, axis, n)
    return view


def _resize(b: CaffeBuilder, op: Op) -> BlobView:
    view = b.view(op.inputs[0])
    coordinates = op["coordinate_transformation_mode"]
    b.need(coordinates != "tf_crop_and_resize", "no Resize of a part of the input")
    for axis in reversed(range(len(view.shape))):
        old, new = view.shape[axis], op.outputs[0].shape[axis]
        if old != new:
            view = view.then(AxisProduct(axis, as_matrix(*taps(interpolation_of(op), old, int(new)), old)))
    return view


def _depth_to_space(b: CaffeBuilder, op: Op) -> BlobView:
    """Add Ascend's Reorg where its order fits, else a Deconvolution whose kernels have a single 1 each."""
    if op["mode"] != "CRD" and b.dialect.name == "ascend":
        return _reorg(b, op, {"reverse": True})
    x = b.materialized(op.inputs[0])
    block, outputs = int(op["blocksize"]), int(op.outputs[0].shape[1])
    weights = np.zeros((x.base[1], outputs, block, block), np.float32)
    for c in range(outputs):
        for i in range(block):
            for j in range(block):
                crd = op["mode"] == "CRD"
                source = (c * block + i) * block + j if crd else (i * block + j) * outputs + c
                weights[source, c, i, j] = 1
    return _add_blocks(b, op, "Deconvolution", x, outputs, weights)


def _space_to_depth(b: CaffeBuilder, op: Op) -> BlobView:
    """Add Ascend's Reorg, else a Convolution whose kernels have a single 1 each."""
    if b.dialect.name == "ascend":
        return _reorg(b, op, {})
    x = b.materialized(op.inputs[0])
    block, channels = int(op["blocksize"]), x.base[1]
    outputs = channels * block * block
    weights = np.zeros((outputs, channels, block, block), np.float32)
    for k in range(outputs):
        cell, c = divmod(k, channels)
        weights[k, c, cell // block, cell % block] = 1
    return _add_blocks(b, op, "Convolution", x, outputs, weights)


def _reorg(b: CaffeBuilder, op: Op, direction: Mapping[str, Any]) -> BlobView:
    """Add a Reorg, which keeps the channels of a pixel together in Ascend."""
    x = b.materialized(op.inputs[0])
    params = {"stride": int(op["blocksize"]), **direction}
    return b.add("Reorg", [x], tuple(op.outputs[0].shape), {"reorg_param": params})


def _add_blocks(b: CaffeBuilder, op: Op, layer: str, x: BlobView, outputs: int, weights: Array) -> BlobView:
    """Add a layer whose windows do not overlap, without a bias, as the operator's output."""
    block = weights.shape[-1]
    params = {"num_output": outputs, "bias_term": False, "kernel_size": block, "stride": block}
    shape = tuple(int(n) for n in op.outputs[0].shape)
    return b.add(layer, [x], shape, {"convolution_param": params}, [weights])


DATA_MOVEMENT: dict[str, CaffeLowering] = {
    # the builder reshapes the view to the output's shape
    **dict.fromkeys((*VIEWS, "Dropout"), lambda b, op: b.view(op.inputs[0])),
    "Cast": _cast,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Tile": _tile,
    "Expand": lambda b, op: tile_to_shape(b, b.view(op.inputs[0]), tuple(map(int, op.outputs[0].shape))),
    "Resize": _resize,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
