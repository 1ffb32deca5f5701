"""Elements moved in blocks: space to depth and back, shuffled channels, every n-th pixel, reversed axes."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.optimize.rewrites.matching import ints, last, made, plain, reshaped, step
from anylayer.optimize.simplify import Rewriter, rule

_ORT, _BOTH = ("onnxruntime",), ("onnxruntime", "openvino")
_OUTSIDE = 1 << 40  # no place of any array: what is outside its plane is refused, as ScatterElements does
_BLOCK = 512  # values that stay together from which on a Gather of blocks is faster than a Transpose


def _channels(new: Rewriter, o: Op, x: Value, order: Array) -> Value:
    """The channels of (N, C, ...) in another order."""
    if (order == np.arange(len(order))).all():
        return x
    return step(new, o, "Gather", [x, new.constant(order.astype(np.int64))], x.shape, axis=1)


def _six(o: Op) -> tuple[list[int], list[int]] | None:
    """Sizes and order of the axes of a transposition of 6 axes whose first stays; a missing one is of size 1."""
    x = o.inputs[0]
    if x is None or not plain(o):
        return None
    sizes, perm = list(x.shape), [int(p) for p in o.attrs["perm"]]
    if len(sizes) == 5:
        sizes, perm = [1, *sizes], [0, *(p + 1 for p in perm)]
    return (sizes, perm) if len(sizes) == 6 and perm[0] == 0 else None


@rule(
    "Transpose",
    engines=_ORT,
    figure="block 2, us: 64x26x26 169 -> 30, channels outside 170 -> 36, 3x224x224 518 -> 53; "
    "OpenVINO 46 -> 45: equal",
)
def _space_to_depth(new: Rewriter, o: Op) -> list[Value] | None:
    """(n, c, h, b, w, b) with the blocks brought to the channels is SpaceToDepth."""
    six = _six(o)
    if six is None:
        return None
    (n, c, h, b, w, b2), perm = six
    if b != b2 or b < 2 or perm[4:] != [2, 4] or sorted(perm[1:4]) != [1, 3, 5]:
        return None
    flat = reshaped(new, o, _value(o), (n, c, h * b, w * b))
    deep = step(new, o, "SpaceToDepth", [flat], (n, b * b * c, h, w), blocksize=b)
    places = np.arange(b * b * c).reshape(b, b, c)  # its channels are (row, column, channel)
    order = places.transpose([{3: 0, 5: 1, 1: 2}[p] for p in perm[1:4]]).reshape(-1)
    return last(new, o, _channels(new, o, deep, order))


@rule(
    "Transpose",
    engines=_ORT,
    figure="block 2 of 64x26x26, us: 183 -> 92, channels outside 182 -> 92; OpenVINO 52 -> 49: equal",
)
def _depth_to_space(new: Rewriter, o: Op) -> list[Value] | None:
    """Channels made of (block row, block column, channel) brought into the map are DepthToSpace."""
    six = _six(o)
    if six is None:
        return None
    sizes, perm = six
    channel, row, column = perm[1], perm[3], perm[5]
    b, h, w = sizes[row], sizes[4], sizes[5]
    if perm[2] != 4 or perm[4] != 5 or b != sizes[column] or b < 2:
        return None
    n, c = sizes[0], sizes[channel]
    flat = reshaped(new, o, _value(o), (n, c * b * b, h, w))
    mode, order = "DCR", np.arange(c * b * b)
    if (channel, row, column) == (1, 2, 3):
        mode = "CRD"
    else:
        places = order.reshape(sizes[1:4])
        order = places.transpose([axis - 1 for axis in (row, column, channel)]).reshape(-1)
    sorted_ = _channels(new, o, flat, order)
    return last(new, o, step(new, o, "DepthToSpace", [sorted_], (n, c, h * b, w * b), blocksize=b, mode=mode))


def _value(o: Op) -> Value:
    x = o.inputs[0]
    if x is None:
        raise ValueError(f"{o.op} without its first input")
    return x


@rule(
    "Transpose",
    engines=_ORT,
    figure="us: 240x28x28 in 3 groups 54 -> 26, 58x28x28 24 -> 17; blocks of 49 to 196 values no gain; "
    "OpenVINO 64 -> 65: equal",
)
def _shuffle(new: Rewriter, o: Op) -> list[Value] | None:
    """Two axes that change places before a block that stays together are one axis in another order."""
    x, perm = o.inputs[0], [int(p) for p in o.attrs["perm"]]
    moved = [i for i, p in enumerate(perm) if p != i]
    if x is None or not plain(o) or len(moved) != 2 or moved[1] != moved[0] + 1:
        return None
    at = moved[0]
    before, (a, b), behind = x.shape[:at], x.shape[at : at + 2], x.shape[at + 2 :]
    if int(np.prod(behind)) < _BLOCK:
        return None
    flat = reshaped(new, o, x, (*before, a * b, *behind))
    order = np.arange(a * b).reshape(a, b).T.reshape(-1)
    return last(new, o, step(new, o, "Gather", [flat, new.constant(order)], flat.shape, axis=at))


def _bounds(o: Op) -> list[tuple[int, int, int, int]] | None:
    """(axis, start, end, step) of each axis a slice cuts."""
    x, found = o.inputs[0], [ints(v) for v in o.inputs[1:]]
    if x is None or len(found) != 4 or any(v is None for v in found) or not is_static(x.shape):
        return None
    starts, ends, axes, steps = (v for v in found if v is not None)
    return [(a % len(x.shape), s, e, n) for s, e, a, n in zip(starts, ends, axes, steps)]


@rule(
    "Slice",
    engines=_BOTH,
    figure="x[:, :, ::2, ::2], us: 64x56x56 ONNX Runtime 65 -> 33, OpenVINO 96 -> 64; "
    "256x28x28 68 -> 35, 138 -> 81",
)
def _every_nth(new: Rewriter, o: Op) -> list[Value] | None:
    """x[:, :, ::s, ::s] is MaxPool of 1 x 1 with the stride s."""
    bounds = _bounds(o)
    if bounds is None or not plain(o) or len(o.outputs[0].shape) != 4 or [b[0] for b in bounds] != [2, 3]:
        return None
    shape = _value(o).shape
    if any(s != 0 or n < 2 for _, s, _, n in bounds):
        return None
    steps = [n for _, _, _, n in bounds]
    if tuple(-(-d // n) for d, n in zip(shape[2:], steps)) != o.outputs[0].shape[2:]:
        return None
    return new.emit(o, "MaxPool", [o.inputs[0]], kernel_shape=[1, 1], strides=steps)


@rule("Slice", engines=("openvino",), figure="64x26x26, us: 85 -> 46; ONNX Runtime 53 -> 328: not there")
def _reversed(new: Rewriter, o: Op) -> list[Value] | None:
    """The last axis backwards is a Gather."""
    bounds = _bounds(o)
    if bounds is None or not plain(o):
        return None
    x, axis = _value(o), len(o.outputs[0].shape) - 1
    own = [b for b in bounds if b[0] == axis and b[3] == -1]
    if not own or o.outputs[0].shape[axis] != x.shape[axis]:
        return None
    others = [b for b in bounds if b[0] != axis]
    if others:
        columns = [np.array(c, np.int64) for c in zip(*((s, e, a, n) for a, s, e, n in others))]
        x = step(new, o, "Slice", [x, *map(new.constant, columns)])
    return new.emit(o, "Gather", [x, new.constant(np.arange(x.shape[axis])[::-1].copy())], axis=axis)


@rule(
    "Concat",
    engines=_BOTH,
    figure="block 2 of 64x26x26, us: ONNX Runtime 66 -> 30, OpenVINO 90 -> 45",
)
def _corners(new: Rewriter, o: Op) -> list[Value] | None:
    """Every b-th pixel from each of the b x b corners, joined along the channels, is SpaceToDepth."""
    if not plain(o) or len(o.outputs[0].shape) != 4 or o.attrs["axis"] != 1:
        return None
    parts = [new.maker(v) for v in o.inputs]
    b = round(len(parts) ** 0.5)
    if b < 2 or b * b != len(parts):
        return None
    x, corners = _corner_of(new, parts[0], b), []
    for part in parts:
        found = _corner_of(new, part, b)
        if found is None or x is None or found[0] is not x[0]:
            return None
        corners.append(found[1])
    if x is None or sorted(corners) != list(range(b * b)):
        return None
    c = x[0].shape[1]
    deep = step(new, o, "SpaceToDepth", [x[0]], blocksize=b)
    order = np.arange(b * b * c).reshape(b * b, c)[corners].reshape(-1)
    return last(new, o, _channels(new, o, deep, order))


def _corner_of(new: Rewriter, o: Op | None, b: int) -> tuple[Value, int] | None:
    """(x, number of the corner) where an operator takes every b-th pixel of x from one corner on."""
    if o is None or o.inputs[0] is None or not plain(o):
        return None
    x = o.inputs[0]
    if len(x.shape) != 4 or x.shape[2] % b or x.shape[3] % b:
        return None
    if o.op == "MaxPool" and o.attrs.get("kernel_shape") == [1, 1] and o.attrs.get("strides") == [b, b]:
        return x, 0
    bounds = _bounds(o) if o.op == "Slice" else None
    if bounds is None or [(a, n) for a, _, _, n in bounds] != [(2, b), (3, b)]:
        return None
    if o.outputs[0].shape[2:] != (x.shape[2] // b, x.shape[3] // b):
        return None
    return x, bounds[0][1] * b + bounds[1][1]


@rule(
    "Reshape",
    engines=_BOTH,
    figure="26x26 of 64 channels into 52x52, us: ONNX Runtime 172 -> 58, OpenVINO 108 -> 90",
)
def _zeros_between(new: Rewriter, o: Op) -> list[Value] | None:
    """Values written to every s-th row and column of zeros are a transposed convolution by 1 x 1."""
    parts = made(new, o.inputs[0], "ScatterElements")
    source = made(new, parts[2], "Reshape") if parts is not None else None
    shape = o.outputs[0].shape
    if parts is None or source is None or not plain(o) or len(shape) != 4 or len(source[0].shape) != 4:
        return None
    zeros, indices, x = parts[0].const, parts[1].const, source[0]
    n, c, h, w = x.shape
    if zeros is None or indices is None or zeros.any() or (n, c) != shape[:2] or min(h, w) < 1:
        return None
    steps = [-(-shape[2] // h), -(-shape[3] // w)]
    if zeros.ndim != 1 or max(steps) < 2 or new.maker(o.inputs[0], "ScatterElements").attrs.get("reduction"):  # type: ignore[union-attr]
        return None
    places = np.arange(zeros.size).reshape(shape)[:, :, :: steps[0], :: steps[1]]
    if places.shape != x.shape or (places.reshape(-1) != indices.reshape(-1)).any():
        return None
    room = [shape[2] - (h - 1) * steps[0] - 1, shape[3] - (w - 1) * steps[1] - 1]
    kernel = new.constant(np.ones((c, 1, 1, 1), np.float32))
    return new.emit(
        o, "ConvTranspose", [x, kernel], strides=steps, group=c, kernel_shape=[1, 1], output_padding=room
    )


@rule(
    "Reshape",
    engines=_ORT,
    figure="64x64x64 into 128x128, us: 820 -> 528 (366 without the look for places outside); OpenVINO has none",
)
def _unpooled(new: Rewriter, o: Op) -> list[Value] | None:
    """Values scattered to places that are given plane by plane, zeros elsewhere, are MaxUnpool."""
    parts, shape = made(new, o.inputs[0], "ScatterElements"), o.outputs[0].shape
    values = made(new, parts[2], "Reshape") if parts is not None else None
    if parts is None or values is None or not plain(o) or len(shape) != 4:
        return None
    zeros, places, x = parts[0], parts[1], values[0]
    maker, planes = new.maker(o.inputs[0]), shape[0] * shape[1]
    rows, cells = (planes, int(np.prod(x.shape[2:]))), shape[2] * shape[3]
    same = (
        places.shape == rows and zeros.shape == (planes, cells) and x.shape[:2] == shape[:2] and len(x.shape) == 4
    )
    if not same or maker is None or maker.attrs.get("axis") != 1 or "reduction" in maker.attrs:
        return None
    if not _is_zero(new, zeros) or places.dtype != np.int64:
        return None
    first = new.constant(np.arange(planes, dtype=np.int64)[:, None] * cells)
    most = step(new, o, "ReduceMax", [places, new.constant(np.arange(2))], (1, 1), np.int64, keepdims=1)
    inside = step(new, o, "Less", [most, new.constant(np.array(cells))], (1, 1), np.bool_)
    start = step(new, o, "Where", [inside, first, new.constant(np.array(_OUTSIDE))], (planes, 1), np.int64)
    flat = step(new, o, "Add", [places, start], rows, np.int64)
    size = new.constant(np.array(shape, np.int64))
    return new.emit(o, "MaxUnpool", [x, reshaped(new, o, flat, x.shape), size], kernel_shape=[1, 1])


def _is_zero(new: Rewriter, value: Value) -> bool:
    """Whether a value is 0 everywhere: a constant, or v - v, spread and converted."""
    for _ in range(4):
        if value.const is not None:
            return not value.const.any()
        maker = new.maker(value)
        if maker is None or maker.inputs[0] is None:
            return False
        if maker.op == "Sub":
            return maker.inputs[0] is maker.inputs[1] and maker.inputs[0].dtype.kind in "iu"
        if maker.op not in ("Expand", "Cast", "Reshape"):
            return False
        value = maker.inputs[0]
    return False
