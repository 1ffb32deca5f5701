"""Operators that move values, join, cut, repeat and resize them, and that sum along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import reduced_axes, slice_cuts
from anylayer.network import Array
from anylayer.ops._interpolation import as_matrix, interpolation, picks, positions
from anylayer.writers.caffe.affine import power, tiled
from anylayer.writers.caffe.builder import Builder, Form
from anylayer.writers.caffe.schema import own_message
from anylayer.writers.caffe.settling import (
    channels_picked,
    cropped,
    identity,
    silenced,
    sliced,
)
from anylayer.writers.caffe.views import Mix, Reshape, Transpose, View


def _reshape(b: Builder, op: Op) -> None:
    b.give(op.outputs[0], b.view(op.inputs[0]).then(Reshape(tuple(int(n) for n in op.outputs[0].shape))))


def _identity(b: Builder, op: Op) -> None:
    b.give(op.outputs[0], b.view(op.inputs[0]))


def _cast(b: Builder, op: Op) -> None:
    kinds = "".join(v.dtype.kind for v in (op.inputs[0], op.outputs[0]) if v is not None)
    b.need(kinds in ("ff", "bf"), f"no {op.outputs[0].dtype}, only float32")
    _identity(b, op)


def _transpose(b: Builder, op: Op) -> None:
    view = b.view(op.inputs[0])
    perm = op.attrs.get("perm") or range(len(view.shape))[::-1]
    b.give(op.outputs[0], view.then(Transpose(tuple(int(p) for p in perm))))


def _along(b: Builder, views: Sequence[View], axis: int) -> tuple[list[View], int, tuple[Any, ...]]:
    """Blobs on which an axis of the values is one axis too, that axis, and the steps from them to the values."""
    perm = views[0].perm
    if perm is not None and all(v.steps == views[0].steps and len(v.base) == len(perm) for v in views):
        return [View(v.name, v.base) for v in views], perm[axis], views[0].steps
    return [b.settled(v) for v in views], axis, ()


def _concat(b: Builder, op: Op) -> None:
    values = [v for v in op.inputs if v is not None and math.prod(v.shape)]
    if len(values) == 1:
        b.give(op.outputs[0], b.view(values[0]))
        return
    axis = int(op.attrs["axis"]) % len(op.outputs[0].shape)
    blobs, at, steps = _along(b, [b.view(v) for v in values], axis)
    if len({v.name for v in blobs}) == 1 and b.dialect.has("Tile"):
        params: dict[str, Any] = {"axis": at} if at != 1 else {}
        (x, *_), times = blobs, len(blobs)
        wide = (*x.base[:at], times * x.base[at], *x.base[at + 1 :])
        y = b.add("Tile", [x], wide, {"tile_param": {**params, "tiles": times}})
        b.give(op.outputs[0], View(y.name, y.base, steps))
        return
    total = sum(x.base[at] for x in blobs)
    shape = (*blobs[0].base[:at], total, *blobs[0].base[at + 1 :])
    y = b.add("Concat", blobs, shape, {"concat_param": {"axis": at} if at != 1 else {}})
    b.give(op.outputs[0], View(y.name, y.base, steps))


# ---- cutting


def _split(b: Builder, op: Op) -> None:
    view = b.view(op.inputs[0])
    axis = int(op.attrs.get("axis", 0)) % len(view.shape)
    _parts(b, view, axis, [(v, int(v.shape[axis])) for v in op.outputs])


def _parts(b: Builder, view: View, axis: int, wanted: Sequence[tuple[Value | None, int]]) -> None:
    """Slice a value into parts of these sizes, one behind the other; None for one that nobody asked for."""
    (x,), at, steps = _along(b, [view], axis)
    sizes = [n for _, n in wanted]
    if len(sizes) == 1:
        if wanted[0][0] is not None:
            b.give(wanted[0][0], view)
        return
    shapes = [(*x.base[:at], n, *x.base[at + 1 :]) for n in sizes]
    params: dict[str, Any] = {"axis": at} if at != 1 else {}
    if len(set(sizes)) > 1 or b.dialect.name == "opencv":
        params |= {"axis": at}
        params["slice_point"] = [int(n) for n in np.cumsum(sizes)[:-1]]
    tops = b.add_many("Slice", [x], shapes, {"slice_param": params})
    unread = []
    for (value, _), top in zip(wanted, tops):
        if value is None or not b.uses.get(value):
            unread.append(top)
        if value is not None:
            b.give(value, View(top.name, top.base, steps))
    silenced(b, unread)


def _bounds(b: Builder, op: Op) -> dict[int, tuple[int, int, int]]:
    """What a Slice cuts: axis -> (start, size, step), for the axes that change."""
    x, cuts = op.inputs[0], slice_cuts(op)
    if x is None or cuts is None:
        raise b.refusal("no bounds that are computed when the network runs")
    kept = [c for c in cuts if len(c.indices) != x.shape[c.axis] or c.step != 1]
    return {c.axis: (c.start, len(c.indices), c.step) for c in kept}


def _slice(b: Builder, op: Op) -> None:
    cuts = _bounds(b, op)
    view = b.view(op.inputs[0])
    if not cuts:
        b.give(op.outputs[0], view)
        return
    if len(cuts) == 1 and _together(b, op, view, cuts):
        return
    perm = view.perm
    inner = View(view.name, view.base) if perm is not None else b.settled(view)
    steps = view.steps if perm is not None else ()
    window = {(perm[a] if perm is not None else a): cut for a, cut in cuts.items()}
    b.give(op.outputs[0], _window(b, inner, window, steps))


def _window(b: Builder, x: View, cuts: dict[int, tuple[int, int, int]], steps: tuple[Any, ...]) -> View:
    rank = len(x.base)
    spatial = {a: c for a, c in cuts.items() if rank == 4 and a >= 2}
    for axis, (start, size, step) in cuts.items():
        if axis in spatial and step > 0:
            continue
        if step != 1:
            x = _picked(b, x, axis, start + step * np.arange(size))
        else:
            x = sliced(b, x, axis, start, size)
    spatial = {a: c for a, c in spatial.items() if c[2] > 0}
    if spatial:
        offsets, spans, strides = [], [], []
        for i in (2, 3):
            start, size, step = spatial.get(i, (0, x.base[i], 1))
            offsets.append(start)
            spans.append((size - 1) * step + 1)
            strides.append(step)
        if any(s > 1 for s in strides):  # cells that no stride reaches need not be cut off
            spans = [x.base[2 + i] if not o and (x.base[2 + i] - 1) // s == (n - 1) // s else n
                     for i, (o, n, s) in enumerate(zip(offsets, spans, strides))]  # fmt: skip
        x = cropped(b, x, offsets, spans)
        if any(s > 1 for s in strides):
            x = identity(b, x, strides=strides, suffix="strided")
    return View(x.name, x.base, steps)


def _together(b: Builder, op: Op, view: View, cuts: dict[int, tuple[int, int, int]]) -> bool:
    """Whether all slices of one value cut it into parts: then one layer gives them all."""
    ((axis, (_, _, step)),) = cuts.items()
    if step != 1 or op.inputs[0] is None:
        return False
    parts: list[tuple[int, int, Value]] = []
    for other in b.readers.get(op.inputs[0], []):
        if other.op != "Slice" or other.inputs[0] is not op.inputs[0]:
            continue
        theirs = _bounds(b, other)
        if list(theirs) == [axis] and theirs[axis][2] == 1:
            parts.append((theirs[axis][0], theirs[axis][1], other.outputs[0]))
    parts.sort(key=lambda p: p[0])
    if len(parts) < 2 or any(p[0] + p[1] > q[0] for p, q in pairwise(parts)):
        return False
    wanted: list[tuple[Value | None, int]] = []
    at = 0
    for start, size, value in parts:
        if start > at:
            wanted.append((None, start - at))
        wanted.append((value, size))
        at = start + size
    if at < view.shape[axis]:
        wanted.append((None, view.shape[axis] - at))
    _parts(b, view, axis, wanted)
    return True


def _picked(b: Builder, x: View, axis: int, cells: Array) -> View:
    """Cells along an axis, in any order."""
    if axis == 1 and len(x.base) == 4:
        return channels_picked(b, x, cells)
    matrix = np.zeros((len(cells), x.base[axis]), np.float32)
    matrix[np.arange(len(cells)), cells] = 1
    return b.settled(x.then(Mix(axis, matrix)))


def _gather(b: Builder, op: Op) -> None:
    view = b.view(op.inputs[0])
    rank = len(view.shape)
    axis = int(op.attrs.get("axis", 0)) % rank
    size = view.shape[axis]
    cells = np.array(b.numbers(op.inputs[1], "places"), np.int64)
    cells = np.where(cells < 0, cells + size, cells)
    if cells.size == 1 or (cells.size > 1 and (np.diff(cells) == 1).all()):
        perm = view.perm
        inner = View(view.name, view.base) if perm is not None else b.settled(view)
        at = perm[axis] if perm is not None else axis
        y = sliced(b, inner, at, int(cells[0]), len(cells))
        b.give(op.outputs[0], View(y.name, y.base, view.steps if perm is not None else ()))
        return
    b.need(axis > 0, "no choice among the samples of a batch")
    matrix = np.zeros((len(cells), size), np.float32)
    matrix[np.arange(len(cells)), cells] = 1
    if len(cells) == size and axis == 1 and rank == 4 and view.perm is not None and not view.steps:
        b.give(op.outputs[0], channels_picked(b, View(view.name, view.base), cells))
        return
    b.give(op.outputs[0], view.then(Mix(axis, matrix)))


# ---- repeating


def _tile(b: Builder, op: Op) -> None:
    view = b.settled(op.inputs[0])
    for axis, n in enumerate(b.numbers(op.inputs[1], "repeats")):
        if n > 1:
            shape = (*view.base[:axis], n * view.base[axis], *view.base[axis + 1 :])
            params: dict[str, Any] = {"axis": axis} if axis != 1 else {}
            view = b.add("Tile", [view], shape, {"tile_param": {**params, "tiles": n}})
    b.give(op.outputs[0], view)


def _expand(b: Builder, op: Op) -> None:
    b.give(op.outputs[0], tiled(b, b.view(op.inputs[0]), tuple(int(n) for n in op.outputs[0].shape)))


def _resize(b: Builder, op: Op) -> None:
    view = b.view(op.inputs[0])
    mode = str(op.attrs.get("mode") or "nearest")
    coordinates = str(op.attrs.get("coordinate_transformation_mode") or "half_pixel")
    b.need(coordinates != "tf_crop_and_resize", "no resizing of a part")
    for axis, (old, new) in enumerate(zip(view.shape, op.outputs[0].shape)):
        if old == new:
            continue
        at = positions(old, int(new), coordinates)
        if mode == "nearest":
            cells = picks(at, old, str(op.attrs.get("nearest_mode") or "round_prefer_floor"))
            matrix = np.zeros((int(new), old), np.float32)
            matrix[np.arange(int(new)), cells] = 1
        else:
            outside, smooth = bool(op.attrs.get("exclude_outside")), bool(op.attrs.get("antialias"))
            cubic = float(op.attrs.get("cubic_coeff_a", -0.75))
            cells, weights = interpolation(at, old, int(new), mode, cubic, outside, smooth)
            matrix = as_matrix(cells, weights, old)
        view = view.then(Mix(axis, matrix))
    b.give(op.outputs[0], view)


def _depth_to_space(b: Builder, op: Op) -> None:
    """A deconvolution by kernels that have a single 1."""
    x = b.settled(op.inputs[0])
    block, outputs = int(op.attrs["blocksize"]), int(op.outputs[0].shape[1])
    weights = np.zeros((x.base[1], outputs, block, block), np.float32)
    for c in range(outputs):
        for i in range(block):
            for j in range(block):
                crd = op.attrs.get("mode") == "CRD"
                source = (c * block + i) * block + j if crd else (i * block + j) * outputs + c
                weights[source, c, i, j] = 1
    params = {"num_output": outputs, "bias_term": False, "kernel_size": block, "stride": block}
    shape = tuple(int(n) for n in op.outputs[0].shape)
    b.give(op.outputs[0], b.add("Deconvolution", [x], shape, {"convolution_param": params}, [weights]))


def _space_to_depth(b: Builder, op: Op) -> None:
    """A convolution by kernels that have a single 1."""
    x = b.settled(op.inputs[0])
    block, channels = int(op.attrs["blocksize"]), x.base[1]
    outputs = channels * block * block
    weights = np.zeros((outputs, channels, block, block), np.float32)
    for k in range(outputs):
        cell, c = divmod(k, channels)
        weights[k, c, cell // block, cell % block] = 1
    params = {"num_output": outputs, "bias_term": False, "kernel_size": block, "stride": block}
    shape = tuple(int(n) for n in op.outputs[0].shape)
    b.give(op.outputs[0], b.add("Convolution", [x], shape, {"convolution_param": params}, [weights]))


# ---- along axes


def _softmax(b: Builder, op: Op) -> None:
    view = b.view(op.inputs[0])
    axis = int(op.attrs.get("axis", -1)) % len(view.shape)
    (x,), at, steps = _along(b, [view], axis)
    y = b.add("Softmax", [x], x.base, {"softmax_param": {"axis": at} if at != 1 else {}})
    if op.op == "LogSoftmax":
        y = b.add("Log", [y], y.base)
    b.give(op.outputs[0], View(y.name, y.base, steps))


def _reduce(b: Builder, op: Op) -> None:
    view = b.view(op.inputs[0])
    axes = reduced_axes(op)
    if axes is None:
        raise b.refusal("no axes that are computed when the network runs")
    listed = sorted(axes)
    perm = view.perm
    x = View(view.name, view.base) if perm is not None else b.settled(view)
    wide = sorted(perm[a] for a in listed) if perm is not None else listed
    kept = tuple(1 if i in wide else n for i, n in enumerate(x.base))
    y = _summed(b, op.op, x, wide)
    y = y.then(Reshape(kept))
    for step in view.steps if perm is not None else ():
        y = y.then(step)
    b.give(op.outputs[0], y.then(Reshape(tuple(int(n) for n in op.outputs[0].shape))))


def _summed(b: Builder, what: str, x: View, axes: list[int]) -> View:
    """The blob without these axes, or with 1 in their place."""
    kind = what.removeprefix("Reduce")
    if kind == "Min":
        negative = power(b, x, scale=-1, suffix="flipped")
        return power(b, b.settled(_summed(b, "ReduceMax", negative, axes)), scale=-1)
    if kind == "L2":
        return power(b, b.settled(_summed(b, "ReduceSumSquare", x, axes)), exponent=0.5, suffix="root")
    count = math.prod(x.base[a] for a in axes)
    rank = len(x.base)
    planes = rank == 4 and axes == [2, 3] and kind in ("Mean", "Sum")
    if axes == list(range(axes[0], rank)) and kind != "Max" and not planes and b.dialect.has("Reduction"):
        operation = {"Mean": "MEAN", "Sum": "SUM", "SumSquare": "SUMSQ", "L1": "ASUM"}[kind]
        params: dict[str, Any] = {} if operation == "SUM" else {"operation": operation}
        params |= {"axis": axes[0]} if axes[0] else {}
        return b.add("Reduction", [x], x.base[: axes[0]], {"reduction_param": params})
    if kind == "SumSquare":
        x, kind = power(b, x, exponent=2.0, suffix="squares"), "Sum"
    if kind == "L1":
        x, kind = b.add("AbsVal", [x], x.base, suffix="abs"), "Sum"
    b.need(axes[0] > 0, "no sum over a batch")
    b.need(axes == list(range(axes[0], axes[-1] + 1)), f"no sum over axes {axes}, which do not follow each other")
    before, behind = math.prod(x.base[1 : axes[0]]), math.prod(x.base[axes[-1] + 1 :])
    shape: tuple[int, ...] = (x.base[0], before, count, behind)
    pool: dict[str, Any] = {"pool": "MAX" if kind == "Max" else "AVE"}
    if rank == 4 and axes == [2, 3]:
        pool["global_pooling"] = True
        y = b.add("Pooling", [x], (*x.base[:2], 1, 1), {"pooling_param": pool})
    else:
        flat = b.settled(x.then(Reshape(shape)))
        pool |= {"kernel_h": count, "kernel_w": 1}
        y = b.add("Pooling", [flat], (x.base[0], before, 1, behind), {"pooling_param": pool})
    return power(b, y, scale=float(count), suffix="sum") if kind == "Sum" else y


def _kept(b: Builder, op: Op) -> None:
    """A layer of the target's own: the operator's name is its type, its attributes are its parameters."""
    weights = [v for v in op.inputs if v is not None and v.const is not None]
    inputs = [b.view(v) for v in op.inputs if v is not None and v.const is None]
    b.custom.add(op.op)
    message = own_message(op.op, b.net.classes)
    shapes = [tuple(v.shape) for v in op.outputs]
    blobs = [np.asarray(v.const) for v in weights]
    tops = b.add_many(op.op, inputs, shapes, {message: dict(op.attrs)}, blobs)
    b.net.layers[-1].given = {message: dict(op.attrs)} if op.attrs else {}
    for value, top in zip(op.outputs, tops):
        b.give(value, top)


ARRANGING: dict[str, Form] = {
    "": _kept,
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Identity": _identity,
    "Dropout": _identity,
    "Cast": _cast,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Tile": _tile,
    "Expand": _expand,
    "Resize": _resize,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    **{f"Reduce{kind}": _reduce for kind in ("Mean", "Sum", "Max", "Min", "SumSquare", "L1", "L2")},
}
