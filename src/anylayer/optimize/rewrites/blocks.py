"""Data movement in blocks: space to depth and back, shuffles, strided slices, reversed axes, unpooling."""

from __future__ import annotations

import numpy as np

from anylayer.graph.facts import AxisCut, slice_cuts
from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import SELECTS
from anylayer.network import Array
from anylayer.optimize.rules import Rewriter, rule

_ORT, _BOTH = ("onnxruntime",), ("onnxruntime", "openvino")
_OUTSIDE = 1 << 40
"""An index that is outside every array. MaxUnpool refuses it, as ScatterElements refuses one outside its axis."""
_BLOCK = 512
"""The smallest number of contiguous elements for which a Gather of blocks is faster than a Transpose."""


def _permute_channels(new: Rewriter, o: Op, x: Value, channels: Array) -> Value:
    """Return (N, C, ...) with its channels permuted."""
    if (channels == np.arange(len(channels))).all():
        return x
    return new.step(o, "Gather", [x, new.constant(channels.astype(np.int64))], x.shape, axis=1)


def _as_six_axes(new: Rewriter, o: Op) -> tuple[list[int], list[int]] | None:
    """Return (sizes, perm) of a Transpose of six axes that keeps the first one in place, or None for any other
    Transpose.

    A Transpose of five axes gets a first axis of size 1.
    """
    x = o.inputs[0]
    if x is None or not new.is_float32(o):
        return None
    sizes, perm = list(x.shape), [int(p) for p in o["perm"]]
    if len(sizes) == 5:
        sizes, perm = [1, *sizes], [0, *(p + 1 for p in perm)]
    return (sizes, perm) if len(sizes) == 6 and perm[0] == 0 else None


@rule(
    "Transpose",
    targets=_ORT,
    figure="block 2, us: 64x26x26 169 -> 30, channels outermost 170 -> 36, 3x224x224 518 -> 53; "
    "OpenVINO 46 -> 45: equal",
)
def _space_to_depth(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a Transpose of (n, c, h, b, w, b) that moves both axes of size b to the channels by SpaceToDepth."""
    six = _as_six_axes(new, o)
    if six is None:
        return None
    (n, c, h, b, w, b2), perm = six
    if b != b2 or b < 2 or perm[4:] != [2, 4] or sorted(perm[1:4]) != [1, 3, 5]:
        return None
    flat = new.reshape(o, o.first, (n, c, h * b, w * b))
    deep = new.step(o, "SpaceToDepth", [flat], (n, b * b * c, h, w), blocksize=b)
    indices = np.arange(b * b * c).reshape(b, b, c)  # the operator's channels are (row, column, channel)
    channels = indices.transpose([{3: 0, 5: 1, 1: 2}[p] for p in perm[1:4]]).reshape(-1)
    return new.result(o, _permute_channels(new, o, deep, channels))


@rule(
    "Transpose",
    targets=_ORT,
    figure="block 2 of 64x26x26, us: 183 -> 92, channels outermost 182 -> 92; OpenVINO 52 -> 49: equal",
)
def _depth_to_space(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a Transpose that moves rows and columns of blocks from channels into the map by DepthToSpace."""
    six = _as_six_axes(new, o)
    if six is None:
        return None
    sizes, perm = six
    channel, row, column = perm[1], perm[3], perm[5]
    b, h, w = sizes[row], sizes[4], sizes[5]
    if perm[2] != 4 or perm[4] != 5 or b != sizes[column] or b < 2:
        return None
    n, c = sizes[0], sizes[channel]
    flat = new.reshape(o, o.first, (n, c * b * b, h, w))
    mode, channels = "DCR", np.arange(c * b * b)
    if (channel, row, column) == (1, 2, 3):
        mode = "CRD"
    else:
        indices = channels.reshape(sizes[1:4])
        channels = indices.transpose([axis - 1 for axis in (row, column, channel)]).reshape(-1)
    permuted = _permute_channels(new, o, flat, channels)
    y = new.step(o, "DepthToSpace", [permuted], (n, c, h * b, w * b), blocksize=b, mode=mode)
    return new.result(o, y)


@rule(
    "Transpose",
    targets=_ORT,
    figure="us: 240x28x28 in 3 groups 54 -> 26, 58x28x28 24 -> 17; blocks of 49 to 196 values no gain; "
    "OpenVINO 64 -> 65: equal",
)
def _shuffle(new: Rewriter, o: Op) -> list[Value] | None:
    """Swap two neighbouring axes in front of large blocks by a Gather of these blocks."""
    x, perm = o.inputs[0], [int(p) for p in o["perm"]]
    moved = [i for i, p in enumerate(perm) if p != i]
    if x is None or not new.is_float32(o) or len(moved) != 2 or moved[1] != moved[0] + 1:
        return None
    at = moved[0]
    before, (a, b), after = x.shape[:at], x.shape[at : at + 2], x.shape[at + 2 :]
    if int(np.prod(after)) < _BLOCK:
        return None
    flat = new.reshape(o, x, (*before, a * b, *after))
    indices = np.arange(a * b).reshape(a, b).T.reshape(-1)
    return new.result(o, new.step(o, "Gather", [flat, new.constant(indices)], flat.shape, axis=at))


@rule(
    "Slice",
    targets=_BOTH,
    figure="x[:, :, ::2, ::2], us: 64x56x56 ONNX Runtime 65 -> 33, OpenVINO 96 -> 64; "
    "256x28x28 68 -> 35, 138 -> 81",
)
def _strided(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute x[:, :, ::s, ::s] by a 1x1 MaxPool with stride s."""
    cuts = slice_cuts(o)
    if cuts is None or not new.is_float32(o) or len(o.outputs[0].shape) != 4 or [c.axis for c in cuts] != [2, 3]:
        return None
    shape = o.first.shape
    if any(c.start != 0 or c.step < 2 for c in cuts):
        return None
    steps = [c.step for c in cuts]
    if tuple(-(-d // n) for d, n in zip(shape[2:], steps)) != o.outputs[0].shape[2:]:
        return None
    return new.emit(o, "MaxPool", [o.inputs[0]], kernel_shape=[1, 1], strides=steps)


@rule("Slice", targets=("openvino",), figure="64x26x26, us: 85 -> 46; ONNX Runtime 53 -> 328: not used there")
def _reversed(new: Rewriter, o: Op) -> list[Value] | None:
    """Reverse the last axis by a Gather."""
    cuts = slice_cuts(o)
    if cuts is None or not new.is_float32(o):
        return None
    x, axis = o.first, len(o.outputs[0].shape) - 1
    reversed_cuts = [c for c in cuts if c.axis == axis and c.step == -1]
    if not reversed_cuts or o.outputs[0].shape[axis] != x.shape[axis]:
        return None
    others = [c for c in cuts if c.axis != axis]
    if others:
        x = new.step(o, "Slice", [x, *(new.constant(np.array(v, np.int64)) for v in _slice_inputs(others))])
    return new.emit(o, "Gather", [x, new.constant(np.arange(x.shape[axis])[::-1].copy())], axis=axis)


def _slice_inputs(cuts: list[AxisCut]) -> list[list[int]]:
    """Return the starts, ends, axes and steps of a Slice. A stop before the first index is out of range."""
    ends = [c.stop if c.stop >= 0 else -(1 << 31) for c in cuts]
    return [[c.start for c in cuts], ends, [c.axis for c in cuts], [c.step for c in cuts]]


@rule("Concat", targets=_BOTH, figure="block 2 of 64x26x26, us: ONNX Runtime 66 -> 30, OpenVINO 90 -> 45")
def _strided_parts(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute the Concat of x[:, :, i::b, j::b] for all i, j < b along the channels by SpaceToDepth."""
    if not new.is_float32(o) or len(o.outputs[0].shape) != 4 or o["axis"] != 1:
        return None
    parts = [new.producer(v) for v in o.inputs]
    b = round(len(parts) ** 0.5)
    if b < 2 or b * b != len(parts):
        return None
    offsets = [_offset(new, part, b) for part in parts]
    known_offsets = [offset for offset in offsets if offset is not None]
    if len(known_offsets) < len(parts) or any(x is not known_offsets[0][0] for x, _ in known_offsets):
        return None
    x, positions = known_offsets[0][0], [position for _, position in known_offsets]
    if sorted(positions) != list(range(b * b)):
        return None
    c = x.shape[1]
    deep = new.step(o, "SpaceToDepth", [x], blocksize=b)
    channels = np.arange(b * b * c).reshape(b * b, c)[positions].reshape(-1)
    return new.result(o, _permute_channels(new, o, deep, channels))


def _offset(new: Rewriter, o: Op | None, b: int) -> tuple[Value, int] | None:
    """Return (x, i * b + j) where an operator computes x[:, :, i::b, j::b] with i, j < b, a divisor of both."""
    if o is None or not new.is_float32(o):
        return None
    x = o.first
    if len(x.shape) != 4 or x.shape[2] % b or x.shape[3] % b:
        return None
    if o.op == "MaxPool" and o["kernel_shape"] == [1, 1] and o["strides"] == [b, b]:
        return x, 0
    cuts = slice_cuts(o) if o.op == "Slice" else None
    if cuts is None or [(c.axis, c.step) for c in cuts] != [(2, b), (3, b)]:
        return None
    if o.outputs[0].shape[2:] != (x.shape[2] // b, x.shape[3] // b):
        return None
    return x, cuts[0].start * b + cuts[1].start


@rule(
    "Reshape",
    targets=_BOTH,
    figure="26x26 of 64 channels into 52x52, us: ONNX Runtime 172 -> 58, OpenVINO 108 -> 90",
)
def _zeros_between(new: Rewriter, o: Op) -> list[Value] | None:
    """Scatter a map to every s-th row and column of zeros by a 1x1 ConvTranspose with stride s."""
    parts = new.operands(o.inputs[0], "ScatterElements")
    source = new.operands(parts[2], "Reshape") if parts is not None else None
    shape = o.outputs[0].shape
    if parts is None or source is None or not new.is_float32(o) or len(shape) != 4 or len(source[0].shape) != 4:
        return None
    zeros, indices, x = parts[0].const, parts[1].const, source[0]
    n, c, h, w = x.shape
    if zeros is None or indices is None or zeros.any() or (n, c) != shape[:2] or min(h, w) < 1:
        return None
    steps = [-(-shape[2] // h), -(-shape[3] // w)]
    scatter = new.producer(o.inputs[0])
    if zeros.ndim != 1 or max(steps) < 2 or scatter is None or scatter["reduction"] != "none":
        return None
    expected = np.arange(zeros.size).reshape(shape)[:, :, :: steps[0], :: steps[1]]
    if expected.shape != x.shape or (expected.reshape(-1) != indices.reshape(-1)).any():
        return None
    rest = [shape[2] - (h - 1) * steps[0] - 1, shape[3] - (w - 1) * steps[1] - 1]
    kernel = new.constant(np.ones((c, 1, 1, 1), np.float32))
    return new.emit(
        o, "ConvTranspose", [x, kernel], strides=steps, group=c, kernel_shape=[1, 1], output_padding=rest
    )


@rule(
    "Reshape",
    targets=_ORT,
    figure="64x64x64 into 128x128, us: 820 -> 528 (366 without the check for indices outside); OpenVINO "
    "has no such operator",
)
def _unpooled(new: Rewriter, o: Op) -> list[Value] | None:
    """Scatter a map into planes of zeros, by indices within each plane, by MaxUnpool."""
    parts, shape = new.operands(o.inputs[0], "ScatterElements"), o.outputs[0].shape
    values = new.operands(parts[2], "Reshape") if parts is not None else None
    if parts is None or values is None or not new.is_float32(o) or len(shape) != 4:
        return None
    zeros, indices, x = parts[0], parts[1], values[0]
    scatter, planes = new.producer(o.inputs[0]), shape[0] * shape[1]
    rows, cells = (planes, int(np.prod(x.shape[2:]))), shape[2] * shape[3]
    fits = (
        indices.shape == rows and zeros.shape == (planes, cells) and x.shape[:2] == shape[:2] and len(x.shape) == 4
    )
    if not fits or scatter is None or scatter["axis"] != 1 or scatter["reduction"] != "none":
        return None
    if not _is_zero(new, zeros) or indices.dtype != np.int64:
        return None
    first = new.constant(np.arange(planes, dtype=np.int64)[:, None] * cells)
    largest = new.step(o, "ReduceMax", [indices, new.constant(np.arange(2))], (1, 1), np.int64, keepdims=1)
    inside = new.step(o, "Less", [largest, new.constant(np.array(cells))], (1, 1), np.bool_)
    start = new.step(o, "Where", [inside, first, new.constant(np.array(_OUTSIDE))], (planes, 1), np.int64)
    flat = new.step(o, "Add", [indices, start], rows, np.int64)
    size = new.ints(shape)
    return new.emit(o, "MaxUnpool", [x, new.reshape(o, flat, x.shape), size], kernel_shape=[1, 1])


def _is_zero(new: Rewriter, value: Value) -> bool:
    """Return whether all elements of a value are 0: a constant, or v - v, also selected from, arranged or cast."""
    for _ in range(4):
        if value.const is not None:
            return not value.const.any()
        o = new.producer(value)
        if o is None:
            return False
        if o.op == "Sub":
            return o.first is o.inputs[1] and o.first.dtype.kind in "iu"
        if o not in SELECTS and o.op != "Cast":
            return False
        value = o.first
    return False
