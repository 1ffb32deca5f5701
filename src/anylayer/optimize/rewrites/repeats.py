"""Picking rows and columns by constant indices."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.rewrites.matching import F4, last, made, plain, reshaped, step
from anylayer.optimize.simplify import Rewriter, rule

_FEWEST = 1024  # numbers, below which two more operators cost as much
_LONG, _MANY = 512, 1 << 18


def picks(o: Op | None) -> tuple[int, Array] | None:
    """(axis, indices) where an operator takes a fixed list of indices of one axis."""
    if o is None or o.op != "Gather" or o.inputs[0] is None or o.inputs[1] is None:
        return None
    indices, shape = o.inputs[1].const, o.inputs[0].shape
    if indices is None or indices.ndim != 1 or not is_static(shape):
        return None
    axis = o.attrs.get("axis", 0) % len(shape)
    return axis, indices % shape[axis]


def _times(indices: Array, size: int) -> int | None:
    """How often each of `size` elements is repeated, where that is all the indices do."""
    count = len(indices) // size if size else 0
    same = count > 1 and len(indices) == count * size and (indices == np.arange(len(indices)) // count).all()
    return count if same else None


def _resizing(exact: bool) -> dict[str, str]:
    """Attributes of a Resize that repeats: its picks i / n are exact for powers of two; otherwise the middles of
    the new cells are far from the edges of the old ones."""
    if exact:
        return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_floor",
    }


def _resize(new: Rewriter, o: Op, x: Value, shape: tuple[int, ...]) -> list[Value]:
    """ONNX's Resize that repeats rows and columns."""
    counts = [n // d for n, d in zip(shape, x.shape)]
    how = _resizing(all(c & (c - 1) == 0 for c in counts))
    return new.emit(o, "Resize", [x, None, None, new.constant(np.array(shape, np.int64))], **how)


@rule(
    "Gather",
    engines=("onnxruntime",),
    figure="2 x 2, us: 128x26x26 709 (rows first 1399) -> 50, 16x13x13 55 -> 14, 64x104x104 22008 -> "
    "226; columns alone "
    "39000 -> 815; rows alone 41 -> 118: not those; OpenVINO 152 -> 111, 29 -> 32, 2034 -> 8404: not there",
)
def _nearest(new: Rewriter, o: Op) -> list[Value] | None:
    """Columns and perhaps rows of (N, C, H, W), each taken n times, are ONNX's nearest Resize."""
    shape = o.outputs[0].shape
    if not plain(o) or len(shape) != 4 or o.inputs[0] is None or _repeated(o) is None:
        return None
    x = o.inputs[0]
    maker = new.maker(x)
    if maker is not None and _repeated(maker) is not None and maker.inputs[0] is not None:
        x = maker.inputs[0]
    return _resize(new, o, x, shape) if x.shape[3] != shape[3] else None


def _repeated(o: Op) -> dict[int, int] | None:
    """How often an operator repeats each row or column, by axis; None where it does something else."""
    x, shape = o.inputs[0], o.outputs[0].shape
    if x is None or not plain(o) or len(shape) != 4:
        return None
    if o.op == "Resize":
        whole = all(n % d == 0 for n, d in zip(shape, x.shape))
        ours = o.attrs in (_resizing(True), _resizing(False))
        return {a: shape[a] // x.shape[a] for a in (2, 3)} if whole and ours else None
    found = picks(o)
    if found is None or found[0] < 2:
        return None
    count = _times(found[1], x.shape[found[0]])
    return None if count is None else {found[0]: count}


@rule(
    "Reshape",
    engines=("onnxruntime",),
    figure="2 x 2 of 128x26x26, us: 1128 -> 50; OpenVINO 699 -> 112 (Gathers 151), where the rule below stands",
)
def _spread(new: Rewriter, o: Op) -> list[Value] | None:
    """Copies along new axes that a Reshape joins to rows and columns are ONNX's nearest Resize."""
    found = _copies(new, o)
    return None if found is None else _resize(new, o, found, o.outputs[0].shape)


@rule("Reshape", engines=("openvino",), figure="2 x 2 of 128x26x26, us: 699 -> 151 (Resize 112, but see Gather)")
def _spread_by_picks(new: Rewriter, o: Op) -> list[Value] | None:
    """The same by indices, columns first."""
    x = _copies(new, o)
    if x is None:
        return None
    shape = o.outputs[0].shape
    for axis in (3, 2):
        count = shape[axis] // x.shape[axis]
        if count > 1:
            indices = np.arange(shape[axis]) // count
            x = step(
                new,
                o,
                "Gather",
                [x, new.constant(indices)],
                (*x.shape[:axis], shape[axis], *x.shape[axis + 1 :]),
                axis=axis,
            )
    return last(new, o, x)


def _copies(new: Rewriter, o: Op) -> Value | None:
    """(N, C, H, W), whose cells become blocks of equal values in the 4 axes that a Reshape gives."""
    if not plain(o) or len(o.outputs[0].shape) != 4 or o.inputs[0] is None:
        return None
    x, wide = o.inputs[0], o.inputs[0].shape
    n, c, height, width = o.outputs[0].shape
    if len(wide) != 6 or wide[:2] != (n, c) or wide[2] * wide[3] != height or wide[4] * wide[5] != width:
        return None
    thin = (n, c, wide[2], 1, wide[4], 1)
    while x.shape != thin:
        inner = _fewer_copies(new, x)
        if inner is None:
            return None
        x = inner
    return reshaped(new, o, x, (n, c, wide[2], wide[4])) if x.shape != wide else None


def _fewer_copies(new: Rewriter, x: Value) -> Value | None:
    """What an Expand, or a Concat of one value only, is made of."""
    expanded = made(new, x, "Expand")
    if expanded is not None:
        return expanded[0] if len(expanded[0].shape) == len(x.shape) else None
    parts = made(new, x, "Concat")
    return parts[0] if parts is not None and all(p is parts[0] for p in parts) else None


@rule(
    "Gather",
    engines=("onnxruntime", "openvino"),
    figure="2 x 2 of 128x26x26, us: ONNX Runtime 1399 -> 709, OpenVINO 215 -> 152; "
    "64x104x104: 46321 -> 22008, 2706 -> 2034",
)
def _columns_first(new: Rewriter, o: Op) -> list[Value] | None:
    """Of two picks, both of which repeat, the one of the inner axis goes first: it costs more by element."""
    outer, maker = picks(o), new.maker(o.inputs[0], "Gather")
    inner = picks(maker)
    if outer is None or inner is None or maker is None or maker.inputs[0] is None or not plain(o):
        return None
    x = maker.inputs[0]
    grows = len(inner[1]) > x.shape[inner[0]]
    if not (inner[0] < outer[0] and grows):
        return None
    axis = outer[0]
    shape = (*x.shape[:axis], len(outer[1]), *x.shape[axis + 1 :])
    first = step(new, o, "Gather", [x, o.inputs[1]], shape, axis=axis)
    return new.emit(o, "Gather", [first, maker.inputs[1]], axis=inner[0])


@rule(
    "Gather",
    engines=("onnxruntime",),
    figure="us: 64x65x65 to 129x129 529 -> 384, 3x224x224 to 300x300 202 -> 144, 128x26x26 2 x 2 136 -> 50, "
    "256x32x32 to 40x30 281 -> 265; OpenVINO 815 -> 880: not there",
)
def _grid(new: Rewriter, o: Op) -> list[Value] | None:
    """Indices into a joined height and width that are a grid of rows and columns are picks of each axis."""
    found = grid(new, o)
    if found is None:
        return None
    x, rows, columns = found
    axis = len(x.shape) - 2
    wide = (*x.shape[:-1], len(columns))
    across = step(new, o, "Gather", [x, new.constant(columns)], wide, axis=axis + 1)
    return new.emit(o, "Gather", [across, new.constant(rows)], axis=axis)


def grid(new: Rewriter, o: Op) -> tuple[Value, Array, Array] | None:
    """(x, rows, columns) where an operator takes these of the last two axes of x, by indices into both joined."""
    flat, indices = made(new, o.inputs[0], "Reshape"), o.inputs[1]
    if flat is None or indices is None or indices.const is None or indices.const.ndim != 2 or not plain(o):
        return None
    x, axis = flat[0], o.attrs.get("axis", 0)
    if (
        len(x.shape) != axis + 2
        or o.inputs[0] is None
        or o.inputs[0].shape != (*x.shape[:-2], x.shape[-2] * x.shape[-1])
    ):
        return None
    rows, columns = np.divmod(indices.const % (x.shape[-2] * x.shape[-1]), x.shape[-1])
    if (rows != rows[:, :1]).any() or (columns != columns[:1]).any():
        return None
    return x, rows[:, 0].copy(), columns[0].copy()


@rule(
    "Gather",
    engines=("onnxruntime",),
    figure="us: 43 of 128x26x26 columns 1076 -> 76, 129 of 64x65x65 2181 -> 215, 2 of 8732x4 142 -> 29; 500 "
    "points of 64x65x65 277 -> 31, 1000 of 256 2402 -> 102, 50176 of 3x224x224 607 -> 83, of one row 416 -> 47; "
    "given when it runs, 50176 of 3x224x224 1220 -> 150; OpenVINO 147 -> 203, 63 -> 108: not there",
)
def _picks_of_last_axis(new: Rewriter, o: Op) -> list[Value] | None:
    """Picks of the last axis, where Gather copies single numbers."""
    x, indices = o.inputs[0], o.inputs[1]
    if x is None or indices is None or x.dtype != F4 or not is_static((*x.shape, *indices.shape)):
        return None
    if not x.shape or o.attrs.get("axis", 0) % len(x.shape) != len(x.shape) - 1:
        return None
    count, lead, size = int(np.prod(indices.shape)), int(np.prod(x.shape[:-1])), x.shape[-1]
    if count < 2 or count * lead < _FEWEST or count * 16 < size:
        return None
    return last(new, o, _columns(new, o, x, indices))


def _columns(new: Rewriter, o: Op, x: Value, indices: Value | Array) -> Value:
    """The columns `indices` of x: of long rows one by one, of short ones as rows of the transpose."""
    *lead, size = x.shape
    rows = int(np.prod(lead))
    taken = indices if isinstance(indices, Value) else new.constant(indices)
    count = int(np.prod(taken.shape))
    few = rows * count <= _MANY if taken.const is not None else rows <= 16
    table = reshaped(new, o, x, (rows, size))
    if rows < 8 or (few and size >= _LONG):
        picked = step(new, o, "GatherElements", [table, _for_each(new, o, taken, rows)], (rows, count), axis=1)
        return reshaped(new, o, picked, (*lead, count))
    taken = reshaped(new, o, taken, (count,)) if len(taken.shape) != 1 else taken
    turned = step(new, o, "Transpose", [table], (size, rows), perm=[1, 0])
    picked = step(new, o, "Gather", [turned, taken], (count, rows), axis=0)
    back = step(new, o, "Transpose", [picked], (rows, count), perm=[1, 0])
    return reshaped(new, o, back, (*lead, count))


def _for_each(new: Rewriter, o: Op, indices: Value, rows: int) -> Value:
    """The same indices for each of several rows."""
    count = int(np.prod(indices.shape))
    if indices.const is not None:
        return new.constant(np.tile(indices.const.reshape(1, -1), (rows, 1)))
    one = reshaped(new, o, indices, (1, count))
    wide = new.constant(np.array([rows, count], np.int64))
    return one if rows == 1 else step(new, o, "Expand", [one, wide], (rows, count), indices.dtype)


@rule(
    "GatherElements",
    engines=("openvino",),
    figure="four times 3136 of 32x56x56, us: 680 -> 300, 784 of 64x28x28 348 -> 164, 50176 of 3x224x224 1063 -> "
    "521; ONNX Runtime 441 -> 1723: not there",
)
def _picks_for_all(new: Rewriter, o: Op) -> list[Value] | None:
    """The same indices for all rows are a Gather."""
    x, spread, axis = o.inputs[0], made(new, o.inputs[1], "Expand"), o.attrs.get("axis", 0)
    if x is None or spread is None or not is_static((*x.shape, *o.outputs[0].shape)):
        return None
    axis %= len(x.shape)
    indices, shape = spread[0], o.outputs[0].shape
    others = [d for i, d in enumerate(indices.shape) if i - len(indices.shape) != axis - len(x.shape)]
    alike = all(a == b for i, (a, b) in enumerate(zip(x.shape, shape)) if i != axis)
    if any(d != 1 for d in others) or not alike or int(np.prod(indices.shape)) != shape[axis]:
        return None
    return new.emit(o, "Gather", [x, reshaped(new, o, indices, (shape[axis],))], axis=axis)
