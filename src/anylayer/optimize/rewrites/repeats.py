"""Rows and columns that are selected or repeated by constant indices."""

from __future__ import annotations

import numpy as np

from anylayer.graph.facts import gathered, repetition
from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.ops._interpolation import attributes_of, repeating, resized_axes
from anylayer.optimize.rewrites.resizing import is_portable
from anylayer.optimize.rules import F4, Producing, Rewriter, is_float32, rule

_FEWEST = 1024
"""The smallest number of selected elements for which the two Transposes save more time than they cost."""
_LONG, _MANY = 512, 1 << 18


def _resize(new: Rewriter, o: Op, x: Value, shape: tuple[int, ...]) -> list[Value]:
    """Replace `o` by a Resize of x that repeats rows and columns."""
    attrs = attributes_of(repeating([n // d for n, d in zip(shape, x.shape)]))
    return new.emit(o, "Resize", [x, None, None, new.ints(shape)], **attrs)


@rule(
    "Gather",
    targets=("onnxruntime",),
    figure="2 x 2, us: 128x26x26 709 (rows first 1399) -> 50, 16x13x13 55 -> 14, 64x104x104 22008 -> "
    "226; columns only 39000 -> 815; rows only 41 -> 118: not used for them; OpenVINO 152 -> 111, 29 -> 32, "
    "2034 -> 8404: not used there",
)
def _nearest(new: Rewriter, o: Op) -> list[Value] | None:
    """Repeat each column, and perhaps each row, of (N, C, H, W) n times by a nearest Resize."""
    shape = o.outputs[0].shape
    if not new.is_float32(o) or len(shape) != 4 or not _repeats(o):
        return None
    x = o.first
    inner = new.producer(x)
    if inner is not None and _repeats(inner):
        x = inner.first
    return _resize(new, o, x, shape) if x.shape[3] != shape[3] else None


def _repeats(o: Op) -> bool:
    """Return whether an operator only repeats each row or column of its input (N, C, H, W)."""
    x, shape = o.first, o.outputs[0].shape
    if not is_float32(o) or len(shape) != 4:
        return False
    if o.op == "Resize":
        return o["mode"] == "nearest" and resized_axes(o) is not None and is_portable(o)
    selection = gathered(o)
    return selection is not None and selection[0] >= 2 and repetition(selection[1], x.shape[selection[0]]) > 0


@rule(
    "Reshape",
    targets=("onnxruntime",),
    figure="2 x 2 of 128x26x26, us: 1128 -> 50; OpenVINO 699 -> 112, by two Gathers 151: see the next rule",
)
def _expanded(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute copies along new axes, which a Reshape merges with the rows and columns, by a nearest Resize."""
    source = _copied_map(new, o)
    return None if source is None else _resize(new, o, source, o.outputs[0].shape)


@rule(
    "Reshape",
    targets=("openvino",),
    figure="2 x 2 of 128x26x26, us: 699 -> 151 (by Resize 112, which is slow for other sizes)",
)
def _expanded_by_gathers(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute copies along new axes, which a Reshape merges with rows and columns, by Gathers, columns first."""
    x = _copied_map(new, o)
    if x is None:
        return None
    shape = o.outputs[0].shape
    for axis in (3, 2):
        count = shape[axis] // x.shape[axis]
        if count > 1:
            indices = new.constant(np.arange(shape[axis]) // count)
            x = new.step(
                o, "Gather", [x, indices], (*x.shape[:axis], shape[axis], *x.shape[axis + 1 :]), axis=axis
            )
    return new.result(o, x)


def _copied_map(new: Rewriter, o: Op) -> Value | None:
    """Return the map (N, C, H, W) whose cells are copied along new axes, which the Reshape `o` merges."""
    if not new.is_float32(o) or len(o.outputs[0].shape) != 4:
        return None
    x, wide = o.first, o.first.shape
    n, c, height, width = o.outputs[0].shape
    if len(wide) != 6 or wide[:2] != (n, c) or wide[2] * wide[3] != height or wide[4] * wide[5] != width:
        return None
    thin = (n, c, wide[2], 1, wide[4], 1)
    while x.shape != thin:
        inner = _before_copies(new, x)
        if inner is None:
            return None
        x = inner
    return new.reshape(o, x, (n, c, wide[2], wide[4])) if x.shape != wide else None


def _before_copies(new: Rewriter, x: Value) -> Value | None:
    """Return the value that an Expand, or a Concat of the same value several times, copies."""
    expanded = new.operands(x, "Expand")
    if expanded is not None:
        return expanded[0] if len(expanded[0].shape) == len(x.shape) else None
    parts = new.operands(x, "Concat")
    return parts[0] if parts is not None and all(p is parts[0] for p in parts) else None


@rule(
    "Gather",
    targets=("onnxruntime", "openvino"),
    figure="2 x 2 of 128x26x26, us: ONNX Runtime 1399 -> 709, OpenVINO 215 -> 152; "
    "64x104x104: 46321 -> 22008, 2706 -> 2034",
)
def _columns_first(new: Rewriter, o: Op) -> list[Value] | None:
    """Swap two Gathers so that the one along the inner axis, which costs more, runs before an enlarging one."""
    outer, before = gathered(o), new.producer(o.inputs[0], "Gather")
    inner = gathered(before) if before is not None else None
    if outer is None or inner is None or before is None or not new.is_float32(o):
        return None
    x = before.first
    if inner[0] >= outer[0] or len(inner[1]) <= x.shape[inner[0]]:
        return None
    axis = outer[0]
    shape = (*x.shape[:axis], len(outer[1]), *x.shape[axis + 1 :])
    first = new.step(o, "Gather", [x, o.inputs[1]], shape, axis=axis)
    return new.emit(o, "Gather", [first, before.inputs[1]], axis=inner[0])


@rule(
    "Gather",
    targets=("onnxruntime",),
    figure="us: 64x65x65 to 129x129 529 -> 384, 3x224x224 to 300x300 202 -> 144, 128x26x26 2 x 2 136 -> 50, "
    "256x32x32 to 40x30 281 -> 265; OpenVINO 815 -> 880: not used there",
)
def _grid(new: Rewriter, o: Op) -> list[Value] | None:
    """Select by indices into merged rows and columns that form a grid with one Gather per axis."""
    grid = grid_of(new, o)
    if grid is None:
        return None
    x, rows, columns = grid
    axis = len(x.shape) - 2
    wide = (*x.shape[:-1], len(columns))
    across = new.step(o, "Gather", [x, new.constant(columns)], wide, axis=axis + 1)
    return new.emit(o, "Gather", [across, new.constant(rows)], axis=axis)


def grid_of(new: Producing, o: Op) -> tuple[Value, Array, Array] | None:
    """Return (x, rows, columns) where an operator selects x[..., rows[:, None], columns].

    It does so by a two-dimensional array of indices into the last two axes of x, merged by a Reshape.
    """
    flat, indices = new.producer(o.first, "Reshape"), o.constant(1)
    if flat is None or indices is None or indices.ndim != 2 or not is_float32(o):
        return None
    x, axis = flat.first, o["axis"]
    if len(x.shape) != axis + 2:
        return None
    cells = x.shape[-2] * x.shape[-1]
    if o.first.shape != (*x.shape[:-2], cells):
        return None
    rows, columns = np.divmod(indices % cells, x.shape[-1])
    if (rows != rows[:, :1]).any() or (columns != columns[:1]).any():
        return None
    return x, rows[:, 0].copy(), columns[0].copy()


@rule(
    "Gather",
    targets=("onnxruntime",),
    figure="us: 43 of 128x26x26 columns 1076 -> 76, 129 of 64x65x65 2181 -> 215, 2 of 8732x4 142 -> 29; 500 "
    "points of 64x65x65 277 -> 31, 1000 of 256 2402 -> 102, 50176 of 3x224x224 607 -> 83, of one row 416 -> 47; "
    "computed indices, 50176 of 3x224x224 1220 -> 150; OpenVINO 147 -> 203, 63 -> 108: not used there",
)
def _last_axis(new: Rewriter, o: Op) -> list[Value] | None:
    """Select along the last axis by GatherElements, or by a Gather between two Transposes.

    A Gather along the last axis copies one number at a time.
    """
    x, indices = o.inputs[0], o.inputs[1]
    if x is None or indices is None or x.dtype != F4 or not is_static((*x.shape, *indices.shape)):
        return None
    if not x.shape or o["axis"] % len(x.shape) != len(x.shape) - 1:
        return None
    count, lead, size = int(np.prod(indices.shape)), int(np.prod(x.shape[:-1])), x.shape[-1]
    if count < 2 or count * lead < _FEWEST or count * 16 < size:
        return None
    return new.result(o, _select_columns(new, o, x, indices))


def _select_columns(new: Rewriter, o: Op, x: Value, indices: Value) -> Value:
    """Return x[..., indices]: by GatherElements for long rows, else by a Gather of the transposed array."""
    *lead, size = x.shape
    rows = int(np.prod(lead))
    count = int(np.prod(indices.shape))
    few = rows * count <= _MANY if indices.const is not None else rows <= 16
    table = new.reshape(o, x, (rows, size))
    if rows < 8 or (few and size >= _LONG):
        selected = new.step(
            o, "GatherElements", [table, _for_each_row(new, o, indices, rows)], (rows, count), axis=1
        )
        return new.reshape(o, selected, (*lead, count))
    indices = new.reshape(o, indices, (count,)) if len(indices.shape) != 1 else indices
    columns = new.step(o, "Transpose", [table], (size, rows), perm=[1, 0])
    selected = new.step(o, "Gather", [columns, indices], (count, rows), axis=0)
    back = new.step(o, "Transpose", [selected], (rows, count), perm=[1, 0])
    return new.reshape(o, back, (*lead, count))


def _for_each_row(new: Rewriter, o: Op, indices: Value, rows: int) -> Value:
    """Return the same indices for each of several rows, as an array (rows, count)."""
    count = int(np.prod(indices.shape))
    if indices.const is not None:
        return new.constant(np.tile(indices.const.reshape(1, -1), (rows, 1)))
    one = new.reshape(o, indices, (1, count))
    shape = new.ints([rows, count])
    return one if rows == 1 else new.step(o, "Expand", [one, shape], (rows, count), indices.dtype)


@rule(
    "GatherElements",
    targets=("openvino",),
    figure="four times 3136 of 32x56x56, us: 680 -> 300, 784 of 64x28x28 348 -> 164, 50176 of 3x224x224 1063 -> "
    "521; ONNX Runtime 441 -> 1723: not used there",
)
def _same_for_all_rows(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute GatherElements with the same indices for all rows by Gather."""
    x, expanded, axis = o.inputs[0], new.operands(o.inputs[1], "Expand"), o["axis"]
    if x is None or expanded is None or not is_static((*x.shape, *o.outputs[0].shape)):
        return None
    axis %= len(x.shape)
    indices, shape = expanded[0], o.outputs[0].shape
    others = [d for i, d in enumerate(indices.shape) if i - len(indices.shape) != axis - len(x.shape)]
    whole = all(a == b for i, (a, b) in enumerate(zip(x.shape, shape)) if i != axis)
    if any(d != 1 for d in others) or not whole or int(np.prod(indices.shape)) != shape[axis]:
        return None
    return new.emit(o, "Gather", [x, new.reshape(o, indices, (shape[axis],))], axis=axis)
