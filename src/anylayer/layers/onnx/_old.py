"""Upgrades from older operator sets: attributes that became inputs, changed rules, renamed operators.

Source: docs/Changelog.md of onnx, version by version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.layers.onnx._call import OpCall
from anylayer.libraries.onnx import TensorProto, histories
from anylayer.network import Array

Upgrade = Callable[[OpCall], int | None]
"""A function that changes a call in place, and returns its operator set then, None for that of the graph."""
ALWAYS = 1 << 30
"""An operator set that is newer than all others: the operators of every file are changed."""
_UPGRADES: dict[str, list[tuple[int, Upgrade]]] = {}


def before(version: int, *ops: str) -> Callable[[Upgrade], Upgrade]:
    """Register an upgrade, in place, of calls of operator sets older than `version`."""

    def enter(function: Upgrade) -> Upgrade:
        for op in ops:
            _UPGRADES.setdefault(op, []).append((version, function))
        return function

    return enter


def upgrade(call: OpCall, version: int) -> OpCall:
    """Return the call as operator set `version` expresses it."""
    for limit, upgrade in _UPGRADES.get(call.op, ()):
        if call.version < limit:
            version = upgrade(call) or version
    call.version = version
    return call


def _ints(values: Any) -> Array:
    return np.asarray(values, np.int64)


def _put(call: OpCall, i: int, value: Array) -> None:
    call.inputs += [None] * (i + 1 - len(call.inputs))
    call.inputs[i] = value


# ------------------------------------------------------------------------------------------------ elementwise


@before(7, "Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
def _limited_broadcast(call: OpCall) -> None:
    """Expand the second input, whose axes begin at `axis` of the first."""
    a, b = call.inputs
    if call["broadcast"] and call["axis"] is not None and len(b.shape):
        axis = call["axis"] % len(a.shape)
        call.inputs[1] = b.reshape((*b.shape, *(1,) * (len(a.shape) - axis - len(b.shape))))
    need(
        call["broadcast"] or a.shape == b.shape,
        f"without broadcast=1 its inputs must have equal shapes, got {tuple(a.shape)} and {tuple(b.shape)}",
    )


@before(7, "PRelu")
def _slope_by_channel(call: OpCall) -> None:
    x, slope = call.inputs
    if len(slope.shape) == 1 and slope.shape[0] != 1:
        call.inputs[1] = slope.reshape((slope.shape[0], *(1,) * (len(x.shape) - 2)))


@before(11, "Clip")
def _bounds(call: OpCall) -> None:
    dtype = call.inputs[0].dtype
    for i, name in ((1, "min"), (2, "max")):
        value = call.attrs.pop(name, None)
        if value is not None and abs(value) < np.finfo(np.float32).max:
            _put(call, i, np.array(value, dtype))


@before(6, "Cast")
def _named_dtype(call: OpCall) -> None:
    name = str(call["to"]).upper()
    need(name in list(TensorProto.DataType.keys()), f"to={call['to']!r} is not a data type")
    call.attrs["to"] = int(TensorProto.DataType.Value(name))


@before(13, "Softmax", "LogSoftmax", "Hardmax")
def _flatten(call: OpCall) -> None:
    """Flatten all axes from `axis` on into one."""
    x = call.inputs[0]
    axis = call["axis"] % max(len(x.shape), 1)
    if axis == len(x.shape) - 1:
        call.attrs["axis"] = -1
        return
    shape = tuple(x.shape)
    rows = int(np.prod(shape[:axis], dtype=np.int64))
    call.inputs[0] = x.reshape(rows, -1)
    call.attrs["axis"] = -1
    call.restore = lambda outputs: [y.reshape(shape) for y in outputs]


@before(12, "Dropout")
def _ratio(call: OpCall) -> None:
    call.attrs.pop("ratio", None)


# --------------------------------------------------------------------------------------------------- movement


def _moves(version: int, ops: Iterable[str], *attributes: str) -> None:
    """Register the upgrade that turns attributes into the inputs after the first."""

    def move(call: OpCall) -> None:
        for i, name in enumerate(attributes, 1):
            value = call.attrs.pop(name, None)
            if value is not None:
                _put(call, i, _ints(value))

    before(version, *ops)(move)


_moves(13, ("Squeeze", "Unsqueeze"), "axes")
_moves(13, ("ReduceSum",), "axes")
_moves(18, (op for op in histories() if op.startswith("Reduce") and op != "ReduceSum"), "axes")
_moves(5, ("Reshape",), "shape")
_moves(10, ("Slice",), "starts", "ends", "axes")
_moves(13, ("Split",), "split")


@before(18, "Split")
def _count_of_split(call: OpCall) -> None:
    if call.input(1) is None:
        call.attrs["num_outputs"] = call.outputs


@before(2, "Pad")
def _old_pads(call: OpCall) -> None:
    call.attrs["pads"] = call.attrs.pop("paddings")


_moves(11, ("Pad",), "pads")


@before(11, "Pad")
def _value_of_pads(call: OpCall) -> None:
    value = call.attrs.pop("value", 0.0)
    _put(call, 2, np.array(value or 0.0, call.inputs[0].dtype))


@before(6, "Tile")
def _tiles(call: OpCall) -> None:
    """Turn a number of repetitions and an axis into repeats."""
    x, tiles, axis = call.inputs
    repeats = np.ones(len(x.shape), np.int64)
    repeats[int(np.asarray(axis).reshape(()))] = int(np.asarray(tiles).reshape(()))
    call.inputs = [x, repeats]


@before(10, "TopK")
def _count(call: OpCall) -> None:
    value = call.attrs.pop("k")
    _put(call, 1, _ints([value]))


@before(11, "Scatter")
def _scatter(call: OpCall) -> None:
    call.op = "ScatterElements"


# ---------------------------------------------------------------------------------------------------- windows


@before(10, "Upsample")
def _upsample(call: OpCall) -> None:
    """Turn the scales, which were two attributes, then a list, then an input, into those of Resize."""
    if call.version < 7:
        _put(call, 1, np.array([1, 1, call["height_scale"], call["width_scale"]], np.float32))
    elif call.version < 9:
        _put(call, 1, np.asarray(call.attrs.pop("scales"), np.float32))
    mode = call["mode"]
    call.op, call.attrs = "Resize", {"mode": "linear" if mode == "bilinear" else mode}
    _resize(call)


@before(11, "Resize")
def _resize(call: OpCall) -> None:
    """Write the rules that operator set 10 leaves open.

    Nearest rounds down where an axis grows and up where it shrinks, as the test of ONNX 1.5 for a scale of 0.6
    expects. Source: onnxruntime/core/providers/cpu/tensor/upsamplebase.h, GetNearestPixelFromOriginal (SIMPLE);
    OpenVINO's frontend does the same ("simple").
    """
    x, scales = call.inputs
    shrinks = call.is_constant(1) and bool((np.asarray(scales) < 1).any())
    call.inputs = [x, None, scales]
    rule = "simple" if shrinks and call["mode"] == "nearest" else "floor"
    call.attrs.update(coordinate_transformation_mode="asymmetric", nearest_mode=rule)


@before(ALWAYS, "Resize")
def _empty_inputs(call: OpCall) -> None:
    """Drop empty arrays, which stand for absent inputs: PyTorch 1.3 to 1.6 write scales and sizes so."""
    call.inputs[1:] = [None if x is not None and tuple(x.shape) == (0,) else x for x in call.inputs[1:]]
    while call.inputs[-1] is None:
        call.inputs.pop()
    need(len(call.inputs) > 2, "needs scales or sizes, but both are missing")


@before(16, "RoiAlign")
def _no_half_pixel(call: OpCall) -> None:
    call.attrs["coordinate_transformation_mode"] = "output_half_pixel"


@before(2, "LpPool", "GlobalLpPool")
def _whole_p(call: OpCall) -> None:
    need(float(call["p"]).is_integer(), f"p must be an integer, got {call['p']}")
    call.attrs["p"] = int(call["p"])


# -------------------------------------------------------------------------------------------------- the others


@before(9, "BatchNormalization")
def _spatial(call: OpCall) -> None:
    need(call.attrs.get("spatial") in (None, 1), "spatial=0 (statistics of single cells) is not supported")


@before(14, "BatchNormalization")
def _no_training(call: OpCall) -> None:
    need(
        call.outputs == 1,
        "has the outputs of training, which are not supported. Give a network that was exported for inference",
    )


@before(20, "DFT")
def _dft_axis(call: OpCall) -> int:
    axis = call.attrs.pop("axis", 1)
    _put(call, 2, _ints(axis))
    return 20


@before(ALWAYS, "GridSample")
def _named_mode(call: OpCall) -> int | None:
    """Use the names of operator set 16, to which the graph belongs."""
    if len(call.inputs[0].shape) != 4:
        return None
    call.attrs["mode"] = {"linear": "bilinear", "cubic": "bicubic"}.get(call["mode"], call["mode"])
    return 18


@before(21, "GroupNormalization")
def _by_channel(call: OpCall) -> int:
    """Repeat scale and bias, which had one number per group, per channel."""
    x, scale, bias = call.inputs
    each = x.shape[1] // max(scale.shape[0], 1)
    call.inputs = [x, np.repeat(scale, each), np.repeat(bias, each)]
    return 21


@before(ALWAYS, "LSTM", "GRU", "RNN")
def _batch_first(call: OpCall) -> None:
    """Compute an operator with layout=1, where the batch is the first axis, between transposes.

    Engines do not support it.
    """
    if not call["layout"]:
        return
    for i in (0, 5, 6):  # the sequences and the initial states
        if call.input(i) is not None:
            call.inputs[i] = call.inputs[i].swapaxes(0, 1)
    call.attrs["layout"] = 0
    call.restore = lambda outputs: [outputs[0].transpose(2, 0, 1, 3), *(h.swapaxes(0, 1) for h in outputs[1:])]
